"""Write the documents that come from tables in the code (counters, rules, runbooks), or check that they are current."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabricmon.catalogue.counter import Counter
    from fabricmon.rules.rule import Rule

_GENERATED = "<!-- Written by `fabricmon docs --write docs` from {source}. Edit that instead. -->"

_GROWTH = {
    "wraps": "grows, starts again at 0 after its largest value",
    "saturates": 'grows, stops at its largest value: from there on it says "at least"',
    "level": "goes up and down",
    "state": "a number that names a state",
    "ticks": "grows in device ticks of unknown length, stops at its largest value",
}


EXAMPLES = """\
fabricmon docs --write docs
fabricmon docs --check docs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", metavar="DIR", type=Path, help="write the documents into this directory")
    group.add_argument("--check", metavar="DIR", type=Path, help="exit 1 if a document there is not current")


def run(args: argparse.Namespace) -> int:
    if args.write:
        for name, text in documents().items():
            path = args.write / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [name for name, text in documents().items() if _content(args.check / name) != text]
    for name in stale:
        print(f"{args.check / name}: not current, run `fabricmon docs --write {args.check}`", file=sys.stderr)
    return 1 if stale else 0


def documents() -> dict[str, str]:
    """File name -> text of every generated document."""
    from fabricmon.catalogue import CATALOGUE
    from fabricmon.rules import RULES

    found = {"counters.md": counters(CATALOGUE), "rules.md": rules(RULES), "prometheus-rules.md": rulers(RULES)}
    return found | runbooks()


def runbooks() -> dict[str, str]:
    """File name -> text of every runbook, and their index."""
    from fabricmon.runbooks import KINDS, written
    from fabricmon.runbooks.chapter import index, runbook

    made = {"runbooks/index.md": index()} | {f"runbooks/{kind}.md": runbook(kind, written(kind)) for kind in KINDS}
    said = _GENERATED.format(source="`fabricmon/runbooks/` and `fabricmon/rules/`")
    return {name: text.replace("\n", f"\n{said}\n", 1) for name, text in made.items()}


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(map(_cell, line))} |" for line in lines]


def counters(catalogue: Mapping[str, Counter]) -> str:
    """Every counter fabricmon knows, by kind of component and source."""
    lines = [
        "# Counters",
        _GENERATED.format(source="`fabricmon/catalogue/`"),
        "",
        "What the agent exports on `/metrics`, with the names each counter has at its source. A value that cannot be",
        "read is left out, never shown as 0. What a host has and this table has not is exported too, as one family",
        "with the file's name as a label.",
        "",
        "How a counter moves:",
        "",
        *(f"* **{name}**: {text}" for name, text in _GROWTH.items()),
    ]
    shown: dict[str, Counter] = {}  # one line for all series of a family: its first column
    for counter in catalogue.values():
        shown.setdefault(counter.metric, counter)
    ordered = sorted(shown.values(), key=lambda counter: (counter.kind, counter.source))  # stable: catalogue order
    for (kind, source), group in groupby(ordered, key=lambda counter: (counter.kind, counter.source)):
        lines += ["", f"## {kind}: {source}", ""]
        lines += _table(
            ("metric", "type", "unit", "bits", "moves", "name at the source", "meaning"),
            (
                (
                    f"`{counter.metric}`" + "".join(f" by `{name}`" for name, _ in counter.labels),
                    counter.type,
                    counter.unit,
                    str(counter.bits or ""),
                    str(counter.growth),
                    ", ".join(f"`{key}`" for key in counter.keys),
                    counter.help + (f" (source × {counter.scale:g})" if counter.scale != 1 else ""),
                )
                for counter in group
            ),
        )
    return "\n".join(lines) + "\n"


def rules(table: Iterable[Rule]) -> str:
    """Every rule: when it opens and closes, why the limit is what it is, what to do."""
    lines = [
        "# Rules",
        _GENERATED.format(source="`fabricmon/rules/`"),
        "",
        "Each rule judges one kind of component. A rule opens a *symptom*; the diagnosis joins symptoms that have one",
        "cause into one *incident*. Unknown never opens and never closes anything. Limits are set below `rules:` in",
        "the configuration, as `rules.<name>.<limit>`. The names in brackets behind a limit are explained in",
        "[sources.md](sources.md).",
    ]
    for rule in table:
        lines += [
            "",
            f"## {rule.name}",
            "",
            f"**{rule.title}.** Judges: {rule.table}. Severity: {rule.severity}. Incident kind: `{rule.kind}`. "
            + ("Judged on the node and at the centre." if rule.scope == "node" else "Judged at the centre."),
            "",
            f"*Why:* {rule.why}",
            "",
            f"*What to do:* {rule.action} More: [runbook](runbooks/{rule.kind}.md).",
            "",
        ]
        lines += _table(("limit", "default", "meaning"), _limits(rule))
        if rule.yields_to:
            lines += ["", "Not told by itself beside: " + ", ".join(f"`{name}`" for name in rule.yields_to) + "."]
        lines += _promql(rule)
    return "\n".join(lines) + "\n"


def rulers(table: Iterable[Rule]) -> str:
    """What a Prometheus-compatible ruler decides otherwise than fabricmon, rule by rule."""
    from fabricmon.rules.rulefile import alert_name, differences

    lines = [
        "# Rules in PromQL, and what differs",
        _GENERATED.format(source="`fabricmon/rules/`"),
        "",
        "How near the alerts of `fabricmon rules export` are to fabricmon's own rules. What differs for every rule is",
        "in `docs/prometheus.md`; here is what differs besides. The expressions stand in `docs/rules.md`.",
        "",
    ]
    rows = [
        (f"`{name}`", f"`{alert_name(name)}`" if word != "not expressible" else "none", word, said or "nothing further")
        for name, word, said in differences(table)
    ]
    lines += _table(("rule", "alert", "in PromQL", "what differs"), rows)
    return "\n".join(lines) + "\n"


def _promql(rule: Rule) -> list[str]:
    """The rule with its default limits, for a Prometheus-compatible ruler."""
    said = rule.translation(rule.params())
    if not said.alerts:
        return ["", f"Not expressible in PromQL: {said.differs}."]
    lines = ["", "For a Prometheus-compatible ruler (`docs/prometheus.md`):", "", "```promql"]
    lines += [f"{recording.name} = {recording.expr}" for recording in said.recordings]
    lines += [f"{alert.expr}  # {alert.severity or rule.severity}" for alert in said.alerts]
    return [*lines, "```"]


def _limits(rule: Rule) -> list[tuple[str, ...]]:
    from fabricmon.rules.limits import limits

    return [(f"`{limit.name}`", limit.default, limit.meaning) for limit in limits(rule)]
