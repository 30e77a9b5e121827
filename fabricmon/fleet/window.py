"""Rolling windows of counts per row. Pure.

A window is two generations. New counts go into the younger; when it is as old as the horizon it becomes the elder and
an empty one begins. So the sum covers the last one to two horizons, without decay.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.arithmetic import FASTEST_BYTES
from fabricmon.fleet.row_state import Floats, Numbers, Rows, RowState, per_row

QUANTITIES = 4
BITS, ERRORS, CAPPED, UNRATED = range(QUANTITIES)
"""Bits that passed, errors, errors with each poll's count capped (one burst is one burst), and seconds in which bits
passed at a line rate that is not known; their errors are among the others."""
FASTEST, SLOWEST = 8 * FASTEST_BYTES, 1e10
"""Bits per second of the fastest and of the slowest port: what an unknown line rate is at most and at least
(docs/methods.md#ber-bounds)."""


class Window(RowState):
    """Sums of the quantities per row over the last one to two `horizon` seconds."""

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

    def bits(self, at: Numbers | slice | int) -> tuple[Floats, Floats]:
        """Bits that passed at least and at most: the same where the line rate was known all the time."""
        rated, seconds = (self._young[quantity, at] + self._old[quantity, at] for quantity in (BITS, UNRATED))
        return rated + SLOWEST * seconds, rated + FASTEST * seconds

    def bits_at(self, row: int) -> tuple[float, float]:
        """The same of one row."""
        least, most = self.bits(row)
        return float(least), float(most)

    def at(self, quantity: int, row: int) -> float:
        return float(self._young[quantity, row] + self._old[quantity, row])
