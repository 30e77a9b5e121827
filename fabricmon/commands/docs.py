"""Write the documents generated from tables in the code (counters, rules, runbooks), or check that they are current."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from fabricmon.commands import generated

if TYPE_CHECKING:
    from fabricmon.catalogue.counter import Counter
    from fabricmon.rules.rule import Rule

_GENERATED = "<!-- Written by `fabricmon docs --write docs` from {source}. Edit that instead. -->"

_GROWTH = {
    "wraps": "increases, restarts at 0 after its largest value",
    "saturates": 'increases, stops at its largest value: the true count is then "at least" this',
    "level": "increases and decreases",
    "state": "a state as a number",
    "ticks": "increases in device ticks of unknown length, stops at its largest value",
}


EXAMPLES = """\
fabricmon docs --write docs
fabricmon docs --check docs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", metavar="DIR", type=Path, help="write the documents to this directory")
    group.add_argument("--check", metavar="DIR", type=Path, help="exit 1 if a document there is not current")


def run(args: argparse.Namespace) -> int:
    """0; 1 if --check finds a document that is not current."""
    if args.check:
        return generated.check(documents(), args.check, "docs")
    generated.write(documents(), args.write)
    return 0


def documents() -> dict[str, str]:
    """File name -> text of every generated document."""
    from fabricmon.catalogue import CATALOGUE
    from fabricmon.commands.schemas.tables import SCHEMAS, text_of
    from fabricmon.rules import RULES

    found = {"counters.md": counters(CATALOGUE), "rules.md": rules(RULES), "prometheus-rules.md": promql(RULES)}
    return found | runbooks() | {f"schemas/{schema.file}": text_of(name) for name, schema in SCHEMAS.items()}


def runbooks() -> dict[str, str]:
    """File name -> text of every runbook and of their index."""
    from fabricmon.catalogue.kinds import KINDS
    from fabricmon.runbooks.runbook import index, runbook
    from fabricmon.runtime.package_files import runbook_text

    made = {"runbooks/index.md": index()} | {f"runbooks/{kind}.md": runbook(kind, runbook_text(kind)) for kind in KINDS}
    note = _GENERATED.format(source="`fabricmon/runbooks/` and `fabricmon/rules/`")
    return {name: text.replace("\n", f"\n{note}\n", 1) for name, text in made.items()}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    cells = ([text.replace("|", "\\|").replace("\n", " ") for text in line] for line in lines)
    return [f"| {' | '.join(line)} |" for line in cells]


def counters(catalogue: Mapping[str, Counter]) -> str:
    """Every counter of the catalogue, by kind of component and source."""
    lines = [
        "# Counters",
        _GENERATED.format(source="`fabricmon/catalogue/`"),
        "",
        "The counters that the agent exports on `/metrics`, with their names at the source. A value that cannot be",
        "read is left out, never exported as 0. Counters that are missing in this table are exported as one family",
        "with the file's name as a label.",
        "",
        "How a counter changes:",
        "",
        *(f"* **{name}**: {text}" for name, text in _GROWTH.items()),
    ]
    lines += _NOT_EXPORTED
    lines += _information(catalogue)
    shown: dict[str, Counter] = {}  # one line for all series of a family: its first column
    for counter in catalogue.values():
        shown.setdefault(counter.metric, counter)
    ordered = sorted(shown.values(), key=lambda counter: (counter.kind, counter.source))  # stable: catalogue order
    for (kind, source), group in groupby(ordered, key=lambda counter: (counter.kind, counter.source)):
        lines += ["", f"## {kind}: {source}", ""]
        lines += _table(
            ("metric", "type", "unit", "bits", "changes", "name at the source", "meaning"),
            (
                (
                    f"`{counter.metric}`" + "".join(f" by `{name}`" for name, _ in counter.labels),
                    counter.type,
                    counter.unit,
                    str(counter.bits or ""),
                    str(counter.growth),
                    ", ".join(f"`{key}`" for key in counter.keys),
                    counter.text + (f" (source × {counter.scale:g})" if counter.scale != 1 else ""),
                )
                for counter in group
            ),
        )
    return "\n".join(lines) + "\n"


