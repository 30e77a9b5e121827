"""What incidents do to jobs: cases and the symptoms they claim, judged before they become incidents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from fabricmon.engine.case import Case, Key
from fabricmon.engine.reach import Reach
from fabricmon.jobs.impact import EFFECTS, Effect, Strike, carried, impact_of, label
from fabricmon.jobs.model import Jobs, Roster
from fabricmon.model import Impact, Kind, Severity, Symptom

GONE = frozenset({"host", "power"})
"""Words of components that fail as whole hosts."""


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


class Affected:
    """Keeps what schedulers said last and judges cases by it."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self.roster = Roster()

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

    def _judged(self, case: Case, before: Impact | None, now: float) -> Case:
        reach = self._sight.reach()
        if reach is None:
            return case
        domain = reach.domain(case.component)
        strikes = self._strikes(case, domain.word)
        if not any(strike.effect is not Effect.NONE for strike in strikes):
            # What says nothing of traffic puts nobody at risk either, wherever it is.
            domain = domain._replace(hosts=frozenset())
        found = carried(before, impact_of(strikes, domain, self.roster, now), self.roster, now)
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
        found: set[Strike] = set()
        for key in case.claims:
            host = self._sight.host(key)
            if not host:
                continue
            of_node = key.component.kind is Kind.NODE
            for symptom in self._sight.symptoms(key):
                effect = EFFECTS.get(symptom.kind, Effect.SLOW)
                kind = symptom.kind
                if of_node and kind == "agent_silent" and gone:
                    effect, kind = Effect.OUTAGE, "host_unreachable"
                role = self._sight.role(key)
                found.add(Strike(host, kind, effect, symptom.since, word in GONE, role))
        return sorted(found, key=lambda strike: (strike.host, strike.since, strike.kind, strike.role))
