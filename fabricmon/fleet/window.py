"""Rolling windows of counts per row: old health must not hide new sickness. Pure.

A window is two generations. New counts go into the younger; when it is as old as the horizon it becomes the elder and
an empty one begins. So the sum covers the last one to two horizons, exactly and without decay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.lane import Rows

QUANTITIES = 3
BITS, ERRORS, CAPPED = range(QUANTITIES)
"""Bits that passed, errors among them, errors with each poll's count capped (one burst is one burst)."""


class Window:
    """Sums of BITS, ERRORS and CAPPED per row over the last one to two `horizon` seconds."""

    def __init__(self, horizon: float, capacity: int) -> None:
        self.horizon = horizon
        self.began = float("nan")
        self._young = np.zeros((QUANTITIES, capacity))
        self._old = np.zeros((QUANTITIES, capacity))

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

    def add(self, rows: Rows, quantity: int, amount: NDArray[np.float64]) -> None:
        self._young[quantity, rows] += amount

    def sum(self, quantity: int, n: int) -> NDArray[np.float64]:
        return self._young[quantity, :n] + self._old[quantity, :n]

    def some(self, quantity: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return self._young[quantity, rows] + self._old[quantity, rows]

    def at(self, quantity: int, row: int) -> float:
        return float(self._young[quantity, row] + self._old[quantity, row])

    def resize(self, capacity: int) -> None:
        more = np.zeros((QUANTITIES, capacity - self._young.shape[1]))
        self._young = np.concatenate([self._young, more], axis=1)
        self._old = np.concatenate([self._old, more], axis=1)

    def forget(self, rows: NDArray[np.intp]) -> None:
        self._young[:, rows] = 0.0
        self._old[:, rows] = 0.0
