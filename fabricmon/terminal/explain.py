"""One incident told in full: why, what speaks for and against it, what it is not, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.central.words import certainty, span
from fabricmon.terminal.text import clean, pad, width, wrapped
from fabricmon.terminal.view import View
from fabricmon.terminal.words import UNKNOWN, since, stamp, wall

WIDEST = 110
"""Columns of running text: longer lines are hard to read."""
NAMES = 40
"""Bad members that are named."""
NAME = 30
"""Columns of a name beside its text; a longer one has a line of its own."""


def told(incident: Mapping[str, Any], view: View, where: str = "") -> Iterator[str]:
    """The document of `GET /incidents/{id}`, for a person. `where` is the centre's address, for links of its own."""
    style = view.style
    narrow = view._replace(columns=None if view.columns is None else min(view.columns, WIDEST))
    yield from _head(incident, narrow)
    evidence = incident.get("evidence") or ()
    speaks = [e for e in evidence if e.get("for", True)]
    against = [e for e in evidence if not e.get("for", True)]
    yield from _section("WHY", _text(incident.get("why"), narrow), narrow)
    action = list(_text(incident.get("action"), narrow))
    if runbook := clean(incident.get("runbook") or ""):
        action.append(f"  {where if runbook.startswith('/') else ''}{runbook}")
    yield from _section("WHAT TO DO", action, narrow)
    yield from _section("SPEAKS FOR IT", _evidence(speaks, "+", narrow), narrow)
    yield from _section("SPEAKS AGAINST IT", _evidence(against, "-", narrow), narrow)
    others = [(o.get("component"), o.get("reason")) for o in incident.get("ruled_out") or ()]
    yield from _section("RULED OUT", _named(others, "x", narrow), narrow)
    candidates = [clean(c) for c in incident.get("candidates") or ()]
    said = [*(f"  ? {c}" for c in candidates)]
    yield from _section("COULD ALSO BE (the evidence cannot tell them apart)", said, narrow)
    yield from _section(_members_head(incident), _members(incident, narrow), narrow)
    yield from _section("JOBS", _jobs(incident.get("impact"), narrow), narrow)
    yield from _section("HISTORY", _history(incident.get("history") or (), narrow), narrow)
    labels = incident.get("labels") or {}
    if labels:
        words = "  ".join(f"{clean(k)}={clean(v)}" for k, v in sorted(labels.items()))
        yield from _section("LABELS", (f"  {style(line, 'faint')}" for line in wrapped(words, _inner(narrow))), narrow)


def _head(incident: Mapping[str, Any], view: View) -> Iterator[str]:
    style = view.style
    severity, firing = clean(incident.get("severity", "")), incident.get("status") == "firing"
    for line in wrapped(clean(incident.get("title", "")), view.columns):
        yield style(line, "strong")
    sure = incident.get("confidence")
    state = style(severity, severity) if firing else style("resolved", "good") + f" ({severity})"
    known = f"{certainty(sure)} sure" if isinstance(sure, int | float) else "sureness unknown"
    yield f"{state}  {clean(incident.get('kind', ''))}  {clean(incident.get('component', ''))}"
    began, ended = wall(incident.get("since")), wall(incident.get("resolved"))
    lasted = ""
    if ended is not None and began is not None:
        lasted = f", lasted {span(ended - began)}"
    elif began is not None:
        lasted = f", for {span(view.now - began)}"
    yield style(f"{clean(incident.get('id', ''))}  since {stamp(incident.get('since'))} UTC{lasted}  {known}", "faint")
    if by := incident.get("silenced_by"):
        yield f"silenced by {', '.join(clean(id) for id in by)}: nobody is told"
    if taken := incident.get("acknowledged"):
        comment = f": {clean(taken['comment'])}" if taken.get("comment") else ""
        yield f"taken on by {clean(taken.get('author') or 'somebody')} at {stamp(taken.get('at'))} UTC{comment}"


def _inner(view: View, indent: int = 2) -> int | None:
    return None if view.columns is None else view.columns - indent


def _section(title: str, lines: Iterator[str] | Sequence[str], view: View) -> Iterator[str]:
    """A titled block; nothing where it has no line."""
    found = list(lines)
    if found:
        yield ""
        yield view.style(title, "head")
        yield from found


def _text(text: object, view: View) -> Iterator[str]:
    if text:
        for line in wrapped(clean(text), _inner(view)):
            yield f"  {line}"


