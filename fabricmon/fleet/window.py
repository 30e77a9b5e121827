"""Rolling windows of counts per row. Pure.

A window is two generations. New counts go into the younger; when it is as old as the horizon it becomes the elder and
an empty one begins. So the sum covers the last one to two horizons, without decay.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.row_state import Floats, Numbers, Rows, RowState, per_row

QUANTITIES = 3
BITS, ERRORS, CAPPED = range(QUANTITIES)
"""Bits that passed, errors among them, errors with each poll's count capped (one burst is one burst)."""


class Window(RowState):
    """Sums of BITS, ERRORS and CAPPED per row over the last one to two `horizon` seconds."""

    _young = per_row(np.float64, 0, QUANTITIES)
    _old = per_row(np.float64, 0, QUANTITIES)

    def __init__(self, horizon: float, capacity: int) -> None:
        super().__init__(capacity)
        self.horizon = horizon
        self.began = float("nan")

    def turn(self, now: float) -> None:
        """Begin a new generation where it is time. A clock that stepped back begins one, too."""
        age = now - self.began
        if 0 <= age < self.horizon:
            return
        if age < 2 * self.horizon:
            self._young, self._old = self._old, self._young
        else:
            self._old[:] = 0.0
        self._young[:] = 0.0
        self.began = now

    def add(self, rows: Rows, quantity: int, amount: Floats) -> None:
        self._young[quantity, rows] += amount

    def sum(self, quantity: int, n: int) -> Floats:
        return self._young[quantity, :n] + self._old[quantity, :n]

    def some(self, quantity: int, rows: Numbers) -> Floats:
        return self._young[quantity, rows] + self._old[quantity, rows]

    def at(self, quantity: int, row: int) -> float:
        return float(self._young[quantity, row] + self._old[quantity, row])
