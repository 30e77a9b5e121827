"""One runbook put together: what was written, with what the rules and the diagnosis say of the kind. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from fabricmon.engine.causes import FLOW_MODES, GRAY_MODES, MODES, WORDS, Mode
from fabricmon.rules import RULES
from fabricmon.rules.limits import Limit, limits
from fabricmon.rules.rule import Rule
from fabricmon.runbooks import KINDS

SECTIONS = (
    "What it means", "What you see", "Confirm by hand", "What to do", "When to drain", "How you know it is over",
    "When it is wrong",
)  # fmt: skip
"""Headings of every written part, in this order. What is derived stands behind the second and at the end."""

BEFORE = "## Confirm by hand"


def runbook(kind: str, written: str, params: Mapping[str, Struct] | None = None) -> str:
    """The whole runbook as Markdown.

    written  the part of `runbooks/text/`
    params   limits in force by rule name, shown beside the defaults; None: the defaults alone
    """
    rules = rules_of(kind)
    seen, before, rest = written.strip().partition(BEFORE)
    parts = [f"# {KINDS[kind]}", _headline(kind, rules), seen.strip(), _reasons(kind, rules), (before + rest).strip()]
    parts.append(_limits(rules, params))
    parts.append(_silence(kind))
    return "\n\n".join(part for part in parts if part) + "\n"


def index() -> str:
    """All runbooks in a table."""
    lines = [
        "# Runbooks",
        "",
        "One for each kind of incident: what it means, how to confirm it by hand, what to do. Every incident links to",
        "its own: on the page, in the API, in webhooks and in the alerts of Alertmanager and Prometheus.",
        "",
        "| kind of incident | what it is | opened by |",
        "| --- | --- | --- |",
    ]
    for kind, title in KINDS.items():
        rules = ", ".join(f"`{rule.name}`" for rule in rules_of(kind)) or "the diagnosis"
        lines.append(f"| [`{kind}`]({kind}.md) | {title} | {rules} |")
    return "\n".join(lines) + "\n"


def rules_of(kind: str) -> list[Rule]:
    """The rules that lead to incidents of this kind."""
    return [rule for rule in RULES if rule.kind == kind]


def modes_of(kind: str) -> list[Mode]:
    """The causes that the diagnosis may find behind incidents of this kind."""
    return [mode for mode in (*MODES, *FLOW_MODES, *GRAY_MODES) if mode.kind == kind]


def _headline(kind: str, rules: Iterable[Rule]) -> str:
    said = [
        f"opened by [{rule.name}](../rules.md#{rule.name}): {rule.severity}, "
        + ("judged on the node and at the centre" if rule.scope == "node" else "judged at the centre")
        for rule in rules
    ]
    return f"Incident kind `{kind}`; " + ("; ".join(said) or "made by the diagnosis at the centre") + "."


def _reasons(kind: str, rules: list[Rule]) -> str:
    lines = ["## Why fabricmon says so"]
    for rule in rules:
        name = f"`{rule.name}`: " if len(rules) > 1 else ""
        lines += ["", name + rule.why]
    if modes := modes_of(kind):
        lines += [
            "",
            "What the diagnosis may find behind it, and which share of the members it expects to show it:",
            "",
            "| cause | named as | its members show |",
            "| --- | --- | --- |",
        ]
        for mode in modes:
            shown = ", ".join(f"{WORDS[symptom]} ({chance * 100:g} %)" for symptom, chance in mode.q.items())
            lines.append(f"| {mode.name} | `{mode.word}(...)` | {shown} |")
    if rules:
        lines += ["", "What the incident itself advises: " + rules[0].action]
    lines += ["", "What speaks for and against it in your case, and what was ruled out: `fabricmon explain ID`."]
    return "\n".join(lines)


def _limits(rules: list[Rule], params: Mapping[str, Struct] | None) -> str:
    if not rules:
        return ""
    lines = [
        "## Limits",
        "",
        "Each is a key of the configuration; a reload (SIGHUP) puts a change in force. The names in brackets are",
        "explained in [sources.md](../sources.md).",
    ]
    for rule in rules:
        rows = limits(rule, (params or {}).get(rule.name))
        lines += ["", *_table(f"rules.{rule.name}", rows, here=params is not None)]
    return "\n".join(lines)


def _table(path: str, rows: list[Limit], here: bool) -> list[str]:
    head = ("limit", "here", "default", "meaning, and where it comes from") if here else (
        "limit", "default", "meaning, and where it comes from",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        values = (row.value, row.default) if here else (row.default,)
        lines.append(f"| `{path}.{row.name}` | {' | '.join(values)} | {row.meaning.replace('|', chr(92) + '|')} |")
    return lines


def _silence(kind: str) -> str:
    # By id or by component: many kinds are about more than one node, and `node` matches none of those.
    # Single quotes, for a component holds parentheses, commas and spaces: link(host-007/mlx5_3/1, leaf-3/12).
    said = '--for 24h --comment "why, and who repairs it"'
    return f"""## Silence it

Where the repair is ordered. Page and API show it all the same, and what still fires at the end is told then. The
first is of this incident alone, also when it comes back; the second of all of this kind at its component. Id and
component in full: `fabricmon explain`.

```sh
fabricmon silence add id=INCIDENT {said}
fabricmon silence add kind={kind} 'component=COMPONENT' {said}
```

Planned work is announced before it begins: `fabricmon maintenance add --host NODE --for 1h --comment "what"`."""