def _evidence(evidence: Sequence[Mapping[str, Any]], mark: str, view: View) -> Iterator[str]:
    rows: list[tuple[object, object]] = []
    for number, entry in enumerate(evidence):
        rows.append((entry.get("component"), entry.get("text")))
        after = evidence[number + 1] if number + 1 < len(evidence) else {}
        # what went through one formula is told together
        if entry.get("formula") and entry.get("formula") != after.get("formula"):
            rows.append((None, entry["formula"]))
    yield from _named(rows, mark, view)


def _named(rows: Sequence[tuple[object, object]], mark: str, view: View) -> Iterator[str]:
    """A name, and beside it what is said of it; None as a name goes on with the one before, in faint."""
    names = [clean(name) for name, _ in rows if name]
    side = max((width(name) for name in names if width(name) <= NAME), default=0)
    if view.columns is not None and view.columns < 2 * NAME + 10:
        side = 0
    before = ""
    for name, text in rows:
        said = clean(name) if name else ""
        new = bool(said) and said != before
        before = said or before
        beside = side and (not new or width(said) <= side)
        if new and not beside:
            yield f"  {mark} {view.style(said, 'strong')}"
        indent = 4 + (side + 2 if side else 2)
        columns = None if view.columns is None else view.columns - indent
        for number, line in enumerate(wrapped(clean(text or ""), columns)):
            shown = line if name else view.style(line, "faint")
            if new and beside and not number:
                yield f"  {mark} {view.style(pad(said, side), 'strong')}  {shown}"
            else:
                yield f"{' ' * indent}{shown}"


def _members_head(incident: Mapping[str, Any]) -> str:
    members = incident.get("members") or {}
    return f"BAD MEMBERS: {members.get('bad', UNKNOWN)} of {members.get('of', UNKNOWN)}"


def _members(incident: Mapping[str, Any], view: View) -> Iterator[str]:
    """Names in columns."""
    names = [clean(part) for part in incident.get("parts") or ()]
    if len(names) < 2:
        return
    shown = names[:NAMES]
    broad = max(map(width, shown)) + 2
    across = max(1, ((_inner(view) or WIDEST) // broad))
    for start in range(0, len(shown), across):
        yield "  " + "".join(pad(name, broad) for name in shown[start : start + across]).rstrip()
    bad = (incident.get("members") or {}).get("bad") or len(names)
    if bad > len(shown):
        yield f"  and {bad - len(shown):,} more"


def _jobs(impact: Mapping[str, Any] | None, view: View) -> Iterator[str]:
    if not impact:
        return
    if impact.get("state") != "known":
        yield view.style(f"  {clean(impact.get('state', UNKNOWN))}: not every scheduler was heard of lately", "unknown")
    rows: list[tuple[object, object]] = []
    for job in impact.get("jobs") or ():
        gone = ", gone since" if job.get("gone") else ""
        nodes = f"{job.get('hit')} of its {job.get('of')} nodes"
        who = f"{job.get('name')}#{job.get('id')}"
        rows.append((who, f"{str(job.get('verdict', '')).replace('_', ' ')}, {job.get('user')}, {nodes}{gone}"))
        rows.append((None, job.get("reason")))
    yield from _named(rows, "!", view)
    rest = (impact.get("total") or 0) - len(impact.get("jobs") or ())
    if rest > 0:
        yield f"  and {rest:,} more: fabricmon explain --json"
    if not rows and impact.get("state") == "known":
        yield "  none is hit"


def _history(history: Sequence[Mapping[str, Any]], view: View) -> Iterator[str]:
    wide = max((len(str(entry.get("change", ""))) for entry in history), default=0)
    for entry in history:
        when, change = stamp(entry.get("at")), clean(entry.get("change", ""))
        indent = 2 + len(when) + 2 + wide + 2
        columns = None if view.columns is None else view.columns - indent
        for number, line in enumerate(wrapped(clean(entry.get("reason", "")), columns)):
            before = f"  {view.style(when, 'faint')}  {change:<{wide}}  " if not number else " " * indent
            yield before + line


def ambiguous(prefix: str, incidents: Sequence[Mapping[str, Any]], view: View) -> Iterator[str]:
    """Several incidents have an id that begins so."""
    yield f"{clean(prefix)} is the beginning of {len(incidents)} ids:"
    for incident in incidents:
        state = clean(incident.get("severity", "")) if incident.get("status") == "firing" else "resolved"
        began = since(incident.get("since"), view.now)
        yield f"  {clean(incident.get('id', ''))}  {state}, since {began}: {clean(incident.get('title', ''))}"
