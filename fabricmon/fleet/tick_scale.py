"""Ticks of a port that waits all the time, where the length of an adapter's tick is not published: the most that ports
of its make have counted (docs/methods.md#wait-ticks). Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.row_state import Singles

EVERY = 30.0
"""Seconds between two updates: one window."""
MEMORY = 86_400.0
"""Seconds by which a maximum falls to 1/e (design choice): within a day jobs start, so some port waits fully."""
RANK = 3
"""The third greatest counts as the maximum (design choice): one port whose counter jumps must not hide the others."""


class TickScale:
    """The greatest share of time that ports of each make waited.

    by_make  code of the make (Facts.make) -> share
    """

    def __init__(self, least: float) -> None:
        """`least`: no maximum is below this share."""
        self.by_make: dict[int, float] = {}
        self._least = least
        self._updated = float("nan")

    def due(self, now: float) -> bool:
        return not 0 <= now - self._updated < EVERY

    def update(self, make: NDArray[np.int32], waits: Singles, now: float) -> None:
        """Take over what ports at work wait at `now`; `make` and `waits` have one entry a port."""
        gone = now - self._updated
        kept = float(np.exp(-gone / MEMORY)) if gone >= 0 else 1.0
        self._updated = now
        for code in np.unique(make).tolist():
            mine = np.sort(waits[make == code])
            most = float(mine[-min(RANK, len(mine))])
            self.by_make[code] = max(kept * self.by_make.get(code, 0.0), most, self._least)
