"""Incidents over time: what opens, stays and closes, and why (docs/design/diagnosis.md). Pure.

Absence is never recovery: an incident is resolved when its symptoms closed, which needs healthy readings. A restored
incident stays until each of its parts was seen healthy or does not exist any more (Fleet.exists)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from fabricmon.catalogue.kinds import kind_of
from fabricmon.engine.incidents.incident_draft import IncidentDraft, sharper
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.jobs.impact import described, verdicts, worst
from fabricmon.model import ComponentId, HistoryEntry, Impact, Incident, JobVerdict, Severity

HISTORY = 50  # entries kept of one incident; the first stays, the oldest after it go
REMEMBER = 3600.0  # seconds for which a resolved incident is listed
RESOLVED_MOST = 10_000
FOLLOWED = frozenset({"component", "evidence", "members", "labels", "candidates", "parts", "impact", "ruled_out"})
"""Fields of an incident that follow its draft at each diagnosis."""
WORDING = frozenset({"confidence", "title", "why", "action"})
"""Fields that follow it while it is of the incident's kind."""
LINGER = 120.0
"""Seconds for which a group keeps its claims without evidence for the group (docs/methods.md#boot-grace): a leaf that
comes back trains its links one after the other; those still down after this have incidents of their own."""
FOUND_AGAIN = 600.0
"""Seconds after a restart within which a restored incident without parts must be found again: nodes and jobs report
again within them."""


class PartState(Enum):
    """What is known of a part of a restored incident."""

    HEALTHY = "healthy"  # seen healthy
    UNCONFIRMED = "unconfirmed"  # not seen healthy
    LEFT = "left"  # it does not exist any more


