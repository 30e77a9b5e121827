"""Several causes that act on one quantity of many components, each added and removed independently. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Overlay:
    """One number a component, from all active causes.

    value     float64[n]: the present one
    neutral   value without a cause
    together  how two causes on one component combine (np.maximum, np.multiply)
    """

    def __init__(self, n: int, neutral: float, together: Callable[[Floats, Floats], Floats]) -> None:
        self.value = np.full(n, neutral)
        self._neutral, self._together = neutral, together
        self._causes: dict[str, tuple[NDArray[np.intp], Floats]] = {}

    @property
    def acts(self) -> bool:
        return bool(self._causes)

    def put(self, cause: str, rows: NDArray[np.integer], values: Floats | float) -> None:
        """Set the rows that a cause acts on, and their values."""
        at = np.asarray(rows, np.intp)
        self._causes[cause] = at, np.broadcast_to(np.asarray(values, float), at.shape).copy()
        self._combine()

    def take(self, cause: str) -> None:
        """Remove a cause, if it acts."""
        if self._causes.pop(cause, None) is not None:
            self._combine()

    def _combine(self) -> None:
        self.value.fill(self._neutral)
        for rows, values in self._causes.values():
            self.value[rows] = self._together(self.value[rows], values)
