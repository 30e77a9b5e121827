"""What incidents do to jobs: cases and the symptoms they claim, judged before they become incidents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from fabricmon.engine.case import Case, Key
from fabricmon.engine.reach import Reach
from fabricmon.jobs.impact import EFFECTS, Effect, Strike, carried, impact_of, label
from fabricmon.jobs.model import Jobs, Roster
from fabricmon.model import Impact, Severity, Symptom

GONE = frozenset({"host", "power"})
"""Words of components that fail as whole hosts."""
AGAIN = 5.0
"""Seconds for which an impact holds while claims, jobs and who answers are the same and no outage comes of age [D]: by
so much a flapping link that is down now may be noticed late."""
KEPT = 4096  # cases whose last impact is kept


@dataclass(frozen=True, slots=True)
class Sight:
    """What a case's claims are looked up in.

    symptoms  key -> the open symptoms that speak of its component: its own, and a link that is down now; () where it is
              no longer open
    host      key -> the host it concerns, "" none
    role      key -> role of its port, "" none
    reach     whose traffic passes what; None before anything is placed
    """

    symptoms: Callable[[Key], Sequence[Symptom]]
    host: Callable[[Key], str]
    role: Callable[[Key], str]
    reach: Callable[[], Reach | None]


class _Last(NamedTuple):
    """What was found for a case at a moment, until when it holds, and what it was found of."""

    at: float
    until: float
    roster: Roster
    fresh: tuple[bool, ...]
    kind: str
    component: str
    claims: frozenset[Key]
    impact: Impact | None


class Affected:
    """Keeps what schedulers said last and judges cases by it."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._last: dict[tuple[str, str], _Last] = {}
        self.roster = Roster()

    def numbered(self, hosts: Sequence[str]) -> list[int]:
        """Per host the number of the one job that runs there; -1 where none does, or several."""
        numbers: dict[tuple[str, str], int] = {}
        found: list[int] = []
        for host in hosts:
            here = self.roster.on(host)
            alone = len(here) == 1
            found.append(numbers.setdefault((here[0][0], here[0][1].id), len(numbers)) if alone else -1)
        return found

    def listen(self, sources: Iterable[Jobs]) -> bool:
        """All sources' last answers; they replace those before. Whether jobs are others now."""
        before = self.roster
        self.roster = before.with_answers(tuple(sources))
        return self.roster is not before

    def judged(self, cases: Iterable[Case], former: Callable[[Case], Impact | None], now: float) -> list[Case]:
        """The cases with their impact, the label `jobs`, and the severity that a job gives them.

        former  the impact that the incident of a case has had so far in its episode
        """
        if not self.roster.sources:
            return list(cases)
        return [self._judged(case, former(case), now) for case in cases]

    def _impact(self, case: Case, reach: Reach, now: float) -> Impact | None:
        """What the symptoms of a case do now, or did a moment ago where nothing can have changed since."""
        key, fresh = (case.family, case.identity), self.roster.fresh(now)
        if (last := self._last.get(key)) is not None and last.at <= now < last.until:
            same = last.roster is self.roster and last.kind == case.kind and last.component == case.component
            if same and last.fresh == fresh and last.claims == case.claims:
                return last.impact
        domain = reach.domain(case.component)
        strikes = self._strikes(case, domain.word)
        if all(strike.effect is Effect.NONE for strike in strikes):
            # What says nothing of traffic puts nobody at risk either, wherever it is.
            return None
        found = impact_of(strikes, domain, self.roster, now)
        ages = [strike.since + budget for strike in strikes for budget in self.roster.budgets]
        until = min((age for age in ages if age > now), default=now + AGAIN)
        self._last.pop(key, None)
        while len(self._last) >= KEPT:
            del self._last[next(iter(self._last))]
        self._last[key] = _Last(now, min(until, now + AGAIN), self.roster, fresh, case.kind, case.component,
                                case.claims, found)  # fmt: skip
        return found

    def _judged(self, case: Case, before: Impact | None, now: float) -> Case:
        reach = self._sight.reach()
        if reach is None:
            return case
        found = carried(before, self._impact(case, reach, now), self.roster, now)
        if found is None:
            return case
        severity, words = case.severity, label(found)
        sure = "suspected" not in case.labels
        if case.kind == "host_unreachable" and found.jobs and sure and severity is Severity.WARNING:
            severity = Severity.CRITICAL
        labels = {**case.labels, "jobs": words} if words else case.labels
        return msgspec.structs.replace(case, impact=found, severity=severity, labels=labels)

    def _strikes(self, case: Case, word: str) -> list[Strike]:
        gone = word == "power" or case.kind == "host_unreachable"
        # Ports of one host that show the same are one strike, the earliest.
        found: dict[tuple[str, str, str], float] = {}
        for key in case.claims:
            host = self._sight.host(key)
            if not host:
                continue
            role = self._sight.role(key)
            for symptom in self._sight.symptoms(key):
                kind = "host_unreachable" if gone and symptom.kind == "agent_silent" else symptom.kind
                at = host, kind, role
                found[at] = min(symptom.since, found.get(at, symptom.since))
        whole = word in GONE
        return [
            Strike(host, kind, EFFECTS.get(kind, Effect.SLOW), since, whole, role)
            for (host, kind, role), since in sorted(found.items())
        ]
