"""One incident within an episode: how it begins, follows its draft and ends. Pure functions of data.

What a receiver should know raises the revision: a rise of severity, a sharper kind, a worse impact on jobs, the end.
Everything else follows the draft without one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fabricmon.engine.incidents.incident_draft import IncidentDraft, sharper
from fabricmon.engine.incidents.peaks import PeakMembers
from fabricmon.jobs.impact import described, verdicts, worst
from fabricmon.model import HistoryEntry, Impact, Incident, JobVerdict, Members, Severity

HISTORY = 50  # entries kept of one incident; the first stays, the oldest after it go
FOLLOWED = frozenset({"component", "evidence", "members", "labels", "candidates", "parts", "impact", "ruled_out"})
"""Fields of an incident that follow its draft at each diagnosis."""
WORDING = frozenset({"confidence", "title", "why", "action"})
"""Fields that follow it while it is of the incident's kind."""

_COUNT = re.compile(r"(\d+) of (\d+)")


def incident_id(fabric: str, family: str, identity: str) -> str:
    """The same cause has the same id on every server and in every episode."""
    return hashlib.blake2b("\0".join((fabric, family, identity)).encode(), digest_size=8).hexdigest()


def begun(id: str, draft: IncidentDraft, before: Incident | None, now: float) -> Incident:
    """The incident of a draft. `before`: the same one as it ended within the last hour, None without. Of another kind
    it is news to who knows that one, so it begins when that ended, however long it has shown what is left."""
    back = before is not None and before.kind == draft.kind
    reason = f"came back after {now - (before.resolved or now):.0f} s" if before is not None and back else draft.title
    since = draft.onset if before is None or back else max(draft.onset, before.resolved or now)
    past = before.history if before is not None else ()
    change = "opened" if before is None else "reopened"
    return Incident(
        id=id,
        status="firing",
        severity=draft.severity,
        kind=draft.kind,
        since=since,
        updated=now,
        history=remembered(past, HistoryEntry(now, change, reason)),
        revision=max(int(now), before.revision + 1 if before is not None else 0),
        **_fields(draft, FOLLOWED | WORDING),
    )


def followed(old: Incident, draft: IncidentDraft, now: float) -> tuple[Incident, bool]:
    """The incident as its draft has it now, and whether something changed that is worth storing."""
    history, changes = old.history, list(_changes(old, draft, now))
    for entry in changes:
        history = remembered(history, entry)
    news = any(entry.change != "members" for entry in changes)
    kind = draft.kind if sharper(draft.family, old.kind, draft.kind) else old.kind
    new = msgspec.structs.replace(
        old,
        severity=max(old.severity, draft.severity, key=lambda severity: severity.rank),
        kind=kind,
        history=history,
        revision=old.revision + news,
        **_fields(draft, FOLLOWED | WORDING if kind == draft.kind else FOLLOWED),
    )
    changed = news or _face(new) != _face(old)
    return (msgspec.structs.replace(new, updated=now) if changed else new), changed


def ended(old: Incident, now: float, reason: str, absorbed_by: str = "") -> Incident:
    """The incident after its end, without the words about its peak (`peaks.py`)."""
    return msgspec.structs.replace(
        old,
        status="resolved",
        resolved=now,
        updated=now,
        labels={**old.labels, "absorbed_by": absorbed_by} if absorbed_by else old.labels,
        history=remembered(old.history, HistoryEntry(now, "absorbed" if absorbed_by else "resolved", reason)),
        revision=old.revision + 1,
    )


def most_members(incident: Incident) -> PeakMembers:
    """The most bad members of the present episode, by its history: a restart forgets nothing."""
    began = max(incident.openings)
    peak = PeakMembers(incident.members, incident.updated)
    for entry in incident.history:
        if entry.change == "members" and entry.at >= began:
            for bad, of in _COUNT.findall(entry.reason):
                if int(bad) > peak.members.bad:
                    peak = PeakMembers(Members(int(bad), int(of)), entry.at)
    return peak


def remembered(history: tuple[HistoryEntry, ...], entry: HistoryEntry) -> tuple[HistoryEntry, ...]:
    if len(history) < HISTORY:
        return (*history, entry)
    return (history[0], *history[2:], entry)


def severest(severities: Iterable[Severity]) -> Severity:
    return max(severities, key=lambda s: s.rank, default=Severity.INFO)


def _fields(draft: IncidentDraft, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in names}


def _changes(old: Incident, draft: IncidentDraft, now: float) -> Iterator[HistoryEntry]:
    """The changes of an incident for its history; all but "members" raise the revision."""
    if sharper(draft.family, old.kind, draft.kind):
        yield HistoryEntry(now, "kind", f"{old.kind} became {draft.kind}: {draft.title}")
    if draft.severity.rank > old.severity.rank:
        yield HistoryEntry(now, "severity", f"{old.severity} rose to {draft.severity}")
    if draft.members.bad != old.members.bad:
        before, after = old.members, draft.members
        yield HistoryEntry(now, "members", f"{before.bad} of {before.of} became {after.bad} of {after.of}")
    if became := described(old.impact, draft.impact):
        crashed = worst(draft.impact) is JobVerdict.CRASH and worst(old.impact) is not JobVerdict.CRASH
        yield HistoryEntry(now, "crash" if crashed else "impact", became)


def _face(incident: Incident) -> tuple[object, ...]:
    """The fields whose change is stored; the wording of the evidence alone is not."""
    return (
        incident.component,
        incident.members,
        incident.candidates,
        incident.parts,
        incident.labels,
        round(incident.confidence, 1),
        _jobs(incident.impact),
    )


def _jobs(impact: Impact | None) -> tuple[object, ...]:
    """An impact without the time of the schedulers' answers."""
    if impact is None:
        return ()
    hit = tuple((job.hit, job.gone) for job in impact.jobs)
    return impact.state, impact.source, tuple(verdicts(impact).items()), hit, impact.total
