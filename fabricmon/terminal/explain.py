"""The details of one incident as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricmon.forms.quantities import quantity
from fabricmon.forms.readable import certainty
from fabricmon.forms.times import span, wall_time
from fabricmon.terminal.fitted_text import clean, pad, width, wrapped
from fabricmon.terminal.style import TextView
from fabricmon.terminal.values import UNKNOWN, since, stamp

WIDEST = 110
"""Columns of running text, at most."""
NAMES = 40
"""Bad members listed."""
NAME = 30
"""Columns of a name beside its text; a longer name gets its own line."""


def explanation(
    incident: Mapping[str, Any], view: TextView, where: str = "", method: bool = False
) -> Iterator[str]:
    """The document of `GET /incidents/{id}` as text.

    where   address of the server, for relative links
    method  also the formula of each piece of evidence
    """
    style = view.style
    narrow = view._replace(columns=None if view.columns is None else min(view.columns, WIDEST))
    yield from _head(incident, narrow)
    evidence = incident.get("evidence") or ()
    action = list(_text(incident.get("action"), narrow))
    if runbook := clean(incident.get("runbook") or ""):
        action.append(f"  {where if runbook.startswith('/') else ''}{runbook}")
    others = [(o.get("component"), o.get("reason")) for o in incident.get("ruled_out") or ()]
    members = incident.get("members") or {}
    labels = "  ".join(f"{clean(k)}={clean(v)}" for k, v in sorted((incident.get("labels") or {}).items()))
    for title, found in (
        ("WHY", _text(incident.get("why"), narrow)),
        ("NEXT STEP", action),
        ("EVIDENCE", _evidence([e for e in evidence if e.get("for", True)], "+", narrow, method)),
        ("EVIDENCE AGAINST", _evidence([e for e in evidence if not e.get("for", True)], "-", narrow, method)),
        ("RULED OUT", _named(others, "x", narrow)),
        ("OTHER POSSIBLE CAUSES (the evidence fits them equally)",
         [f"  ? {clean(candidate)}" for candidate in incident.get("candidates") or ()]),
        (f"BAD MEMBERS: {members.get('bad', UNKNOWN)} of {members.get('of', UNKNOWN)}", _members(incident, narrow)),
        ("AFFECTED JOBS", _jobs(incident.get("impact"), narrow)),
        ("HISTORY", _history(incident.get("history") or (), narrow)),
        ("LABELS", (f"  {style(line, 'faint')}" for line in wrapped(labels, narrow.inner()) if labels)),
    ):  # fmt: skip
        yield from narrow.section(title, found)


def _head(incident: Mapping[str, Any], view: TextView) -> Iterator[str]:
    style = view.style
    severity, firing = clean(incident.get("severity", "")), incident.get("status") == "firing"
    for line in wrapped(clean(incident.get("title", "")), view.columns):
        yield style(line, "strong")
    confidence = incident.get("confidence")
    state = style(severity, severity) if firing else style("resolved", "good") + f" ({severity})"
    known = f"confidence {certainty(confidence) if isinstance(confidence, int | float) else 'unknown'}"
    yield f"{state}  {clean(incident.get('kind', ''))}  {clean(incident.get('component', ''))}"
    began, ended = wall_time(incident.get("since")), wall_time(incident.get("resolved"))
    lasted = ""
    if ended is not None and began is not None:
        lasted = f", lasted {span(ended - began)}"
    elif began is not None:
        lasted = f", for {span(view.now - began)}"
    yield style(f"{clean(incident.get('id', ''))}  since {stamp(incident.get('since'))} UTC{lasted}  {known}", "faint")
    if by := incident.get("silenced_by"):
        yield f"silenced by {', '.join(clean(id) for id in by)}: no notifications"
    if ack := incident.get("acknowledged"):
        comment = f": {clean(ack['comment'])}" if ack.get("comment") else ""
        yield f"acknowledged by {clean(ack.get('author') or UNKNOWN)} at {stamp(ack.get('at'))} UTC{comment}"


def _text(text: object, view: TextView) -> Iterator[str]:
    if text:
        yield from view.hanging("  ", 2, clean(text))


def _evidence(evidence: Sequence[Mapping[str, Any]], mark: str, view: TextView, method: bool) -> Iterator[str]:
    rows: list[tuple[object, object]] = []
    for number, entry in enumerate(evidence):
        limit = quantity(entry["limit"], entry["unit"]) if entry.get("unit") and entry.get("limit") else ""
        rows.append((entry.get("component"), f"{entry.get('text')} (limit {limit})" if limit else entry.get("text")))
        after = evidence[number + 1] if number + 1 < len(evidence) else {}
        # readings with the same formula are listed together
        if method and entry.get("formula") and entry.get("formula") != after.get("formula"):
            rows.append((None, entry["formula"]))
    yield from _named(rows, mark, view)


def _named(rows: Sequence[tuple[object, object]], mark: str, view: TextView) -> Iterator[str]:
    """Names with their texts beside them; a name None continues the one before, in faint."""
    names = [clean(name) for name, _ in rows if name]
    side = max((width(name) for name in names if width(name) <= NAME), default=0)
    if view.columns is not None and view.columns < 2 * NAME + 10:
        side = 0
    before = ""
    for name, text in rows:
        shown_name = clean(name) if name else ""
        new = bool(shown_name) and shown_name != before
        before = shown_name or before
        beside = side and (not new or width(shown_name) <= side)
        if new and not beside:
            yield f"  {mark} {view.style(shown_name, 'strong')}"
        indent = 4 + (side + 2 if side else 2)
        for number, line in enumerate(wrapped(clean(text or ""), view.inner(indent))):
            shown = line if name else view.style(line, "faint")
            if new and beside and not number:
                yield f"  {mark} {view.style(pad(shown_name, side), 'strong')}  {shown}"
            else:
                yield f"{' ' * indent}{shown}"


def _members(incident: Mapping[str, Any], view: TextView) -> Iterator[str]:
    names = [clean(part) for part in incident.get("parts") or ()]
    if len(names) < 2:
        return
    shown = names[:NAMES]
    broad = max(map(width, shown)) + 2
    across = max(1, ((view.inner() or WIDEST) // broad))
    for start in range(0, len(shown), across):
        yield "  " + "".join(pad(name, broad) for name in shown[start : start + across]).rstrip()
    bad = (incident.get("members") or {}).get("bad") or len(names)
    if bad > len(shown):
        yield f"  and {bad - len(shown):,} more"


def _jobs(impact: Mapping[str, Any] | None, view: TextView) -> Iterator[str]:
    if not impact:
        return
    if impact.get("state") != "known":
        yield view.style(f"  {clean(impact.get('state', UNKNOWN))}: not every scheduler has reported lately", "unknown")
    rows: list[tuple[object, object]] = []
    for job in impact.get("jobs") or ():
        gone = ", ended since" if job.get("gone") else ""
        nodes = f"{job.get('hit')} of its {job.get('of')} nodes"
        name = f"{job.get('name')} ({job.get('id')}, {job.get('user')})"
        rows.append((name, f"{str(job.get('verdict', '')).replace('_', ' ')}, {nodes}{gone}"))
        rows.append((None, job.get("reason")))
    yield from _named(rows, "!", view)
    rest = (impact.get("total") or 0) - len(impact.get("jobs") or ())
    if rest > 0:
        yield f"  and {rest:,} more: fabricmon explain --json"
    if not rows and impact.get("state") == "known":
        yield "  none"


def _history(history: Sequence[Mapping[str, Any]], view: TextView) -> Iterator[str]:
    wide = max((len(str(entry.get("change", ""))) for entry in history), default=0)
    for entry in history:
        when, change = stamp(entry.get("at")), clean(entry.get("change", ""))
        head = f"  {view.style(when, 'faint')}  {change:<{wide}}  "
        yield from view.hanging(head, 2 + len(when) + 2 + wide + 2, clean(entry.get("reason", "")))


def ambiguous(prefix: str, incidents: Sequence[Mapping[str, Any]], view: TextView) -> Iterator[str]:
    """The incidents whose ids start with `prefix`."""
    yield f"{len(incidents)} incident ids start with {clean(prefix)}:"
    for incident in incidents:
        state = clean(incident.get("severity", "")) if incident.get("status") == "firing" else "resolved"
        began = since(incident.get("since"), view.now)
        yield f"  {clean(incident.get('id', ''))}  {state}, since {began}: {clean(incident.get('title', ''))}"
