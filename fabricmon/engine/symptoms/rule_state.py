"""Hysteresis: from the outcome of a rule for every row to symptoms that open and close. Pure, NumPy.

One state machine per row, the same for all rules (docs/methods.md#hysteresis):

    OK -> pending (fire, for `hold`) -> firing -> clearing (clear, for `clear`) -> OK

An unknown row keeps its state: absence is never recovery, and a row that was never known never fires. Severity only
rises within one episode. Python objects are made for transitions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Evidence, Severity, Symptom, SymptomChange
from fabricmon.rules.rule import Outcome, Rule

OK, PENDING, FIRING, CLEARING = 0, 1, 2, 3

EDGE = 1e-3
"""Seconds by which a hold may fall short, for a tick just at its end: differences of wall times are rounded."""

SLOW = 1.0
"""Seconds between two tests of a slow rule."""

ReadEvidence = Callable[[int], tuple[tuple[Evidence, ...], dict[str, str]]]

_SEVERITIES = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)


class SymptomKey(NamedTuple):
    """Names one open symptom."""

    rule: str
    component: ComponentId


@dataclass(frozen=True, slots=True)
class OpenSymptom:
    """An open symptom, when it opened, and when its row was last seen without it, NaN never."""

    symptom: Symptom
    opened: float  # `now` of the tick that opened it
    without: float

    @property
    def witnessed(self) -> bool:
        return self.without == self.without


class RuleState:
    """The states of one rule over the rows of its table.

    phase     int8[n]: OK, PENDING, FIRING, CLEARING
    known     bool[n]: the last outcome was known
    entered   float64[n]: `now` at which PENDING or CLEARING began (for PENDING: of the first evidence); of an OK row
              when its last symptom began to clear, NaN never
    """

    def __init__(self, rule: Rule, params: Any) -> None:
        self.rule = rule
        self.phase: NDArray[np.int8] = np.zeros(0, np.int8)
        self.known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._working: NDArray[np.bool_] | None = None
        self._seen_without: NDArray[np.float64] = np.zeros(0)
        self.entered: NDArray[np.float64] = np.zeros(0)
        self.open: dict[int, OpenSymptom] = {}
        self._tested = -math.inf
        self.configure(params)

    def configure(self, params: Any) -> None:
        """New parameters. States stay."""
        self.params, self.hold, self.clear = params, float(params.hold), float(params.clear)
        self._tested = -math.inf

    def due(self, rows: int, now: float) -> bool:
        """Whether the rule is to be tested at this tick, on so many rows."""
        return not self.rule.slow or rows != len(self.phase) or not 0 <= now - self._tested < SLOW - EDGE

    def advance(
        self, outcome: Outcome, ids: Sequence[ComponentId], now: float, read_evidence: ReadEvidence
    ) -> list[SymptomChange]:
        """The transitions of this tick.

        outcome   what is too old to rule_state is not `known` in it (View.fresh: max(3 periods, 30 s))
        read_evidence  row -> readings and info of the rule; called for transitions only
        """
        self._grow(len(outcome.known))
        self._tested = now
        self.known, self._working = outcome.known, outcome.working
        without = outcome.known & ~outcome.fire
        if outcome.nearing is not None:
            without &= ~outcome.nearing
        np.copyto(self._seen_without[: len(self.known)], now, where=without)
        rows = (self.known & (outcome.fire | (self.phase != OK))).nonzero()[0]
        if not len(rows):
            return []
        opening, closing = self._move(rows, outcome, now)

        def symptom(row: int, since: float) -> Symptom:
            rank = self.rule.severity.rank if outcome.severity is None else int(outcome.severity[row])
            severity = _SEVERITIES[min(max(rank, 0), 2)]
            value, readings = float(outcome.value[row]), read_evidence(row)
            return Symptom(self.rule.name, self.rule.kind, ids[row], severity, since, value, *readings)

        changes: list[SymptomChange] = []
        held = f", held {self.hold:g} s" if self.hold else ""
        for row in opening:
            opened = OpenSymptom(symptom(row, float(self.entered[row])), now, float(self._seen_without[row]))
            self.open[row] = opened
            changes.append(SymptomChange(opened.symptom, True, now, f"raise condition met{held}", opened.witnessed))
        held = f" for {self.clear:g} s" if self.clear else ""
        changes += [self._close(row, now, f"clear condition met{held}") for row in closing]
        return changes + self._begun_anew(outcome, symptom, now) + self._risen(outcome, symptom, now)

    def _begun_anew(
        self, outcome: Outcome, symptom: Callable[[int, float], Symptom], now: float
    ) -> list[SymptomChange]:
        """Open symptoms that are another one now, which began later: seen, as the former was no such."""
        if outcome.anew is None or outcome.since is None:
            return []
        changes: list[SymptomChange] = []
        for row in [row for row in self.open if outcome.anew[row] and outcome.fire[row] and self.known[row]]:
            since, held = float(outcome.since[row]), self.open[row]
            if since > held.symptom.since + EDGE:
                self.open[row] = OpenSymptom(symptom(row, since), now, since)
                changes.append(SymptomChange(self.open[row].symptom, True, now, "began anew"))
        return changes

    def _move(self, rows: NDArray[np.int64], outcome: Outcome, now: float) -> tuple[list[int], list[int]]:
        """Advance the phases of some known rows; the rows that open and those that close."""
        state, fire, clear = self.phase[rows], outcome.fire[rows], outcome.clear[rows]
        began = np.full(len(rows), now) if outcome.since is None else outcome.since[rows]
        began = np.where(np.isfinite(began), np.minimum(began, now), now)

        start = (state == OK) & fire
        self.entered[rows[start]] = began[start]
        state[start] = PENDING
        calmed = (state == PENDING) & ~fire
        state[calmed], self.entered[rows[calmed]] = OK, np.nan
        opening = (state == PENDING) & (now - self.entered[rows] >= self.hold - EDGE)
        if outcome.confirmed is not None:
            opening &= outcome.confirmed[rows]
        state[opening] = FIRING

        state[(state == CLEARING) & ~clear] = FIRING
        ending = (state == FIRING) & clear & ~fire
        self.entered[rows[ending]] = now
        state[ending] = CLEARING
        closing = (state == CLEARING) & (now - self.entered[rows] >= self.clear - EDGE)
        state[closing] = OK
        self.phase[rows] = state
        return rows[opening].tolist(), rows[closing].tolist()

    def observed(self) -> NDArray[np.bool_]:
        """Rows that would show the symptom if they had it: those whose last outcome was known and do not wait for their
        hold, and those without it that are known to work."""
        found = self.known & (self.phase[: len(self.known)] != PENDING)
        if self._working is not None:
            found |= self._working & (self.phase[: len(found)] == OK)
        return np.asarray(found)

    def ended_after(self, since: float) -> NDArray[np.bool_]:
        """Rows whose symptom ended later than `since`."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.phase == OK) & (self.entered > since))

    def waiting(self) -> bool:
        """Whether a row is pending or clearing."""
        return bool(((self.phase == PENDING) | (self.phase == CLEARING)).any())

    def drop(self, rows: Sequence[int], now: float, reason: str) -> list[SymptomChange]:
        """Forget rows that left the table and close their symptoms."""
        changes = [self._close(row, now, reason) for row in rows if row in self.open]
        inside = [row for row in rows if row < len(self.phase)]
        self.phase[inside] = OK
        self._working = None
        self.known[inside], self._seen_without[inside], self.entered[inside] = False, np.nan, np.nan
        return changes

    def _risen(self, outcome: Outcome, symptom: Callable[[int, float], Symptom], now: float) -> list[SymptomChange]:
        """Open symptoms whose severity rose."""
        if outcome.severity is None:
            return []
        changes: list[SymptomChange] = []
        for row, held in list(self.open.items()):
            rank = int(outcome.severity[row])
            if self.known[row] and outcome.fire[row] and rank > held.symptom.severity.rank:
                risen = symptom(row, held.symptom.since)
                self.open[row] = replace(held, symptom=risen)
                reason = f"severity rose from {held.symptom.severity} to {risen.severity}"
                changes.append(SymptomChange(risen, True, now, reason))
        return changes

    def _close(self, row: int, now: float, reason: str) -> SymptomChange:
        return SymptomChange(self.open.pop(row).symptom, False, now, reason)

    def _grow(self, n: int) -> None:
        more = n - len(self.phase)
        if more > 0:
            self._working = None
            self.phase = np.concatenate((self.phase, np.zeros(more, np.int8)))
            self.known = np.concatenate((self.known, np.zeros(more, np.bool_)))
            self._seen_without = np.concatenate((self._seen_without, np.full(more, np.nan)))
            self.entered = np.concatenate((self.entered, np.full(more, np.nan)))
