"""Hysteresis: from what a rule's test says of every row to symptoms that open and close. Pure, NumPy.

One state machine per row, the same for all rules (detection-methods section 3):

    OK -> pending (fire, for `hold`) -> firing -> clearing (clear, for `clear`) -> OK

A row that is unknown keeps its state: absence is never recovery, and what was never known never fires. Severity only
rises within one episode. Python objects are made for transitions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Evidence, Severity, Symptom, SymptomChange
from fabricmon.rules.rule import Outcome, Rule

OK, PENDING, FIRING, CLEARING = 0, 1, 2, 3

EDGE = 1e-3
"""Seconds by which a time may fall short and is still over: a difference of wall times is right to a microsecond only,
and a tick that comes just at the end of a hold must not wait for the next one."""

Read = Callable[[int], tuple[tuple[Evidence, ...], dict[str, str]]]

_SEVERITIES = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)


@dataclass(frozen=True, slots=True)
class Open:
    """What is kept of an open symptom besides its row."""

    symptom: Symptom
    opened: float  # `now` of the tick that opened it


class Judge:
    """The states of one rule over the rows of its table.

    state     int8[n]: OK, PENDING, FIRING, CLEARING
    known     bool[n]: the last outcome was known
    entered   float64[n]: `now` at which PENDING or CLEARING began (for PENDING: of the first evidence)
    """

    def __init__(self, rule: Rule, params: Any) -> None:
        self.rule = rule
        self.state: NDArray[np.int8] = np.zeros(0, np.int8)
        self.known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.entered: NDArray[np.float64] = np.zeros(0)
        self.open: dict[int, Open] = {}
        self.configure(params)

    def configure(self, params: Any) -> None:
        """New parameters; `hold` and `clear` of the struct win over the rule's. States stay."""
        self.params = params
        self.hold = float(getattr(params, "hold", self.rule.hold))
        self.clear = float(getattr(params, "clear", self.rule.clear))

    def advance(
        self,
        outcome: Outcome,
        ids: Sequence[ComponentId],
        now: float,
        read: Read,
    ) -> list[SymptomChange]:
        """The transitions of this tick.

        outcome   what is too old to judge is not `known` in it (View.fresh: max(3 periods, 30 s))
        read      row -> readings and info of the rule; called for transitions only
        """
        self._grow(len(outcome.known))
        known = self.known = outcome.known
        rows = np.flatnonzero(known & (outcome.fire | (self.state != OK)))
        if not len(rows):
            return []
        state, fire, clear = self.state[rows], outcome.fire[rows], outcome.clear[rows]
        began = np.full(len(rows), now) if outcome.since is None else outcome.since[rows]
        began = np.where(np.isfinite(began), np.minimum(began, now), now)

        start = (state == OK) & fire
        self.entered[rows[start]] = began[start]
        state[start] = PENDING
        state[(state == PENDING) & ~fire] = OK
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
        self.state[rows] = state

        changes: list[SymptomChange] = []
        for at in np.flatnonzero(opening):
            row = int(rows[at])
            symptom = self._symptom(row, ids[row], outcome, float(self.entered[row]), read)
            self.open[row] = Open(symptom, now)
            held = f", held {self.hold:g} s" if self.hold else ""
            changes.append(SymptomChange(symptom, True, now, f"raise condition met{held}"))
        for at in np.flatnonzero(closing):
            held = f" for {self.clear:g} s" if self.clear else ""
            changes.append(self._close(int(rows[at]), now, f"clear condition met{held}"))
        changes.extend(self._risen(outcome, ids, now, read))
        return changes

    def rows(self) -> NDArray[np.int64]:
        """Rows with an open symptom, ascending."""
        return np.array(sorted(self.open), np.int64)

    def pending(self) -> NDArray[np.bool_]:
        return np.asarray(self.state == PENDING)

    def waiting(self) -> bool:
        """Whether a row is pending or clearing."""
        return bool(((self.state == PENDING) | (self.state == CLEARING)).any())

    def drop(self, rows: Sequence[int], now: float, reason: str) -> list[SymptomChange]:
        """Forget rows that left the table; their symptoms close because nothing is there to have them."""
        changes = [self._close(row, now, reason) for row in rows if row in self.open]
        inside = [row for row in rows if row < len(self.state)]
        self.state[inside] = OK
        self.known[inside] = False
        return changes

    def _risen(
        self,
        outcome: Outcome,
        ids: Sequence[ComponentId],
        now: float,
        read: Read,
    ) -> list[SymptomChange]:
        """Open symptoms whose severity is now higher than when it was last told."""
        if outcome.severity is None:
            return []
        changes: list[SymptomChange] = []
        for row, held in list(self.open.items()):
            rank = int(outcome.severity[row])
            if self.known[row] and outcome.fire[row] and rank > held.symptom.severity.rank:
                symptom = self._symptom(row, ids[row], outcome, held.symptom.since, read)
                self.open[row] = Open(symptom, held.opened)
                reason = f"severity rose from {held.symptom.severity} to {symptom.severity}"
                changes.append(SymptomChange(symptom, True, now, reason))
        return changes

    def _symptom(
        self,
        row: int,
        component: ComponentId,
        outcome: Outcome,
        since: float,
        read: Read,
    ) -> Symptom:
        rank = self.rule.severity.rank if outcome.severity is None else int(outcome.severity[row])
        severity = _SEVERITIES[min(max(rank, 0), 2)]
        return Symptom(
            self.rule.name, self.rule.kind, component, severity, since, float(outcome.value[row]), *read(row)
        )

    def _close(self, row: int, now: float, reason: str) -> SymptomChange:
        return SymptomChange(self.open.pop(row).symptom, False, now, reason)

    def _grow(self, n: int) -> None:
        more = n - len(self.state)
        if more > 0:
            self.state = np.concatenate((self.state, np.zeros(more, np.int8)))
            self.known = np.concatenate((self.known, np.zeros(more, np.bool_)))
            self.entered = np.concatenate((self.entered, np.full(more, np.nan)))
