"""Incidents besides verdicts: topology mismatches, repeat offenders, mass alarm (mismatch, offences, surge). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.engine.incidents.mismatch import Mismatches, Strays
from fabricmon.engine.incidents.offences import Offences
from fabricmon.engine.incidents.short_downs import ShortDowns
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.incidents.surge import Surge
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Incident
from fabricmon.rules import mass_alarm, repeat_offender
from fabricmon.topology.graph import Graph


class SecondaryDrafts:
    """`added_to` comes before each step of the situation, `after_step` after it."""

    def __init__(self, fabric: str, fleet: Fleet, rule_states: RuleStates, situation: Situation) -> None:
        self._rule_states, self._situation = rule_states, situation
        self._mismatches, self._strays = Mismatches(fabric), Strays()
        self._short_downs = ShortDowns(fleet)
        self._offences, self._surge = Offences(), Surge(fabric)
        self._alarm: list[IncidentDraft] = []

    def restore(self, incidents: Sequence[Incident], now: float) -> None:
        """Take up the stored incidents after a restart, after the situation."""
        self._mismatches.restore(incidents, now)
        self._offences.note(incidents, now)
        self._surge.restore(incidents, now)
        self._surges(now)

    def added_to(
        self,
        drafts: Sequence[IncidentDraft],
        graph: Graph | None,
        parts: Mapping[str, int],
        expected: Callable[[str], bool],
        now: float,
    ) -> list[IncidentDraft]:
        """The drafts with strays joined to their group, and the secondary ones.

        parts     word of a component -> how many exist
        expected  whether a node is one of the fabric
        """
        self._offences.note_downs(self._short_downs.alone(now), now)
        found = self._strays.joined(drafts, graph, expected) + self._mismatches.drafts(graph, now) + self._alarm
        rule_state = self._rule_states.by_rule.get(repeat_offender.RULE.name)
        return found if rule_state is None else found + self._offences.drafts(parts, rule_state.params, now, expected)

    def after_step(self, changed: Sequence[Incident], now: float) -> list[Incident]:
        """The incidents that changed in a step, and the mass alarm if that opens in the same tick."""
        self._offences.note(changed, now)
        self._surge.note(changed)
        return [*changed, *self._surges(now)]

    def _surges(self, now: float) -> list[Incident]:
        rule_state = self._rule_states.by_rule.get(mass_alarm.RULE.name)
        if rule_state is None:
            return []
        firing = [record.incident for record in self._situation.firing.values()]
        draft = self._surge.draft(firing, rule_state.params, now)
        begins = draft is not None and not self._alarm
        self._alarm = [] if draft is None else [draft]
        return [self._situation.apply(draft, now)] if draft is not None and begins else []
