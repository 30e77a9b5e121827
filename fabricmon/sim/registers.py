"""The counters of many components as their devices keep them: widths, saturation and wrap from the catalogue. Pure.

A device counts whole numbers in its own unit (4-byte words, microseconds), read as float64 in the exported unit. A
fraction of a count is carried to the next addition, so that many small steps count as one large.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth

Floats = NDArray[np.float64]
Rows = NDArray[np.integer] | slice

NARROW_BITS = 32
EVERY = slice(None)


class Registers:
    """Counters of n components of one kind.

    raw      column -> uint64[n], as the device counts
    frozen   bool[n]: the device's counters keep their values (frozen firmware)
    narrow   bool[n]: the device has 32 bits of counters that have 64 in the catalogue
    """

    def __init__(self, n: int, columns: Iterable[str]) -> None:
        self.n = n
        self.raw: dict[str, NDArray[np.uint64]] = {column: np.zeros(n, np.uint64) for column in columns}
        self.frozen = np.zeros(n, np.bool_)
        self.narrow = np.zeros(n, np.bool_)
        self._carry: dict[str, Floats] = {}

    def count(self, column: str, amount: Floats, rows: Rows = EVERY) -> None:
        """Count events: whole numbers, in the device's unit. Rows must not repeat."""
        grown = amount.astype(np.uint64)
        if self.frozen.any():
            grown[self.frozen[rows]] = 0
        self._put(column, grown, rows)

    def grow(self, column: str, amount: Floats) -> None:
        """Count on all rows: `amount` in the exported unit, any fraction."""
        total = amount / CATALOGUE[column].scale
        carry = self._carry.get(column)
        if carry is not None:
            total += carry
        grown = np.floor(total)
        self._carry[column] = total - grown
        self.count(column, grown)

    def _put(self, column: str, grown: NDArray[np.uint64], rows: Rows) -> None:
        counter = CATALOGUE[column]
        total = self.raw[column][rows] + grown
        if counter.growth is not Growth.WRAPS:
            total = np.minimum(total, np.uint64((1 << counter.bits) - 1))
        elif counter.bits < 64:
            total %= np.uint64(1 << counter.bits)
        elif self.narrow.any():
            total = np.where(self.narrow[rows], total % np.uint64(1 << NARROW_BITS), total)
        self.raw[column][rows] = total

    def column(self, name: str) -> Floats:
        """float64[n] in the exported unit."""
        raw, scale = self.raw[name].astype(np.float64), CATALOGUE[name].scale
        return raw if scale == 1.0 else raw * scale

    def clear(self, rows: Rows, columns: Iterable[str] | None = None) -> None:
        """Set counters to zero, as a power cycle, a driver reload or an operator does."""
        for column in self.raw if columns is None else columns:
            self.raw[column][rows] = 0
            if column in self._carry:
                self._carry[column][rows] = 0.0
