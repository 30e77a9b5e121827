"""Incidents over time: what opens, what stays, what closes, and why. Pure.

* One incident per cause. Its id is derived from fabric, component and family of kinds, so that every centre finds the
  same one and a restart neither forgets nor repeats. A cause that comes back is the same incident in a new episode:
  status firing, resolved, firing again, with a new `since` (as the fingerprint of an Alertmanager alert). `revision` is
  never lower than the wall second at which the episode opened, so it rises over episodes that nobody remembers.
* Absence is never recovery: an incident is resolved when its symptoms closed, and the Judge closes only what was seen
  healthy. A restored incident waits until its parts were seen healthy.
* A group (leaf, power domain, host) claims what it explained for its whole episode. When it recovers link by link, the
  remaining links stay its own for `linger` seconds and become incidents of their own after that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from fabricmon.engine.case import Case, Key, sharper
from fabricmon.jobs.impact import described, verdicts, worst
from fabricmon.model import HistoryEntry, Impact, Incident, JobVerdict, Severity

HISTORY = 50  # entries kept of one incident; the first stays, the oldest after it go
REMEMBER = 3600.0  # seconds for which a resolved incident is listed
RESOLVED_MOST = 10_000
LOST_AFTER = 7 * 86400.0  # seconds after which a restored incident whose parts nobody ever saw again is closed

# Seconds for which the parts of a restored incident must look healthy without a break: what its rule remembered is gone
# with the former process. A flap penalty of just over 2000 takes 900 s x log2(2000 / 750) to fall below 750.
COOLING: Mapping[str, float] = {"link_flapping": 1274.0}


def incident_id(fabric: str, family: str, identity: str) -> str:
    """The same cause has the same id at every centre and in every episode."""
    return hashlib.blake2b("\0".join((fabric, family, identity)).encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class Record:
    """A firing incident and what it stands on.

    case    as last seen, None for a restored one that nothing confirmed yet
    claims  every symptom it explained in this episode
    lost    since when no case supports it, None while one does
    calm    since when none of its claims is open, None while one is
    """

    incident: Incident
    case: Case | None
    claims: set[Key] = field(default_factory=set)
    lost: float | None = None
    calm: float | None = None


class Situation:
    def __init__(self, fabric: str = "") -> None:
        self.fabric = fabric
        self.firing: dict[str, Record] = {}
        self.resolved: dict[str, Incident] = {}
        self._owner: dict[Key, str] = {}
        self._first_seen: dict[str, float] = {}
        self._restored_at = 0.0

    def incidents(self, now: float) -> list[Incident]:
        """Firing ones, and those resolved within an hour; most severe first."""
        lately = (i for i in self.resolved.values() if now - (i.resolved or now) <= REMEMBER)
        every = [*(record.incident for record in self.firing.values()), *lately]
        return sorted(every, key=lambda i: (i.status != "firing", -i.severity.rank, i.since, i.id))

    def restore(self, incidents: Iterable[Incident], now: float) -> None:
        """Take up what was known before a restart. Firing ones stay until their parts are seen healthy."""
        self._restored_at = now
        for incident in incidents:
            if incident.status == "firing":
                entry = HistoryEntry(now, "restored", "open before a restart; stays until its parts are seen healthy")
                kept = msgspec.structs.replace(incident, history=_remember(incident.history, entry))
                self.firing[incident.id] = Record(kept, None)
                self.resolved.pop(incident.id, None)
            elif now - (incident.resolved or now) <= REMEMBER:
                self.resolved[incident.id] = incident

    def onsets(self) -> dict[str, float]:
        """Part -> onset, of restored incidents: their symptoms began before this process did."""
        found: dict[str, float] = {}
        for record in self.firing.values():
            if record.case is None:
                for part in record.incident.parts:
                    found[part] = min(record.incident.since, found.get(part, record.incident.since))
        return found

    def claimed(self, key: Key) -> bool:
        """Whether a firing incident stands on this symptom."""
        return key in self._owner

    def impact(self, case: Case) -> Impact | None:
        """What the incident of a case has done to jobs so far in its episode."""
        record = self.firing.get(incident_id(self.fabric, case.family, case.identity))
        return record.incident.impact if record is not None else None

    def step(
        self,
        now: float,
        cases: Iterable[Case],
        still_open: Callable[[Key], bool],
        healthy: Callable[[str, str], bool | None],
    ) -> list[Incident]:
        """Compare what is firing with what the diagnosis says now; the incidents that changed.

        still_open  whether a symptom is open
        healthy     (part, kind) -> True seen healthy, False not, None: no such part is known
        """
        for id in [i for i, incident in self.resolved.items() if now - (incident.resolved or now) > REMEMBER]:
            del self.resolved[id]
        changed: dict[str, Incident] = {}
        current: dict[str, Case] = {}
        for case in sorted(cases, key=lambda c: (not c.group, c.onset)):
            id = incident_id(self.fabric, case.family, case.identity)
            if id in current:
                continue
            record = self.firing.get(id)
            if record is None and self._hold(id, case, now):
                continue
            current[id] = case
            self._first_seen.pop(id, None)
            incident = self._open(id, case, now) if record is None else self._update(record, case, now)
            if incident is not None:
                changed[id] = incident
        for id in [id for id in self._first_seen if self._first_seen[id] < now - 2 * REMEMBER]:
            del self._first_seen[id]
        for id, record in list(self.firing.items()):
            if id not in current:
                incident = self._without_case(id, record, now, current, still_open, healthy)
                if incident is not None:
                    changed[id] = incident
        return list(changed.values())

    def tell(self, case: Case, now: float) -> Incident:
        """Open or change one incident between two steps; the next step must have its case, too."""
        id = incident_id(self.fabric, case.family, case.identity)
        record = self.firing.get(id)
        if record is None:
            return self._open(id, case, now)
        return self._update(record, case, now) or record.incident

    # --- opening and changing

    def _hold(self, id: str, case: Case, now: float) -> bool:
        """Whether a case is not (yet) an incident: covered by maintenance, a group's own, or too early to tell."""
        if case.covered:
            return True
        if self._is_a_groups_own(id, case, now):
            return True
        first = self._first_seen.setdefault(id, now)
        return bool(case.unsettled) and now - first < case.wait

    def _is_a_groups_own(self, id: str, case: Case, now: float) -> bool:
        owners = {self._owner.get(key) for key in case.claims}
        if not case.claims or None in owners or len(owners) != 1:
            return False
        (owner,) = owners
        record = self.firing.get(owner or "")
        if record is None or owner == id or record.case is None or not record.case.group:
            return False
        return record.lost is None or now - record.lost < record.case.linger

    def _open(self, id: str, case: Case, now: float) -> Incident:
        before = self.resolved.pop(id, None)
        reason = case.title if before is None else f"came back after {now - (before.resolved or now):.0f} s"
        past = before.history if before is not None else ()
        change = "opened" if before is None else "reopened"
        incident = Incident(
            id=id,
            status="firing",
            severity=case.severity,
            kind=case.kind,
            component=case.component,
            since=case.onset,
            confidence=case.confidence,
            title=case.title,
            why=case.why,
            action=case.action,
            evidence=case.evidence,
            members=case.members,
            labels=case.labels,
            updated=now,
            candidates=case.candidates,
            parts=case.parts,
            history=_remember(past, HistoryEntry(now, change, reason)),
            revision=max(int(now), before.revision + 1 if before is not None else 0),
            impact=case.impact,
            ruled_out=case.ruled_out,
        )
        self.firing[id] = Record(incident, case, set(case.claims))
        self._own(id, case)
        return incident

    def _update(self, record: Record, case: Case, now: float) -> Incident | None:
        old = record.incident
        record.claims |= case.claims
        record.lost = record.calm = None
        self._own(old.id, case)
        history = old.history
        tell = False
        kind = old.kind
        if sharper(case.family, old.kind, case.kind):
            history = _remember(history, HistoryEntry(now, "kind", f"{old.kind} became {case.kind}: {case.title}"))
            kind, tell = case.kind, True
        says = kind == case.kind
        severity = old.severity
        if case.severity.rank > severity.rank:
            history = _remember(history, HistoryEntry(now, "severity", f"{severity} rose to {case.severity}"))
            severity, tell = case.severity, True
        if case.members.bad != old.members.bad:
            text = f"{old.members.bad} of {old.members.of} became {case.members.bad} of {case.members.of}"
            history = _remember(history, HistoryEntry(now, "members", text))
        if became := described(old.impact, case.impact):
            crashed = worst(case.impact) is JobVerdict.CRASH and worst(old.impact) is not JobVerdict.CRASH
            history = _remember(history, HistoryEntry(now, "crash" if crashed else "impact", became))
            tell = True
        new = msgspec.structs.replace(
            old,
            severity=severity,
            kind=kind,
            component=case.component,
            confidence=case.confidence if says else old.confidence,
            title=case.title if says else old.title,
            why=case.why if says else old.why,
            action=case.action if says else old.action,
            evidence=case.evidence,
            members=case.members,
            labels=case.labels,
            candidates=case.candidates,
            parts=case.parts,
            history=history,
            revision=old.revision + tell,
            impact=case.impact,
            ruled_out=case.ruled_out,
        )
        record.case = case
        if not tell and _face(new) == _face(old):
            return None
        record.incident = msgspec.structs.replace(new, updated=now)
        return record.incident

    def _own(self, id: str, case: Case) -> None:
        for key in case.claims:
            owner = self._owner.get(key)
            if owner is None or owner == id or case.group or owner not in self.firing:
                self._owner[key] = id

    # --- closing

    def _without_case(
        self,
        id: str,
        record: Record,
        now: float,
        current: Mapping[str, Case],
        still_open: Callable[[Key], bool],
        healthy: Callable[[str, str], bool | None],
    ) -> Incident | None:
        if record.case is None:
            return self._restored(id, record, now, healthy)
        record.lost = now if record.lost is None else record.lost
        left = {key for key in record.claims if still_open(key)}
        if left:
            record.calm = None
            for other, case in current.items():
                if other in self.firing and left <= case.claims and (case.group or not record.case.group):
                    return self._resolve(id, now, f"part of {case.component}", absorbed_by=other)
            if record.case.group and now - record.lost >= record.case.linger:
                return self._resolve(id, now, "its remaining parts are told on their own now")
            return None
        record.calm = now if record.calm is None else record.calm
        if now - record.calm < record.case.calm:
            return None
        return self._resolve(id, now, "none of its symptoms is open any more")

    def _restored(
        self, id: str, record: Record, now: float, healthy: Callable[[str, str], bool | None]
    ) -> Incident | None:
        incident = record.incident
        states = [healthy(part, incident.kind) for part in incident.parts]
        if not incident.parts or (all(s is None for s in states) and now - self._restored_at > LOST_AFTER):
            return self._resolve(id, now, "nothing known of its parts any more")
        if not all(states):
            record.calm = None
            return None
        record.calm = now if record.calm is None else record.calm
        if now - record.calm < COOLING.get(incident.kind, 0.0):
            return None
        return self._resolve(id, now, "all its parts were seen healthy after the restart")

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


def _face(incident: Incident) -> tuple[object, ...]:
    """What of an incident is worth storing again when it changes; the wording of the evidence alone is not."""
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
    """An impact without the time of the schedulers' answers, which passes with each of them."""
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
