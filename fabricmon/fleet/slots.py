"""The newest values of some ratios and rates of each row, in slots of about ten seconds by the node's clock. Pure.

Readings come every second or every two minutes; a slot is closed by the reading that brings it nearest to its length,
and a reading of a longer interval fills as many slots as it lasted. So "three windows of 30 s" means the same time
whatever the pace of a collector. An interval that tells nothing ends what was known: slots follow each other without a
gap.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Closed(NamedTuple):
    rows: NDArray[np.intp]
    fills: NDArray[np.int16]


class Slots:
    """`quantities` values that are read together, over the newest `depth` slots.

    latest  [quantity, row]: of the newest slot, NaN unknown
    recent  [quantity, row]: mean of the newest WINDOW slots as far as they are known, NaN unknown
    until   `now` from which on nothing of the row is known unless it is read again; NaN before the first reading
    """

    def __init__(self, quantities: int, capacity: int, depth: int = WINDOW) -> None:
        """Of more than WINDOW slots, those of shares: three digits are kept of them, up to 65,504."""
        self.depth = depth
        self.latest = np.full((quantities, capacity), np.nan, np.float32)
        self.recent = np.full((quantities, capacity), np.nan, np.float32)
        self.until = np.full(capacity, np.nan)
        self._before = np.full((WINDOW - 1, quantities, capacity), np.nan, np.float32)
        self._sums = np.zeros((quantities, capacity))
        self._seconds = np.zeros(capacity)
        # slot `k` of quantity `q` of row `r` is at [q, r * depth + k]: the slots of a row lie together
        self._ring = np.full((quantities, capacity * depth if depth > WINDOW else 0), np.nan, np.float16)
        self._head = np.zeros(capacity, np.int64)

    def add(self, rows: Rows, seconds: Floats, amounts: tuple[Floats, ...], now: float) -> Closed:
        """One interval of some rows; returns those that closed a slot, and how many slots each.

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
            return Closed(np.zeros(0, np.intp), np.zeros(0, np.int16))
        self.until[rows] = now + np.maximum(STALE_INTERVALS * seconds, STALE_LEAST)
        total = self._seconds[rows] + seconds
        self._seconds[rows] = total
        for sums, amount in zip(self._sums, amounts, strict=True):
            sums[rows] += amount
        at = np.flatnonzero(total + seconds / 2 >= SLOT)
        closed = _of(rows, at)
        if not len(at):
            return Closed(closed, np.zeros(0, np.int16))
        fills = np.clip(np.rint(total[at] / SLOT), 1, self.depth).astype(np.int16)
        # where all rows of a slice close at once, whole arrays are moved
        self._close(rows if isinstance(rows, slice) and len(at) == len(seconds) else closed, total[at], fills, closed)
        return Closed(closed, fills)

    def _close(self, rows: Rows, seconds: Floats, fills: NDArray[np.int16], numbers: NDArray[np.intp]) -> None:
        once = bool((fills == 1).all())
        self._seconds[rows] = 0.0
        for quantity, sums in enumerate(self._sums):
            value = (sums[rows] / seconds).astype(np.float32)
            sums[rows] = 0.0
            latest, nearer, farther = self.latest[quantity], self._before[0, quantity], self._before[1, quantity]
            second, third = latest[rows], nearer[rows]
            if not once:
                third = np.where(fills >= WINDOW, value, np.where(fills == 2, second, third))
                second = np.where(fills >= 2, value, second)
            mean = (value + second + third) / np.float32(WINDOW)
            if np.isnan(mean).any():
                mean = _known_mean(value, second, third)
            self.recent[quantity][rows] = mean
            farther[rows] = third  # the oldest first: of a slice, `second` and `third` are views
            nearer[rows] = second
            latest[rows] = value
            if self.depth > WINDOW:
                self._keep(quantity, numbers, fills, value)
        self._head[rows] = (self._head[rows] + fills) % self.depth

    def _keep(self, quantity: int, rows: NDArray[np.intp], fills: NDArray[np.int16], value: Singles) -> None:
        ring, base, short = self._ring[quantity], rows * self.depth, value.astype(np.float16)
        for turn in range(1, int(fills.max()) + 1):
            head = (self._head[rows] + turn) % self.depth
            if turn == 1:
                ring[base + head] = short
            else:
                on = np.flatnonzero(fills >= turn)
                ring[(base + head)[on]] = short[on]

    def history(self, quantity: int, rows: NDArray[np.intp], count: int) -> Singles:
        """[count, rows]: the newest slots, the newest first; NaN unknown."""
        if count <= WINDOW:
            parts = (self.latest[quantity], self._before[0, quantity], self._before[1, quantity])
            return np.stack([part[rows] for part in parts[:count]])
        back = np.arange(count)[:, None]
        at = rows * self.depth + (self._head[rows] - back) % self.depth
        return np.asarray(self._ring[quantity][at].astype(np.float32))

    def windows(self, quantity: int, rows: NDArray[np.intp], count: int) -> Singles:
        """[count, rows]: means of the newest windows of WINDOW slots; NaN where one of its slots is unknown."""
        slots = self.history(quantity, rows, count * WINDOW)
        return np.asarray(slots.reshape(count, WINDOW, len(rows)).mean(axis=1))

    def known(self, n: int, now: float) -> NDArray[np.bool_]:
        """The row was read lately."""
        return np.asarray(self.until[:n] >= now)

    def resize(self, capacity: int) -> None:
        more = capacity - len(self._seconds)
        quantities = len(self.latest)
        unknown = np.full((quantities, more), np.nan, np.float32)
        self.latest = np.concatenate([self.latest, unknown], axis=1)
        self.recent = np.concatenate([self.recent, unknown], axis=1)
        self._before = np.concatenate([self._before, np.stack([unknown] * (WINDOW - 1))], axis=2)
        self.until = np.concatenate([self.until, np.full(more, np.nan)])
        self._sums = np.concatenate([self._sums, np.zeros((quantities, more))], axis=1)
        self._seconds = np.concatenate([self._seconds, np.zeros(more)])
        self._head = np.concatenate([self._head, np.zeros(more, np.int64)])
        if self.depth > WINDOW:
            ring = np.full((quantities, more * self.depth), np.nan, np.float16)
            self._ring = np.concatenate([self._ring, ring], axis=1)

    def forget(self, rows: NDArray[np.intp]) -> None:
        if not len(rows):
            return
        for values in (self.latest, self.recent, *self._before):
            values[:, rows] = np.nan
        self.until[rows] = np.nan
        self._sums[:, rows] = 0.0
        self._seconds[rows] = 0.0
        if self.depth > WINDOW:
            self._ring.reshape(len(self.latest), -1, self.depth)[:, rows] = np.nan


def _known_mean(one: Singles, two: Singles, three: Singles) -> Singles:
    """Mean of those of three values that are known."""
    total = np.nan_to_num(one) + np.nan_to_num(two) + np.nan_to_num(three)
    number = np.isfinite(one).astype(np.float32) + np.isfinite(two) + np.isfinite(three)
    mean = np.full(len(one), np.nan, np.float32)
    np.divide(total, number, out=mean, where=number > 0)
    return mean


def _of(rows: Rows, at: NDArray[np.intp]) -> NDArray[np.intp]:
    """Row numbers of some places within `rows`."""
    return at if isinstance(rows, slice) else rows[at]
