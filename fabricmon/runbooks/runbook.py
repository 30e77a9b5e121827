"""A whole runbook: the written text with the rules, causes and limits of its kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from fabricmon.catalogue.kinds import KINDS
from fabricmon.engine.diagnosis.causes import FLOW_MODES, GRAY_MODES, MODES, WORDS, Mode
from fabricmon.rules import RULES
from fabricmon.rules.limits import Limit, limits
from fabricmon.rules.rule import Rule

SECTIONS = (
    "Meaning", "Symptoms", "Confirm by hand", "Next steps", "When to drain", "Resolution", "False alarms",
)  # fmt: skip
"""Headings of every written text, in this order. Generated parts follow the second and the last."""

BEFORE = "## Confirm by hand"


def runbook(kind: str, written: str, params: Mapping[str, Struct] | None = None) -> str:
    """The whole runbook as Markdown.

    written  the part of `runbooks/text/`
    params   limits in force by rule name, shown beside the defaults; None: defaults only
    """
    rules = rules_of(kind)
    seen, before, rest = written.strip().partition(BEFORE)
    parts = [f"# {KINDS[kind].title}", _headline(kind, rules), seen.strip(), _reasons(kind, rules)]
    parts += [(before + rest).strip(), _limits(rules, params), _silence(kind)]
    return "\n\n".join(part for part in parts if part) + "\n"


def index() -> str:
    """The table of all runbooks."""
    lines = [
        "# Runbooks",
        "",
        "One for each kind of incident: meaning, manual confirmation, next steps. Every incident links to its runbook:",
        "on the page, in the API, in webhooks and in the alerts of Alertmanager and Prometheus.",
        "",
        "| kind of incident | title | opened by |",
        "| --- | --- | --- |",
    ]
    for kind, row in KINDS.items():
        rules = ", ".join(f"`{rule.name}`" for rule in rules_of(kind)) or "the diagnosis"
        lines.append(f"| [`{kind}`]({kind}.md) | {row.title} | {rules} |")
    return "\n".join(lines) + "\n"


def rules_of(kind: str) -> list[Rule]:
    """The rules that open incidents of this kind."""
    return [rule for rule in RULES if rule.kind == kind]


def modes_of(kind: str) -> list[Mode]:
    """The causes of the diagnosis for incidents of this kind."""
    return [mode for mode in (*MODES, *FLOW_MODES, *GRAY_MODES) if mode.kind == kind]


def _headline(kind: str, rules: Iterable[Rule]) -> str:
    opened = [
        f"opened by [{rule.name}](../rules.md#{rule.name}): {rule.severity}, "
        + ("evaluated on the node and on the server" if rule.scope == "node" else "evaluated on the server")
        for rule in rules
    ]
    return f"Incident kind `{kind}`; " + ("; ".join(opened) or "opened by the diagnosis on the server") + "."


def _reasons(kind: str, rules: list[Rule]) -> str:
    lines = ["## How it is decided"]
    for rule in rules:
        name = f"`{rule.name}`: " if len(rules) > 1 else ""
        lines += ["", name + rule.decision]
    if modes := modes_of(kind):
        lines += [
            "",
            "Possible causes in the diagnosis, and the share of members expected to show each symptom:",
            "",
            "| cause | named as | symptoms of its members |",
            "| --- | --- | --- |",
        ]
        for mode in modes:
            shown = ", ".join(f"{WORDS[symptom]} ({chance * 100:g} %)" for symptom, chance in mode.q.items())
            lines.append(f"| {mode.name} | `{mode.word}(...)` | {shown} |")
    if rules:
        lines += ["", "Next step in the incident: " + rules[0].action]
    lines += ["", "Evidence and ruled-out causes of an incident: `fabricmon explain ID`."]
    return "\n".join(lines)


def _limits(rules: list[Rule], params: Mapping[str, Struct] | None) -> str:
    if not rules:
        return ""
    lines = [
        "## Limits",
        "",
        "Keys of the configuration; a change takes effect with a reload (SIGHUP). Evaluation of the rule and source",
        "of each default: " + ", ".join(f"[{rule.name}](../{rule.method})" for rule in rules) + ".",
    ]
    for rule in rules:
        rows = limits(rule, (params or {}).get(rule.name))
        lines += ["", *_table(f"rules.{rule.name}", rows, here=params is not None)]
    return "\n".join(lines)


def _table(path: str, rows: list[Limit], here: bool) -> list[str]:
    head = ("limit", "value", "default", "meaning") if here else (
        "limit", "default", "meaning",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        values = (row.value, row.default) if here else (row.default,)
        lines.append(f"| `{path}.{row.name}` | {' | '.join(values)} | {row.meaning.replace('|', chr(92) + '|')} |")
    return lines


def _silence(kind: str) -> str:
    # By id or by component: many kinds are about more than one node, and `node` matches none of those.
    # Single quotes, for a component holds parentheses, commas and spaces: link(host-007/mlx5_3/1, leaf-3/12).
    rest = '--for 24h --comment "repair ordered, ticket 123"'
    return f"""## Silence it

If the repair is ordered. Page and API still show the incident; if it is still open when the silence ends, receivers
are notified. The first command silences this incident only, also if it opens again; the second all incidents of this
kind at its component. `fabricmon explain` shows the full id and component.

```sh
fabricmon silence add id=INCIDENT {rest}
fabricmon silence add kind={kind} 'component=COMPONENT' {rest}
```

Before planned work: `fabricmon maintenance add --host NODE --for 1h --comment "new cable"`."""