_NOT_EXPORTED = (
    "",
    "## Not exported",
    "",
    "Of driver statistics (`ethtool -S`) these are left out: statistics of single rings, queues and channels; of XDP,",
    "checksum, segmentation, receive offload, TLS, IPsec and MACsec; of page pools and other memory of the driver. Of",
    "the rest those of this document are exported, and up to 96 others under the driver's name. hns3's",
    "`mac_*_xoff_time` has no documented unit: it is exported under its name, not as a pause time. Of a directory with",
    "more than 1,024 counter files, those of this document are read first.",
)


def _information(catalogue: Mapping[str, Counter]) -> list[str]:
    """The states that no rule evaluates, and why: series of one metric with one reason are one line."""
    from fabricmon.catalogue.information import INFORMATION

    rows = dict.fromkeys((f"`{catalogue[name].metric}`", why) for name, why in INFORMATION.items())
    text = "States that are exported and that no rule evaluates by themselves:"
    return ["", "## Information only", "", text, "", *_table(("metric", "why"), rows)]


def rules(table: Iterable[Rule]) -> str:
    """Every rule: component, severity, reason, action, limits and PromQL."""
    from fabricmon.rules.limits import limits

    lines = [
        "# Rules",
        _GENERATED.format(source="`fabricmon/rules/`"),
        "",
        "Each rule evaluates one kind of component and opens a *symptom*. The diagnosis groups symptoms with the same",
        "cause into one *incident*. An unknown value neither opens nor closes a symptom. Limits are set in the",
        "configuration as `rules.<name>.<limit>`. [methods.md](methods.md) explains the evaluation and the source of",
        "each default.",
    ]
    for rule in table:
        lines += [
            "",
            f"## {rule.name}",
            "",
            f"**{rule.title}.** Evaluates: {rule.table}. Severity: {rule.severity}. Incident kind: `{rule.kind}`. "
            + ("Evaluated on the node and on the server." if rule.scope == "node" else "Evaluated on the server."),
            "",
            f"*What is wrong:* {rule.why}",
            "",
            f"*Next step:* {rule.action} More: [runbook](runbooks/{rule.kind}.md).",
            "",
            f"*How it is decided:* {rule.decision} Formula and sources: [methods.md]({rule.method}).",
            "",
        ]
        rows = [(f"`{limit.name}`", limit.default, limit.meaning) for limit in limits(rule)]
        lines += _table(("limit", "default", "meaning"), rows)
        if rule.yields_to:
            lines += ["", "No incident of its own beside: " + ", ".join(f"`{name}`" for name in rule.yields_to) + "."]
        lines += _promql(rule)
    return "\n".join(lines) + "\n"


def promql(table: Iterable[Rule]) -> str:
    """The differences between the exported PromQL and fabricmon's own evaluation, rule by rule."""
    from fabricmon.rules.prometheus.rulefile import alert_name, differences

    lines = [
        "# Rules in PromQL, and what differs",
        _GENERATED.format(source="`fabricmon/rules/`"),
        "",
        "Differences between the alerts of `fabricmon rules export` and fabricmon's own rules. `docs/prometheus.md`",
        "lists those common to all rules, this table the others. The expressions are in `docs/rules.md`.",
        "",
    ]
    rows = [
        (f"`{name}`", f"`{alert_name(name)}`" if word != "not expressible" else "none", word, differs or "none")
        for name, word, differs in differences(table)
    ]
    lines += _table(("rule", "alert", "in PromQL", "differences"), rows)
    return "\n".join(lines) + "\n"


def _promql(rule: Rule) -> list[str]:
    """The rule in PromQL with its default limits, for a rule evaluator."""
    exported = rule.promql(rule.params())
    if not exported.alerts:
        return ["", f"Not expressible in PromQL: {exported.differs}."]
    lines = ["", "For a rule evaluator (`docs/prometheus.md`):", "", "```promql"]
    lines += [f"{recording.name} = {recording.expr}" for recording in exported.recordings]
    lines += [f"{alert.expr}  # {alert.severity or rule.severity}" for alert in exported.alerts]
    return [*lines, "```"]
