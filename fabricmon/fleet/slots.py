"""The newest values of some ratios and rates of each row, in slots of about ten seconds by the node's clock. Pure.

Readings come every second or every two minutes; a slot is closed by the reading that brings it nearest to its length,
and a reading of a longer interval fills as many slots as it lasted. So "three windows of 30 s" means the same time
whatever the pace of a collector. An interval that tells nothing ends what was known: slots follow each other without a
gap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.lane import Rows

SLOT = 10.0
"""Seconds: the window of hard symptoms (detection-methods 0)."""

WINDOW = 3
"""Slots of one window of soft symptoms, 30 s (detection-methods 0)."""

STALE_INTERVALS, STALE_LEAST = 3.0, 30.0
"""What was read longer ago than this many intervals, or seconds, is unknown (detection-methods 0.1 and 3.9)."""

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class Slots:
    """`quantities` values that are read together.

    latest  [quantity, row]: of the newest slot, NaN unknown
    recent  [quantity, row]: mean of the newest WINDOW slots as far as they are known, NaN unknown
    until   `now` from which on nothing of the row is known unless it is read again; NaN before the first reading
    """

    def __init__(self, quantities: int, depth: int, capacity: int, *, shares: bool = True) -> None:
        """`shares`: values are about 0 to 1 and three digits of them are enough, so they take half the memory."""
        self.depth = depth
        self._ring = np.full((quantities, depth, capacity), np.nan, np.float16 if shares else np.float32)
        self._head = np.zeros(capacity, np.int16)
        self._sums = np.zeros((quantities, capacity))
        self._seconds = np.zeros(capacity)
        self.latest = np.full((quantities, capacity), np.nan, np.float32)
        self.recent = np.full((quantities, capacity), np.nan, np.float32)
        self.until = np.full(capacity, np.nan)

    def add(self, rows: Rows, seconds: Floats, amounts: tuple[Floats, ...], now: float) -> NDArray[np.intp]:
        """One interval of some rows; returns those that closed a slot.

        rows     a slice from 0 on, or row numbers, each once
        seconds  length of the interval, NaN where it is none
        amounts  by quantity: value times seconds; NaN makes the slot unknown
        """
        usable = seconds > 0
        if not usable.all():
            lost = _of(rows, np.flatnonzero(~usable))
            self.forget(lost[~np.isnan(self.until[lost])])
            rows = _of(rows, np.flatnonzero(usable))
            seconds = seconds[usable]
            amounts = tuple(amount[usable] for amount in amounts)
        if not len(seconds):
            return np.zeros(0, np.intp)
        self.until[rows] = now + np.maximum(STALE_INTERVALS * seconds, STALE_LEAST)
        total = self._seconds[rows] + seconds
        self._seconds[rows] = total
        for quantity, amount in enumerate(amounts):
            self._sums[quantity, rows] += amount
        closed = _of(rows, np.flatnonzero(total + seconds / 2 >= SLOT))
        if len(closed):
            self._close(closed)
        return closed

    def _close(self, rows: NDArray[np.intp]) -> None:
        seconds = self._seconds[rows]
        values = (self._sums[:, rows] / seconds).astype(np.float32)
        fills = np.clip(np.rint(seconds / SLOT), 1, self.depth).astype(np.int16)
        self._sums[:, rows] = 0.0
        self._seconds[rows] = 0.0
        self.latest[:, rows] = values
        head = self._head[rows]
        for turn in range(int(fills.max())):
            on = slice(None) if turn < fills.min() else np.flatnonzero(fills > turn)
            head[on] = (head[on] + 1) % self.depth
            self._ring[:, head[on], rows[on]] = values[:, on]
        self._head[rows] = head
        total, known = np.nan_to_num(values), (values == values).astype(np.float32)
        for back in range(1, min(WINDOW, self.depth)):
            older = self._ring[:, (head - back) % self.depth, rows].astype(np.float32)
            told = older == older
            total += np.where(told, older, np.float32(0))
            known += told
        with np.errstate(invalid="ignore", divide="ignore"):
            self.recent[:, rows] = total / known

    def history(self, quantity: int, rows: NDArray[np.intp], count: int) -> Singles:
        """[count, rows]: the newest slots, the newest first; NaN unknown."""
        back = np.arange(count, dtype=np.int16)[:, None]
        found: Singles = self._ring[quantity, (self._head[rows] - back) % self.depth, rows].astype(np.float32)
        return found

    def windows(self, quantity: int, rows: NDArray[np.intp], count: int) -> Singles:
        """[count, rows]: means of the newest windows of WINDOW slots; NaN where one of its slots is unknown."""
        found: Singles = self.history(quantity, rows, count * WINDOW).reshape(count, WINDOW, len(rows)).mean(axis=1)
        return found

    def known(self, n: int, now: float) -> NDArray[np.bool_]:
        """The row was read lately."""
        return np.asarray(self.until[:n] >= now)

    def resize(self, capacity: int) -> None:
        more = capacity - len(self._seconds)
        quantities = len(self.latest)
        self._ring = np.concatenate(
            [self._ring, np.full((quantities, self.depth, more), np.nan, self._ring.dtype)], axis=2
        )
        self._head = np.concatenate([self._head, np.zeros(more, np.int16)])
        self._sums = np.concatenate([self._sums, np.zeros((quantities, more))], axis=1)
        self._seconds = np.concatenate([self._seconds, np.zeros(more)])
        unknown = np.full((quantities, more), np.nan, np.float32)
        self.latest = np.concatenate([self.latest, unknown], axis=1)
        self.recent = np.concatenate([self.recent, unknown], axis=1)
        self.until = np.concatenate([self.until, np.full(more, np.nan)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        self._ring[:, :, rows] = np.nan
        self._sums[:, rows] = 0.0
        self._seconds[rows] = 0.0
        self.latest[:, rows] = np.nan
        self.recent[:, rows] = np.nan
        self.until[rows] = np.nan


def _of(rows: Rows, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """Row numbers of some places within `rows`."""
    return at if isinstance(rows, slice) else rows[at]
