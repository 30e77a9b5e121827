"""Other causes that a verdict rules out, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observations
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.model import Kind, RuledOut

MOST = 6
"""Entries of one incident."""

WIDER: Mapping[Kind, tuple[str, ...]] = {
    Kind.PORT: ("nic", "host", "leaf", "rail"),
    Kind.NODE: ("power",),
    Kind.GPU: ("host", "nvlink_domain"),
    Kind.PCIE: ("host",),
    Kind.FLOW: (),
}
"""Fault domains that an operator suspects first, from the narrow to the wide; also the words of components."""


class MemberCounts:
    """Observed members of fault domains, and those that show a symptom; each group is counted once a diagnosis."""

    def __init__(self, observations: Observations) -> None:
        self.observations = observations
        self._made: dict[tuple[SymptomType, str, int], tuple[int, int]] = {}

    def observed_and_shown(self, index: SymptomIndex, kind: SymptomType, domain: str, group: int) -> tuple[int, int]:
        """Observed members of a group, and those of them that show the symptom."""
        key = kind, domain, group
        if key not in self._made:
            observation = self.observations[kind]
            members = index.domains.members(index.table(kind), domain, group)
            shows = observation.groups.ids[domain][observation.rows] == group
            self._made[key] = int(np.count_nonzero(observation.known[members])), int(np.count_nonzero(shows))
        return self._made[key]


def ruled_out(
    verdict: FaultVerdict, possible: Iterable[str], counts: MemberCounts, index: SymptomIndex
) -> tuple[RuledOut, ...]:
    """Other causes of what a verdict explains, the narrow ones first. `possible`: the component and its candidates.

    A wider domain is ruled out by its healthy members, a single cause by the odds, many causes at once by the odds of
    a coincidence.
    """
    kept = {*possible, *(index.named(rival.mode, rival.group) for rival in verdict.rivals)}
    odds = {index.named(one.mode, one.group): one.gain for one in verdict.unlikely}
    found: dict[str, RuledOut] = {}
    if verdict.apart is not None:
        number, behind = verdict.apart
        text = f"independent faults at the same time; {times_text(behind)} less likely"
        found[""] = RuledOut(f"{number} separate faults", text, round(behind, 1))
    for name, reason in _wider(verdict, counts, index):
        if name not in kept:
            nats = verdict.gain - odds.pop(name) if name in odds else None
            found[name] = RuledOut(name, reason, None if nats is None else round(nats, 1))
    for name, gain in odds.items():
        if name not in kept and name not in found:
            behind = verdict.gain - gain
            found[name] = RuledOut(name, f"would explain the same, but is {times_text(behind)} less likely",
                                   round(behind, 1))  # fmt: skip
    return tuple(found.values())[:MOST]


def _wider(verdict: FaultVerdict, counts: MemberCounts, index: SymptomIndex) -> list[tuple[str, str]]:
    """Domains that contain all that is explained, and the count of their healthy members."""
    kind = next(iter(verdict.explained), None)
    if kind is None or kind not in counts.observations:
        return []
    observation = counts.observations[kind]
    rows, found = verdict.explained[kind], []
    for domain in WIDER[index.table(kind)]:
        if domain == verdict.domain or domain not in observation.groups.ids or not len(rows):
            continue
        groups = observation.groups.ids[domain][rows]
        group = int(groups[0])
        if group < 0 or (groups != group).any():
            continue
        observed, shown = counts.observed_and_shown(index, kind, domain, group)
        if healthy := observed - shown:
            text = f"{healthy} of its {observed} observed members {'shows' if healthy == 1 else 'show'} no sign of it"
            found.append((f"{domain}({index.domains.names[domain][group]})", text))
    return found


def times_text(nats: float) -> str:
    """ "25 times", "over a million times"."""
    return f"{exp(max(nats, 0.0)):,.0f} times" if nats < log(1e6) else "over a million times"
