"""When each part of each node was read: by the node's clock (for rates) and by the receiver's (for age). Pure.

All parts of all nodes live in one vector, so a frame's times land by one slice and a table asks for the times of
all its rows by one gather.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PartClocks:
    """Times of parts, by part number.

    taken     node monotonic seconds of the newest read, NaN before the first
    received  receiver's `now` when that read arrived, NaN before the first
    period    seconds between reads in normal operation

    heard     `now` of the newest frame of each node, by node number; NaN before the first

    Entry 0 stands for "no such part" and is never read.
    """

    def __init__(self) -> None:
        self.taken = np.full(64, np.nan)
        self.received = np.full(64, np.nan)
        self.period = np.full(64, np.nan)
        self.heard = np.full(64, np.nan)
        self._used = 1
        self._free: dict[int, list[int]] = {}

    def take(self, periods: list[float]) -> slice:
        """Room for the parts of one node, in order."""
        size = len(periods)
        free = self._free.get(size)
        if free:
            base = free.pop()
        else:
            base = self._used
            self._used += size
            while self._used > len(self.taken):
                self.taken, self.received, self.period = (
                    np.concatenate([a, np.full(len(a), np.nan)]) for a in (self.taken, self.received, self.period)
                )
        at = slice(base, base + size)
        self.taken[at] = np.nan
        self.received[at] = np.nan
        self.period[at] = periods
        return at

    def give_back(self, at: slice) -> None:
        size = at.stop - at.start
        if size:
            self.taken[at] = np.nan
            self.received[at] = np.nan
            self._free.setdefault(size, []).append(at.start)

    def hear(self, node: int, now: float) -> None:
        """Any frame of a node, whatever it brought; NaN: nothing was heard."""
        while node >= len(self.heard):
            self.heard = np.concatenate([self.heard, np.full(len(self.heard), np.nan)])
        self.heard[node] = now

    def read(self, at: slice, taken: NDArray[np.float64], now: float) -> None:
        """The times of one frame: parts whose time changed were read anew."""
        # a node has a handful of parts: a loop is quicker than four vector operations
        for part, time in enumerate(taken.tolist(), at.start):
            if time != self.taken[part] and time == time:
                self.taken[part] = time
                self.received[part] = now
