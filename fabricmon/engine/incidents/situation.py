"""Incidents over time: what opens, stays and closes (docs/design/incidents-one-cause.md). Pure.

The laws, in the order of `step`:

1. A draft opens an incident unless maintenance covers it, a firing group holds its symptoms, or it has to wait.
2. An incident follows its draft. Within an episode severity and kind only rise: what worked again, and has less than
   that now, ends and comes back as what it is. So does one whose members are well while others are bad.
3. Without a draft it stays while a symptom that it claims is open: absence is never recovery.
4. It ends when none was open for its calm time, or when a larger incident explains all that is open.
5. A group whose evidence ended holds what never recovered. It shrinks as members recover or larger causes explain
   them. When FEW are left they have incidents of their own; time alone releases none.
6. A restored incident stays until a draft confirms it or its parts were seen healthy (`restored.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

import msgspec

from fabricmon.catalogue.kinds import Inhibits, kind_of
from fabricmon.engine.incidents import restored
from fabricmon.engine.incidents.episode import begun, ended, followed, incident_id, most_members, remembered
from fabricmon.engine.incidents.firing_incident import FiringIncident
from fabricmon.engine.incidents.incident_draft import FEW, PARTS, IncidentDraft
from fabricmon.engine.incidents.peaks import PeakMembers, Peaks
from fabricmon.engine.incidents.restored import FOUND_AGAIN, PartState
from fabricmon.engine.symptoms.rule_state import SymptomKey
from fabricmon.model import ComponentId, Evidence, HistoryEntry, Impact, Incident, Members

REMEMBER = 3600.0  # seconds for which a resolved incident is listed
RESOLVED_MOST = 10_000
MINOR = 0.5  # share of what groups hold up to which another cause of it is a small part of it, and no larger one


class Present(NamedTuple):
    """What one step compares with.

    drafts      id -> draft, of those that are incidents
    still_open  whether a symptom is open
    part_state  of a part of an incident, and its kind
    since       `now` from which on restored incidents could be found again
    """

    now: float
    drafts: dict[str, IncidentDraft]
    still_open: Callable[[SymptomKey], bool]
    part_state: Callable[[str, str], PartState]
    since: float


class Situation:
    """restored_at  `now` of the start from stored incidents
    together     parts that a restored incident had with others: they began together, as was seen before the start
    """

    def __init__(self, fabric: str = "") -> None:
        self.fabric = fabric
        self.firing: dict[str, FiringIncident] = {}
        self.resolved: dict[str, Incident] = {}
        self._owner: dict[SymptomKey, str] = {}
        self._first_seen: dict[str, float] = {}
        self.restored_at = 0.0
        self.together: set[str] = set()
        self._onsets: dict[str, float] = {}

    # --- output

    def incidents(self, now: float) -> list[Incident]:
        """Firing ones, and those resolved within an hour; most severe first."""
        lately = (i for i in self.resolved.values() if now - (i.resolved or now) <= REMEMBER)
        every = [*(record.incident for record in self.firing.values()), *lately]
        return sorted(every, key=lambda i: (i.status != "firing", -i.severity.rank, i.since, i.id))

    def onsets(self) -> dict[str, float]:
        """Part -> onset, of restored incidents: their symptoms began before this process did."""
        return self._onsets

    def claimed(self, key: SymptomKey) -> bool:
        """Whether a cause that was diagnosed stands on this symptom: it stays evidence."""
        record = self.firing.get(self._owner.get(key, ""))
        return record is not None and record.draft is not None and not record.draft.notice

    def impact(self, draft: IncidentDraft) -> Impact | None:
        """The impact of a draft's incident so far in its episode."""
        record = self.firing.get(incident_id(self.fabric, draft.family, draft.identity))
        return record.incident.impact if record is not None else None

    # --- input

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Take up the stored incidents after a restart."""
        self.restored_at = now
        for incident in incidents:
            if incident.status == "firing":
                entry = HistoryEntry(now, "restored", "open before a restart; stays until its parts are seen healthy")
                peaks = Peaks(most_members(incident))
                kept = msgspec.structs.replace(incident, history=remembered(incident.history, entry))
                self.firing[incident.id] = FiringIncident(kept, peaks, None)
                self.resolved.pop(incident.id, None)
                several = kind_of(incident.kind).inhibits is Inhibits.ALL  # its members began at moments of their own
                if not several and len(incident.parts) > 1:
                    self.together.update(incident.parts)
                for part in () if several else incident.parts:
                    self._onsets[part] = min(incident.since, self._onsets.get(part, incident.since))
            elif now - (incident.resolved or now) <= REMEMBER:
                self.resolved[incident.id] = incident

    def awaits(self, part: str) -> bool:
        """Whether a part is remembered from before a restart."""
        return part in self._onsets or part in self.together

    def recovered(self, part: str) -> None:
        """A symptom of a part closed: what it shows later begins later."""
        self._onsets.pop(part, None)
        self.together.discard(part)

    def drop_claims(self, exists: Callable[[ComponentId], bool]) -> None:
        """Components left: nothing is kept of their symptoms."""
        for record in self.firing.values():
            record.claims = {key for key in record.claims if exists(key.component)}
            record.effects &= record.claims
            record.shows &= record.claims
        self._owner = {key: id for key, id in self._owner.items() if exists(key.component)}

    # --- a step

    def step(
        self,
        now: float,
        drafts: Iterable[IncidentDraft],
        still_open: Callable[[SymptomKey], bool],
        part_state: Callable[[str, str], PartState],
        since: float = 0.0,
    ) -> list[Incident]:
        """Compare the firing incidents with the drafts of now (see `Present`); the incidents that changed."""
        self._forget_old(now, since)
        waiting: dict[str, IncidentDraft] = {}
        for draft in sorted(drafts, key=lambda c: (not c.group, c.onset)):
            waiting.setdefault(incident_id(self.fabric, draft.family, draft.identity), draft)
        current: dict[str, IncidentDraft] = {}
        present = Present(now, current, still_open, part_state, since)
        changed = self._draw_all(waiting, present)
        for id in [id for id in self.firing if id not in current]:
            incident = self._without_draft(id, present)
            if incident is not None:
                changed[id] = incident
        # what a group held that ended in this step
        return list((changed | self._draw_all(waiting, present)).values())

    def apply(self, draft: IncidentDraft, now: float) -> Incident:
        """Open or change one incident between two steps; the next step must have its draft, too."""
        id = incident_id(self.fabric, draft.family, draft.identity)
        return self._draw(id, draft, now) or self.firing[id].incident

    def _forget_old(self, now: float, since: float) -> None:
        for id in [i for i, incident in self.resolved.items() if now - (incident.resolved or now) > REMEMBER]:
            del self.resolved[id]
        for id in [i for i, seen in self._first_seen.items() if seen < now - 2 * REMEMBER]:
            del self._first_seen[id]
        if self._onsets and now - since >= FOUND_AGAIN:  # of the rest no symptom came back
            open_ = {str(key.component) for key in self._owner}
            self._onsets = {part: onset for part, onset in self._onsets.items() if part in open_}
            self.together &= open_

    # --- with a draft (laws 1 and 2)

    def _draw_all(self, waiting: dict[str, IncidentDraft], present: Present) -> dict[str, Incident]:
        """Move the drafts that are incidents from `waiting` to those of now; the incidents that changed. One whose
        episode is over ends, and its draft opens it at the next step."""
        changed: dict[str, Incident] = {}
        current, now = present.drafts, present.now
        drafted = waiting.keys() | current.keys()
        free = [id for id, one in waiting.items() if id in self.firing or not self._waits(id, one, drafted, now)]
        for id in free:
            current[id] = waiting.pop(id)
            record = self.firing.get(id)
            if record is not None and (ending := _new_episode(record, current[id], present.still_open)):
                changed[id] = self._resolve(id, now, ending)
                continue
            incident = self._draw(id, current[id], now)
            if incident is not None:
                changed[id] = incident
        return changed

    def _waits(self, id: str, draft: IncidentDraft, drafted: Set[str], now: float) -> bool:
        """Whether a draft is not (yet) an incident. `drafted`: incidents that have a draft in this step."""
        if draft.covered or self._held(id, draft, drafted, now):
            return True
        first = self._first_seen.setdefault(id, now)
        return bool(draft.unsettled) and now - first < draft.wait

    def _held(self, id: str, draft: IncidentDraft, drafted: Set[str], now: float) -> bool:
        """Whether firing groups hold all that the draft claims: one, or several of which it has a minor part, as what
        is left of groups that recover is no new cause. Without evidence a group holds single members only. What else a
        member shows is held by its group, too: two groups of the same members would be named in turn."""
        own = draft.claims if draft.group else draft.own
        owners = {self._owner.get(key) or "" for key in own}
        if "" in owners and draft.group:
            groups = self._groups_around(draft, drafted)
            owners = {self._owner.get(key) or groups.get(key.component, "") for key in own}
        records = [self.firing[owner] for owner in owners if owner in self.firing]
        if not records or len(records) < len(owners) or id in owners:
            return False
        if any(record.draft is None or not record.draft.group for record in records):
            return False
        held = sum(len(record.claims) for record in records)
        if len(records) > 1 and len(draft.claims) > MINOR * held:
            return False
        return not (_is_wide(draft) and any(record.without_evidence(now) for record in records))

    def _groups_around(self, draft: IncidentDraft, drafted: Set[str]) -> dict[ComponentId, str]:
        """Component -> the first firing group of which it is a member. Not of one that has a draft beside this one, of
        which this one is a minor part: a module that flaps in a plane that loses packets is another cause."""
        found: dict[ComponentId, str] = {}
        for id, one in reversed(self.firing.items()):
            if one.draft is not None and one.draft.group:
                members = {key.component for key in one.claims}
                if id not in drafted or len(draft.components) > MINOR * len(members):
                    found.update(dict.fromkeys(members, id))
        return found

    def _draw(self, id: str, draft: IncidentDraft, now: float) -> Incident | None:
        """Open the incident of a draft, or let it follow; None where nothing changed that is worth storing."""
        self._first_seen.pop(id, None)
        record = self.firing.get(id)
        if record is None:
            incident = begun(id, draft, self.resolved.pop(id, None), now)
            record = FiringIncident(incident, Peaks(PeakMembers(draft.members, now)), draft)
            self.firing[id], changed = record, True
        else:
            as_shown = self._in_series(id, record, draft, now) if draft.series else record.steady(draft, now)
            incident, changed = followed(record.incident, as_shown, now)
            record.shows = record.shows if incident.kind == record.incident.kind else set()
        record.draft, record.lost, record.calm = draft, None, None
        if draft.notice:  # it has no cause that lasts: a host that left a summary of silent ones may die later
            self._release(id, record.claims - draft.claims)
            record.claims = set()
        record.claims |= draft.claims
        record.effects = (record.effects | draft.passing) - (draft.claims - draft.passing)
        if draft.kind == incident.kind:
            record.shows |= draft.shows
        for key in draft.claims:
            owner = self._owner.get(key)
            if owner is None or owner == id or draft.group or owner not in self.firing:
                self._owner[key] = id
        record.peaks.note(draft.members, draft.evidence, now)
        record.incident = record.peaks.while_firing(incident)
        return record.incident if changed else None

    def _in_series(self, id: str, record: FiringIncident, draft: IncidentDraft, now: float) -> IncidentDraft:
        """The draft of a group that falls again and again, with the members that it had and no other incident has,
        until they were none for `series`: each time others fall, so that none is well while the group is not."""
        gone = [part for part in record.incident.parts if part not in draft.parts]
        others = {part for other, one in self.firing.items() if other != id for part in one.incident.parts if gone}
        left = [part for part in gone if part not in others]
        whole = _with_members(draft, record.incident, left, len(gone) - len(left))
        lacks = whole.members.bad > draft.members.bad
        record.fewer = None if not lacks else now if record.fewer is None else record.fewer
        if record.fewer is None or now - record.fewer >= draft.series:
            record.fewer = None
            return draft
        return whole

    def _release(self, id: str, keys: Iterable[SymptomKey]) -> None:
        """An incident no longer holds these symptoms: they may be those of another."""
        for key in keys:
            if self._owner.get(key) == id:
                del self._owner[key]

    # --- without a draft (laws 3 to 6)

    def _without_draft(self, id: str, present: Present) -> Incident | None:
        record, now = self.firing[id], present.now
        if record.draft is None:
            return self._restored(id, record, present)
        record.lost = now if record.lost is None else record.lost
        left = {key for key in record.claims - record.effects if present.still_open(key)}
        if not left:
            record.calm = now if record.calm is None else record.calm
            calm = now - record.calm >= record.draft.calm
            return self._resolve(id, now, "all its symptoms are closed") if calm else None
        record.calm = None
        for other, draft in present.drafts.items():
            if other in self.firing and left <= draft.claims and (draft.group or not record.draft.group):
                return self._resolve(id, now, f"part of {draft.component}", other)
        return self._shrink(id, record, left, present) if record.without_evidence(now) else None

    def _shrink(self, id: str, record: FiringIncident, left: set[SymptomKey], present: Present) -> Incident | None:
        """Keep of a group without evidence what never recovered and no larger cause explains (law 5), with what else
        these members show: alone it would open their incidents."""
        for draft in present.drafts.values():
            if _is_wide(draft):
                left = left - draft.claims
        members = {key.component for key in left}
        kept = left | {key for key in record.effects if key.component in members}
        self._release(id, record.claims - kept)
        record.claims, record.effects = kept, kept - left
        parts = sorted(map(str, members))
        if len(parts) <= FEW or record.draft is None:
            return self._resolve(id, present.now, "its remaining parts have incidents of their own now")
        incident, changed = followed(record.incident, _remains(record.draft, parts), present.now)
        record.incident = record.peaks.while_firing(incident)
        return record.incident if changed else None

    def _restored(self, id: str, record: FiringIncident, present: Present) -> Incident | None:
        """A restored incident that no draft has confirmed."""
        incident, now = record.incident, present.now
        if not incident.parts:
            ending = restored.without_parts(now, present.since)
        else:
            parts = restored.parts_of(incident, present.part_state)
            record.calm = None if parts.bad else now if record.calm is None else record.calm
            if record.calm is not None:
                ending = restored.healthy(incident, parts, now - record.calm)
            else:
                firing = {other: draft for other, draft in present.drafts.items() if other in self.firing}
                ending = restored.explained_otherwise(incident, parts.bad, firing, now - self.restored_at)
        return None if ending is None else self._resolve(id, now, *ending)

    def _resolve(self, id: str, now: float, reason: str, absorbed_by: str = "") -> Incident:
        record = self.firing.pop(id)
        self._release(id, record.claims)
        self.resolved[id] = record.peaks.at_the_end(ended(record.incident, now, reason, absorbed_by))
        while len(self.resolved) > RESOLVED_MOST:
            del self.resolved[next(iter(self.resolved))]
        return self.resolved[id]


def _new_episode(record: FiringIncident, draft: IncidentDraft, still_open: Callable[[SymptomKey], bool]) -> str:
    """Why the episode of an incident is over although it has a draft, which begins another; "" where it goes on."""
    if record.works_again(draft, still_open):
        return f"it works again; what is left: {draft.title}"
    return f"its members have recovered; others have not: {draft.title}" if record.has_others(draft, still_open) else ""


def _is_wide(draft: IncidentDraft) -> bool:
    """Whether a draft explains more than one component; what it does to the traffic of others makes it no wider."""
    return draft.group or len({key.component for key in draft.own}) > 1


def _with_members(draft: IncidentDraft, shown: Incident, more: Sequence[str], fewer: int) -> IncidentDraft:
    """The draft with more members, under the name that it has or had, of the larger group. `fewer`: members of the
    shown incident that are in others now. Of more than PARTS it has not all names, so that only the number counts."""
    larger = draft if draft.members.of >= shown.members.of else shown
    more = more if draft.members.bad <= len(draft.parts) else ()
    bad = max(draft.members.bad + len(more), shown.members.bad - fewer)
    members = Members(bad, max(bad, larger.members.of))
    before, after = (f"{count.bad} of {count.of}" for count in (larger.members, members))
    title, parts = larger.title.replace(before, after), (*draft.parts, *more)[:PARTS]
    return msgspec.structs.replace(draft, component=larger.component, title=title, members=members, parts=parts)


def _remains(draft: IncidentDraft, parts: list[str]) -> IncidentDraft:
    """The draft of a group without evidence: what is left of it."""
    members = Members(len(parts), max(draft.members.of, len(parts)))
    text = (
        f"{members.bad} members have been bad since then; the group itself shows no sign of a fault any more: "
        f"{', '.join(parts[:5])}{', ...' if len(parts) > 5 else ''}"
    )
    before, after = (f"{count.bad} of {count.of}" for count in (draft.members, members))
    return msgspec.structs.replace(
        draft,
        title=draft.title.replace(before, after),
        members=members,
        parts=tuple(parts[:PARTS]),
        evidence=(Evidence(draft.component, text, value=float(members.bad)), *draft.evidence),
    )