def incident_id(fabric: str, family: str, identity: str) -> str:
    """The same cause has the same id on every server and in every episode."""
    return hashlib.blake2b("\0".join((fabric, family, identity)).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class FiringIncident:
    """A firing incident and its evidence.

    draft   the last one, None for a restored one without a confirmation
    claims  every symptom it explained in this episode, of components that exist
    lost    since when no draft supports it, None while one does
    calm    since when none of its claims is open, None while one is
    """

    incident: Incident
    draft: IncidentDraft | None
    claims: set[SymptomKey] = field(default_factory=set)
    lost: float | None = None
    calm: float | None = None


class Situation:
    """restored_at  `now` of the start from stored incidents"""

    def __init__(self, fabric: str = "") -> None:
        self.fabric = fabric
        self.firing: dict[str, FiringIncident] = {}
        self.resolved: dict[str, Incident] = {}
        self._owner: dict[SymptomKey, str] = {}
        self._first_seen: dict[str, float] = {}
        self.restored_at = 0.0
        self._onsets: dict[str, float] = {}

    def incidents(self, now: float) -> list[Incident]:
        """Firing ones, and those resolved within an hour; most severe first."""
        lately = (i for i in self.resolved.values() if now - (i.resolved or now) <= REMEMBER)
        every = [*(record.incident for record in self.firing.values()), *lately]
        return sorted(every, key=lambda i: (i.status != "firing", -i.severity.rank, i.since, i.id))

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Take up the stored incidents after a restart. Firing ones stay until their parts are seen healthy."""
        self.restored_at = now
        for incident in incidents:
            if incident.status == "firing":
                entry = HistoryEntry(now, "restored", "open before a restart; stays until its parts are seen healthy")
                kept = msgspec.structs.replace(incident, history=_remember(incident.history, entry))
                self.firing[incident.id] = FiringIncident(kept, None)
                self.resolved.pop(incident.id, None)
                for part in incident.parts:
                    self._onsets[part] = min(incident.since, self._onsets.get(part, incident.since))
            elif now - (incident.resolved or now) <= REMEMBER:
                self.resolved[incident.id] = incident

    def onsets(self) -> dict[str, float]:
        """Part -> onset, of restored incidents: their symptoms began before this process did."""
        return self._onsets

    def recovered(self, part: str) -> None:
        """A symptom of a part closed: what it shows later begins later."""
        self._onsets.pop(part, None)

    def drop_claims(self, exists: Callable[[ComponentId], bool]) -> None:
        """Components left: nothing is kept of their symptoms."""
        for record in self.firing.values():
            record.claims = {key for key in record.claims if exists(key.component)}
        self._owner = {key: id for key, id in self._owner.items() if exists(key.component)}

    def claimed(self, key: SymptomKey) -> bool:
        """Whether a firing incident stands on this symptom."""
        return key in self._owner

    def impact(self, draft: IncidentDraft) -> Impact | None:
        """The impact of a draft's incident so far in its episode."""
        record = self.firing.get(incident_id(self.fabric, draft.family, draft.identity))
        return record.incident.impact if record is not None else None

    def step(
        self,
        now: float,
        drafts: Iterable[IncidentDraft],
        still_open: Callable[[SymptomKey], bool],
        part_state: Callable[[str, str], PartState],
        since: float = 0.0,
    ) -> list[Incident]:
        """Compare the firing incidents with the drafts of now; the incidents that changed.

        still_open  whether a symptom is open
        part_state  of a part of an incident, and its kind
        since       `now` from which on restored incidents could be found again
        """
        self._forget_old(now, since)
        changed: dict[str, Incident] = {}
        current: dict[str, IncidentDraft] = {}
        for draft in sorted(drafts, key=lambda c: (not c.group, c.onset)):
            id = incident_id(self.fabric, draft.family, draft.identity)
            if id in current:
                continue
            record = self.firing.get(id)
            if record is None and self._hold(id, draft, now):
                continue
            current[id] = draft
            self._first_seen.pop(id, None)
            incident = self._open(id, draft, now) if record is None else self._update(record, draft, now)
            if incident is not None:
                changed[id] = incident
        for id in [id for id in self._first_seen if self._first_seen[id] < now - 2 * REMEMBER]:
            del self._first_seen[id]
        for id, record in list(self.firing.items()):
            if id not in current:
                incident = self._without_draft(id, record, now, current, still_open, part_state, since)
                if incident is not None:
                    changed[id] = incident
        return list(changed.values())

    def apply(self, draft: IncidentDraft, now: float) -> Incident:
        """Open or change one incident between two steps; the next step must have its draft, too."""
        id = incident_id(self.fabric, draft.family, draft.identity)
        record = self.firing.get(id)
        if record is None:
            return self._open(id, draft, now)
        return self._update(record, draft, now) or record.incident

    def _forget_old(self, now: float, since: float) -> None:
        for id in [i for i, incident in self.resolved.items() if now - (incident.resolved or now) > REMEMBER]:
            del self.resolved[id]
        if self._onsets and now - since >= FOUND_AGAIN:  # of the rest no symptom came back
            open_ = {str(key.component) for key in self._owner}
            self._onsets = {part: onset for part, onset in self._onsets.items() if part in open_}

    # --- opening and changing

    def _hold(self, id: str, draft: IncidentDraft, now: float) -> bool:
        """Whether a draft is not (yet) an incident: covered by maintenance, part of a group, or unsettled."""
        if draft.covered:
            return True
        if self._is_part_of_group(id, draft, now):
            return True
        first = self._first_seen.setdefault(id, now)
        return bool(draft.unsettled) and now - first < draft.wait

    def _is_part_of_group(self, id: str, draft: IncidentDraft, now: float) -> bool:
        owners = {self._owner.get(key) for key in draft.claims}
        if not draft.claims or None in owners or len(owners) != 1:
            return False
        (owner,) = owners
        record = self.firing.get(owner or "")
        if record is None or owner == id or record.draft is None or not record.draft.group:
            return False
        return record.lost is None or now - record.lost < record.draft.linger

    def _open(self, id: str, draft: IncidentDraft, now: float) -> Incident:
        before = self.resolved.pop(id, None)
        reason = draft.title if before is None else f"came back after {now - (before.resolved or now):.0f} s"
        past = before.history if before is not None else ()
        change = "opened" if before is None else "reopened"
        incident = Incident(
            id=id,
            status="firing",
            severity=draft.severity,
            kind=draft.kind,
            since=draft.onset,
            updated=now,
            history=_remember(past, HistoryEntry(now, change, reason)),
            revision=max(int(now), before.revision + 1 if before is not None else 0),
            **_fields(draft, FOLLOWED | WORDING),
        )
        self.firing[id] = FiringIncident(incident, draft, set(draft.claims))
        self._own(id, draft)
        return incident

    def _update(self, record: FiringIncident, draft: IncidentDraft, now: float) -> Incident | None:
        """The incident as its draft has it now, None where nothing changed that is worth storing."""
        old = record.incident
        record.draft = draft
        record.claims |= draft.claims
        record.lost = record.calm = None
        self._own(old.id, draft)
        history, changes = old.history, list(_changes(old, draft, now))
        for entry in changes:
            history = _remember(history, entry)
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
        if not news and _face(new) == _face(old):
            return None
        record.incident = msgspec.structs.replace(new, updated=now)
        return record.incident

    def _own(self, id: str, draft: IncidentDraft) -> None:
        for key in draft.claims:
            owner = self._owner.get(key)
            if owner is None or owner == id or draft.group or owner not in self.firing:
                self._owner[key] = id

    # --- closing

    def _without_draft(
        self,
        id: str,
        record: FiringIncident,
        now: float,
        current: Mapping[str, IncidentDraft],
        still_open: Callable[[SymptomKey], bool],
        part_state: Callable[[str, str], PartState],
        since: float,
    ) -> Incident | None:
        if record.draft is None:
            return self._restored(id, record, now, current, part_state, since)
        record.lost = now if record.lost is None else record.lost
        left = {key for key in record.claims if still_open(key)}
        if left:
            record.calm = None
            for other, draft in current.items():
                if other in self.firing and left <= draft.claims and (draft.group or not record.draft.group):
                    return self._resolve(id, now, f"part of {draft.component}", absorbed_by=other)
            if record.draft.group and now - record.lost >= record.draft.linger:
                return self._resolve(id, now, "its remaining parts have incidents of their own now")
            return None
        record.calm = now if record.calm is None else record.calm
        if now - record.calm < record.draft.calm:
            return None
        return self._resolve(id, now, "all its symptoms are closed")

    def _restored(
        self,
        id: str,
        record: FiringIncident,
        now: float,
        current: Mapping[str, IncidentDraft],
        part_state: Callable[[str, str], PartState],
        since: float,
    ) -> Incident | None:
        """A restored incident that no draft has confirmed."""
        incident = record.incident
        if not incident.parts:
            again = now - since < FOUND_AGAIN
            return None if again else self._resolve(id, now, "it was not found again after the restart")
        states = {part: part_state(part, incident.kind) for part in incident.parts}
        here = [state for state in states.values() if state is not PartState.LEFT]
        if not here:
            return self._resolve(id, now, "all its parts left the fabric")
        if PartState.UNCONFIRMED not in here:
            record.calm = now if record.calm is None else record.calm
            healthy = now - record.calm >= kind_of(incident.kind).cooling
            return self._resolve(id, now, "all its parts were seen healthy after the restart") if healthy else None
        record.calm = None
        left = {part for part, state in states.items() if state is PartState.UNCONFIRMED}
        return self._explained_otherwise(id, left, len(incident.parts) == 1, now, current)

    def _explained_otherwise(
        self, id: str, left: set[str], single: bool, now: float, current: Mapping[str, IncidentDraft]
    ) -> Incident | None:
        """End a restored incident whose remaining parts are in others now, as one of this process would end.

        left    its parts that are not healthy
        single  it had one part only
        """
        kind, explained = self.firing[id].incident.kind, set[str]()
        any_symptom = kind_of(kind).symptom is None
        for other, draft in current.items():
            if other in self.firing:
                theirs = {str(key.component) for key in draft.claims if any_symptom or key.rule == kind}
                if left <= theirs and (draft.group or single):
                    return self._resolve(id, now, f"part of {draft.component}", absorbed_by=other)
                explained |= theirs
        if left <= explained and now - self.restored_at >= LINGER:
            return self._resolve(id, now, "its remaining parts have incidents of their own now")
        return None

    def _resolve(self, id: str, now: float, reason: str, absorbed_by: str = "") -> Incident:
        record = self.firing.pop(id)
        for key in record.claims:
            if self._owner.get(key) == id:
                del self._owner[key]
        old = record.incident
        labels = {**old.labels, "absorbed_by": absorbed_by} if absorbed_by else old.labels
        change = "absorbed" if absorbed_by else "resolved"
        incident = msgspec.structs.replace(
            old,
            status="resolved",
            resolved=now,
            updated=now,
            labels=labels,
            history=_remember(old.history, HistoryEntry(now, change, reason)),
            revision=old.revision + 1,
        )
        self.resolved[id] = incident
        while len(self.resolved) > RESOLVED_MOST:
            del self.resolved[next(iter(self.resolved))]
        return incident


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


def _remember(history: tuple[HistoryEntry, ...], entry: HistoryEntry) -> tuple[HistoryEntry, ...]:
    if len(history) < HISTORY:
        return (*history, entry)
    return (history[0], *history[2:], entry)


def severest(severities: Iterable[Severity]) -> Severity:
    return max(severities, key=lambda s: s.rank, default=Severity.INFO)
