"""What is concluded besides verdicts: of the topology, of incidents that come again, of incidents that come in masses.

Pure. Each has a file of its own (mismatch.py, offences.py, breaker.py); here they meet the situation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricmon.engine.breaker import Breaker
from fabricmon.engine.case import Case
from fabricmon.engine.judges import Judges
from fabricmon.engine.mismatch import Mismatches, Strays
from fabricmon.engine.offences import Offences
from fabricmon.engine.situation import Situation
from fabricmon.model import Incident
from fabricmon.rules import mass_alarm, repeat_offender
from fabricmon.topology.graph import Graph


class Beyond:
    """`with_others` before each step of the situation, `after` behind it. What no rule of `judges` is about is left."""

    def __init__(self, fabric: str, judges: Judges, situation: Situation) -> None:
        self._judges, self._situation = judges, situation
        self._mismatches, self._strays = Mismatches(fabric), Strays()
        self._offences, self._breaker = Offences(), Breaker(fabric)
        self._alarm: list[Case] = []

    def restore(self, incidents: Sequence[Incident], now: float) -> None:
        """What was known before a restart, after the situation took it up."""
        self._mismatches.restore(incidents, now)
        self._offences.note(incidents, now)
        self._breaker.restore(incidents, now)
        self._break(0, now)

    def with_others(
        self, cases: Sequence[Case], graph: Graph | None, parts: Mapping[str, int], now: float
    ) -> list[Case]:
        """The cases with strays joined to their group, and what else there is to tell.

        parts  word of a component -> how many there are
        """
        found = self._strays.joined(cases, graph) + self._mismatches.cases(graph, now) + self._alarm
        judge = self._judges.by_rule.get(repeat_offender.RULE.name)
        return found if judge is None else found + self._offences.cases(parts, judge.params, now)

    def after(self, changed: Sequence[Incident], nodes: int, now: float) -> list[Incident]:
        """What changed in a step, and the mass alarm where that is one: told in the same tick as what set it off."""
        self._offences.note(changed, now)
        return [*changed, *self._break(nodes, now)]

    def _break(self, nodes: int, now: float) -> list[Incident]:
        judge = self._judges.by_rule.get(mass_alarm.RULE.name)
        if judge is None:
            return []
        firing = [record.incident for record in self._situation.firing.values()]
        case = self._breaker.case(firing, nodes, judge.params, now)
        begins = case is not None and not self._alarm
        self._alarm = [] if case is None else [case]
        return [self._situation.tell(case, now)] if case is not None and begins else []
