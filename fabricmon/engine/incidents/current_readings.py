"""Evidence of open symptoms as it reads now. Pure.

A symptom is made with the evidence of its first tick. Incidents are looked at for hours, so what they show is read
again: each reading after EVERY seconds, at most MOST of them in one diagnosis, those read longest ago first. A symptom
that is about to close, or whose row is not known, keeps its last reading: unknown is not healthy.
"""

from __future__ import annotations

from typing import NamedTuple

from fabricmon.engine.symptoms.rule_state import FIRING, SymptomKey
from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.view import Views
from fabricmon.model import Evidence, Symptom

EVERY = 10.0  # seconds (design choice): one poll
MOST = 16  # readings in one diagnosis (design choice): some compare a row with all rows of its table


class _Read(NamedTuple):
    at: float
    since: float  # of the symptom: another episode is read anew
    evidence: tuple[Evidence, ...]


class CurrentReadings:
    """Kept of the symptoms that the last diagnosis showed, no others."""

    def __init__(self, rule_states: RuleStates) -> None:
        self._rule_states = rule_states
        self._shown: dict[SymptomKey, _Read] = {}
        self._last: dict[SymptomKey, _Read] = {}
        self._due: frozenset[SymptomKey] = frozenset()
        self._views = Views({}, 0.0)

    def begin(self, views: Views) -> None:
        """A diagnosis begins, of the tables as they are seen there."""
        self._views, now = views, views.now
        self._last, self._shown = self._shown, {}
        old = [(read.at, key) for key, read in self._last.items() if not 0 <= now - read.at < EVERY]
        self._due = frozenset(key for _, key in sorted(old)[:MOST])

    def of(self, symptom: Symptom) -> tuple[Evidence, ...]:
        """The evidence of an open symptom."""
        key, now = SymptomKey(symptom.rule, symptom.component), self._views.now
        last = self._last.get(key)
        if last is None or last.since != symptom.since:
            last = _Read(now, symptom.since, symptom.evidence)
        elif key in self._due:
            last = _Read(now, symptom.since, self._again(key) or last.evidence)
        self._shown[key] = last
        return last.evidence

    def _again(self, key: SymptomKey) -> tuple[Evidence, ...]:
        """The readings of a firing row now, () where it has none."""
        state = self._rule_states.by_rule.get(key.rule)
        table = self._views.tables[key.component.kind]
        row = table.row(key.component)
        if state is None or row is None or row >= len(state.phase):
            return ()
        if state.phase[row] != FIRING or not state.known[row]:
            return ()
        view = self._views.of(table.kind)
        guard, rule = self._rule_states.failures.guard, state.rule
        return guard(f"{rule.name} evidence", (), rule.readings, view, row, state.params)
