"""Impact of incidents on jobs: added to drafts before they become incidents. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from fabricmon.catalogue.kinds import KINDS, Effect
from fabricmon.engine.domains.dependent_hosts import DependentHosts
from fabricmon.engine.incidents.claim_lookup import ClaimLookup
from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.jobs.impact import Strike, carried, impact_of, label
from fabricmon.jobs.model import Jobs, Roster
from fabricmon.model import Impact, Severity, Symptom

GONE = frozenset({"host", "power"})
"""Words of components that fail as whole hosts."""
AGAIN = 5.0
"""Seconds for which an impact holds while claims, jobs and sources are the same and no outage exceeds a budget (design
choice); a flapping link that is down now may count so much later."""
KEPT = 4096  # drafts whose last impact is kept


class _Last(NamedTuple):
    """The impact of a draft: when computed, until when it holds, and its input."""

    at: float
    until: float
    roster: Roster
    made_of: tuple[object, ...]
    impact: Impact | None


class JobImpacts:
    """Keeps the last answers of the schedulers and the impact of each draft."""

    def __init__(self, lookup: ClaimLookup) -> None:
        self._lookup = lookup
        self._last: dict[tuple[str, str], _Last] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.roster = Roster()

    def numbered(self, hosts: Sequence[str]) -> list[int]:
        """Per host the number of its only job, -1 for none or several. A job keeps its number while it runs, and no
        other gets it at once: who is compared by it would take the other job for the same."""
        running = [self.roster.on(host) for host in hosts]
        keys = [(jobs[0][0], jobs[0][1].id) if len(jobs) == 1 else None for jobs in running]
        free = itertools.filterfalse(set(self._numbers.values()).__contains__, itertools.count())
        self._numbers = {
            key: self._numbers[key] if key in self._numbers else next(free)
            for key in dict.fromkeys(keys) if key is not None
        }  # fmt: skip
        return [-1 if key is None else self._numbers[key] for key in keys]

    def set_jobs(self, sources: Iterable[Jobs]) -> bool:
        """Take all sources' last answers, which replace those before; whether the jobs changed."""
        before = self.roster
        self.roster = before.with_answers(tuple(sources))
        return self.roster is not before

    def with_impacts(
        self, drafts: Iterable[IncidentDraft], former: Callable[[IncidentDraft], Impact | None], now: float
    ) -> list[IncidentDraft]:
        """The drafts with their impact, the label `jobs`, and the severity that a job gives them.

        former  the impact that the incident of a draft has had so far in its episode
        """
        if not self.roster.sources:
            return list(drafts)
        return [self._with_impact(draft, former(draft), now) for draft in drafts]

    def _impact(self, draft: IncidentDraft, reach: DependentHosts, now: float) -> Impact | None:
        """The impact of a draft's symptoms, cached while its input is the same."""
        key = draft.family, draft.identity
        made_of = self.roster.fresh(now), draft.kind, draft.component, draft.claims
        last = self._last.get(key)
        if last is not None and last.at <= now < last.until and last.roster is self.roster and last.made_of == made_of:
            return last.impact
        domain = reach.domain(draft.component)
        strikes = self._strikes(draft, domain.word)
        if all(strike.effect is Effect.NONE for strike in strikes):
            return None
        found = impact_of(strikes, domain, self.roster, now, draft.kind)
        ages = [strike.since + budget for strike in strikes for budget in self.roster.budgets]
        until = min((age for age in ages if age > now), default=now + AGAIN)
        self._last.pop(key, None)
        while len(self._last) >= KEPT:
            del self._last[next(iter(self._last))]
        self._last[key] = _Last(now, min(until, now + AGAIN), self.roster, made_of, found)
        return found

    def _with_impact(self, draft: IncidentDraft, before: Impact | None, now: float) -> IncidentDraft:
        reach = self._lookup.dependent_hosts()
        if reach is None:
            return draft
        found = carried(before, self._impact(draft, reach, now), self.roster, now)
        if found is None:
            return draft
        severity, words = draft.severity, label(found)
        sure = "suspected" not in draft.labels
        if draft.kind == "host_unreachable" and found.jobs and sure and severity is Severity.WARNING:
            severity = Severity.CRITICAL
        labels = {**draft.labels, "jobs": words} if words else draft.labels
        return msgspec.structs.replace(draft, impact=found, severity=severity, labels=labels)

    def _strikes(self, draft: IncidentDraft, word: str) -> list[Strike]:
        gone = word == "power" or draft.kind == "host_unreachable"
        # Ports of one host that show the same are one strike, the earliest.
        found: dict[tuple[str, str, str, Effect], float] = {}
        for key in draft.claims:
            host = self._lookup.host(key)
            if not host:
                continue
            role = self._lookup.role(key)
            for symptom in self._lookup.symptoms(key):
                kind = "host_unreachable" if gone and symptom.kind == "agent_silent" else symptom.kind
                at = host, kind, role, _effect(kind, symptom)
                found[at] = min(symptom.since, found.get(at, symptom.since))
        whole = word in GONE
        return [
            Strike(host, kind, effect, since, whole, role)
            for (host, kind, role, effect), since in sorted(found.items(), key=lambda item: item[0][:3])
        ]


def _effect(kind: str, symptom: Symptom) -> Effect:
    """Of a symptom on the traffic of its host: a leg of a bond that is down leaves the others."""
    legs = symptom.info.get("legs_up", "0")
    if kind == "link_down" and not legs.startswith("0"):
        return Effect.SLOW
    return KINDS[kind].effect
