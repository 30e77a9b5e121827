"""The newest values of some ratios and rates of each row, in slots of about ten seconds by the node's clock. Pure.

A slot is closed by the reading that brings it nearest to its length, and a reading of a longer interval fills as many
slots as it lasted, so that windows last equally long at any polling interval. An unknown interval empties the row:
slots follow each other without a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import freshness
from fabricmon.fleet.row_state import Bools, Floats, Numbers, Rows, RowState, Singles, numbers, per_row

SLOT = 10.0
"""Seconds: the window of hard symptoms (docs/methods.md#polls-and-windows)."""

WINDOW = 3
"""Slots of one window of soft symptoms, 30 s (docs/methods.md#polls-and-windows)."""


MEMORY = 3600.0
"""Seconds of a port's own reference: one hour under the same job (docs/methods.md#stall-share)."""

_FULL = np.int16(MEMORY / SLOT - 1)  # slots before the newest one


class Closed(NamedTuple):
    rows: Numbers
    fills: NDArray[np.int16]


class Slots(RowState):
    """`quantities` values that are read together, over the newest `depth` slots.

    latest  [quantity, row]: of the newest slot, NaN unknown
    recent  [quantity, row]: mean of the newest WINDOW slots as far as they are known, NaN unknown
    until   `now` from which on nothing of the row is known unless it is read again; NaN before the first reading
    """

    latest = per_row(np.float32, np.nan, "quantities")
    recent = per_row(np.float32, np.nan, "quantities")
    until = per_row(np.float64, np.nan)
    _before = per_row(np.float32, np.nan, WINDOW - 1, "quantities")
    _sums = per_row(np.float64, 0, "quantities")
    _seconds = per_row(np.float64)
    _ring = per_row(np.float32, 0, "quantities", after=("kept",))  # the slots of a row lie together
    _head = per_row(np.int64)
    _filled_slots = per_row(np.int16)  # of its ring; the others are unknown

    def __init__(self, quantities: int, capacity: int, depth: int = WINDOW) -> None:
        self.quantities, self.depth = quantities, depth
        self.kept = depth if depth > WINDOW else 0
        super().__init__(capacity)

    def add(self, rows: Rows, seconds: Floats, amounts: tuple[Floats, ...], now: float) -> Closed:
        """One interval of some rows; returns those that closed a slot, and how many slots each.

        rows     a slice from 0 on, or row numbers, each once
        seconds  length of the interval, NaN where it is none
        amounts  by quantity: value times seconds; NaN makes the slot unknown
        """
        usable = seconds > 0
        if not usable.all():
            lost = numbers(rows, np.flatnonzero(~usable))
            lost = lost[~np.isnan(self.until[lost])]
            if len(lost):
                self.forget(lost)
            rows = numbers(rows, np.flatnonzero(usable))
            seconds = seconds[usable]
            amounts = tuple(amount[usable] for amount in amounts)
        if not len(seconds):
            return Closed(np.zeros(0, np.intp), np.zeros(0, np.int16))
        self.until[rows] = now + np.maximum(freshness.PERIODS * seconds, freshness.LEAST)
        total = self._seconds[rows] + seconds
        self._seconds[rows] = total
        for sums, amount in zip(self._sums, amounts, strict=True):
            sums[rows] += amount
        at = np.flatnonzero(total + seconds / 2 >= SLOT)
        closed = numbers(rows, at)
        if not len(at):
            return Closed(closed, np.zeros(0, np.int16))
        fills = np.clip(np.rint(total[at] / SLOT), 1, self.depth).astype(np.int16)
        # where all rows of a slice close at once, whole arrays are moved
        self._close(rows if isinstance(rows, slice) and len(at) == len(seconds) else closed, total[at], fills, closed)
        return Closed(closed, fills)

    def _close(self, rows: Rows, seconds: Floats, fills: NDArray[np.int16], closed: Numbers) -> None:
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
            if self.kept:
                self._keep(quantity, closed, fills, value)
        self._head[rows] = (self._head[rows] + fills) % self.depth
        if self.kept:
            self._filled_slots[rows] = np.minimum(self._filled_slots[rows] + fills, np.int16(self.depth))

    def _keep(self, quantity: int, rows: Numbers, fills: NDArray[np.int16], value: Singles) -> None:
        ring, base = self._ring[quantity].reshape(-1), rows * self.depth
        for turn in range(1, int(fills.max()) + 1):
            head = (self._head[rows] + turn) % self.depth
            if turn == 1:
                ring[base + head] = value
            else:
                on = np.flatnonzero(fills >= turn)
                ring[(base + head)[on]] = value[on]

    def history(self, quantity: int, rows: Numbers, count: int) -> Singles:
        """[count, rows]: the newest slots, the newest first; NaN unknown."""
        if count <= WINDOW:
            parts = (self.latest[quantity], self._before[0, quantity], self._before[1, quantity])
            return np.stack([part[rows] for part in parts[:count]])
        back = np.arange(count)[:, None]
        at = rows * self.depth + (self._head[rows] - back) % self.depth
        known = back < self._filled_slots[rows]
        return np.where(known, self._ring[quantity].reshape(-1)[at], np.float32(np.nan))

    def windows(self, quantity: int, rows: Numbers, count: int) -> Singles:
        """[count, rows]: means of the newest windows of WINDOW slots; NaN where one of its slots is unknown."""
        slots = self.history(quantity, rows, count * WINDOW)
        return np.asarray(slots.reshape(count, WINDOW, len(rows)).mean(axis=1))

    def known(self, n: int, now: float) -> Bools:
        """The row was read lately."""
        return np.asarray(self.until[:n] >= now)


def _known_mean(one: Singles, two: Singles, three: Singles) -> Singles:
    """Mean of those of three values that are known."""
    values = np.stack((one, two, three))
    known = np.isfinite(values)
    values[~known] = 0.0
    total = values[0] + values[1] + values[2]
    number = known[0].astype(np.float32) + known[1] + known[2]
    mean = np.full(len(one), np.nan, np.float32)
    np.divide(total, number, out=mean, where=number > 0)
    return mean


class HourMean(RowState):
    """What is usual for a port: the mean of a quantity over its last hour. Per row.

    mean  of the slots of the last MEMORY seconds; the plain mean of all while there are fewer; NaN before the first
    """

    mean = per_row(np.float32, np.nan)
    _slots = per_row(np.int16)

    def add(self, rows: Numbers, fills: NDArray[np.int16], value: Singles, *, least: float = 0.0) -> None:
        """Take over values that hold for `fills` slots each; NaN is left out.

        least  share of the mean below which a slot counts as one of a whole hour, also while there are fewer: what
               falls does not become usual in minutes
        """
        known = ~np.isnan(value)
        if not known.all():
            rows, fills, value = rows[known], fills[known], value[known]
        before, former = self._slots[rows], self.mean[rows]
        number = before + fills
        of = np.where(value < least * former, _FULL, number) if least else number
        self.mean[rows] = np.where(before == 0, value, former + (value - former) * (fills / of).astype(np.float32))
        self._slots[rows] = np.minimum(number, _FULL)

    def before(self, rows: Numbers, newest: Singles) -> Floats:
        """The mean without the newest slots (float32[slots, rows], NaN unknown); NaN where there are no others."""
        earlier = self._slots[rows] - np.isfinite(newest).sum(axis=0)
        total = self.mean[rows] * self._slots[rows] - np.nan_to_num(newest).sum(axis=0)
        return np.divide(np.maximum(total, 0.0), earlier, out=np.full(len(rows), np.nan), where=earlier > 0)

    def whole(self, rows: Rows) -> Bools:
        """The mean is of a whole hour."""
        return self.of(rows, int(_FULL))

    def of(self, rows: Rows, slots: int) -> Bools:
        """The mean is of so many slots or more."""
        return np.asarray(self._slots[rows] >= slots)
