"""Coarse series of every port over the last hours: utilisation and errors before an incident. Pure, NumPy.

A slot holds the mean of the shares and the errors counted in it; NaN where nothing was known. A row takes
SERIES * KEPT * 4 = 576 bytes: 46 MB for 80,000 ports, at most 75 MB (MAX_ROWS). `closeup.py` has the finer series.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.fleet.row_state import Floats, RowState, per_row
from fabricmon.fleet.table import Table
from fabricmon.fleet.utilisation import Utilisation

EVERY = 60.0  # seconds between two updates
SLOT = 300.0  # seconds
KEPT = 48  # slots: four hours
MAX_ROWS = 131_072  # rows beyond have no trail
NAMES = ("receive_ratio", "transmit_ratio", "errors")


class Trail(RowState):
    """The last KEPT slots of every PORT row."""

    _data = per_row(np.float32, np.nan, len(NAMES), KEPT)
    _sum = per_row(np.float64, 0, 2)
    _count = per_row(np.int32, 0, 2)
    _errors = per_row(np.float64, np.nan)
    _total = per_row(np.float64, np.nan)
    _known = per_row(np.int32)
    _generation = per_row(np.int64, -1)

    def __init__(self) -> None:
        super().__init__(0)
        self._slot = -1
        self._updated = -np.inf

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def update(self, of: Utilisation, now: float) -> None:
        """Add the present utilisation and errors, at most once in EVERY seconds."""
        if 0 <= now - self._updated < EVERY:
            return
        self._updated = now
        table, n = of.view.table, min(of.view.n, MAX_ROWS)
        if n > self.capacity:
            self.resize(min(max(n, self.capacity + n // 4), MAX_ROWS))
        self._turn(int(now // SLOT))
        others = np.flatnonzero(self._generation[:n] != table.generation[:n])
        if len(others):
            self.forget(others)
            self._generation[others] = table.generation[others]
        for at, share in enumerate((of.receive[:n], of.transmit[:n])):
            known = np.isfinite(share)
            self._sum[at, :n][known] += share[known]
            self._count[at, :n] += known
        self._count_errors(of, n)
        here = self._slot % KEPT
        for at in range(2):
            mean = np.full(n, np.nan)
            np.divide(self._sum[at, :n], self._count[at, :n], out=mean, where=self._count[at, :n] > 0)
            self._data[at, here, :n] = mean
        self._data[2, here, :n] = self._errors[:n]

    def _count_errors(self, of: Utilisation, n: int) -> None:
        """Add the errors since the last update; unknown where other columns were known than then, or one fell."""
        table = of.view.table
        total, known = np.zeros(n), np.zeros(n, np.int32)
        for column in _errors(table):
            values = table.cells[table.columns[column], :n]
            there = of.view.fresh(column)[:n] & np.isfinite(values)
            total[there] += values[there]
            known += there
        rise = total - self._total[:n]
        fit = (known > 0) & (known == self._known[:n]) & (rise >= 0)
        self._errors[:n][fit] = np.where(np.isnan(self._errors[:n][fit]), 0.0, self._errors[:n][fit]) + rise[fit]
        self._total[:n] = np.where(known > 0, total, np.nan)
        self._known[:n] = known

    def _turn(self, slot: int) -> None:
        """Go on to a slot; those in between are unknown."""
        if slot == self._slot:
            return
        missed = min(KEPT, slot - self._slot) if 0 <= self._slot < slot else KEPT
        for gone in range(missed):
            self._data[:, (slot - gone) % KEPT] = np.nan
        self._sum[:], self._count[:], self._errors[:] = 0.0, 0, np.nan
        self._slot = slot

    def recent_errors(self) -> Floats:
        """Errors of every row in the present and the last slot, NaN where neither is known."""
        if self._slot < 0:
            return np.zeros(0)
        both = self._data[2][[self._slot % KEPT, (self._slot - 1) % KEPT]]
        known = np.isfinite(both)
        return np.where(known.any(axis=0), np.where(known, both, 0).sum(axis=0), np.nan).astype(np.float64)

    def series_of(self, table: Table, row: int) -> dict[str, list[tuple[float, float]]]:
        """Series -> (wall time of the slot's middle, value) of one row, oldest first; slots of which nothing is known
        are left out."""
        if self._slot < 0 or row >= self._data.shape[2] or self._generation[row] != table.generation[row]:
            return {}
        slots = np.arange(self._slot - KEPT + 1, self._slot + 1)
        found = {}
        for at, name in enumerate(NAMES):
            values = self._data[at, slots % KEPT, row]
            known = np.flatnonzero(np.isfinite(values))
            found[name] = [
                (min(float((slots[i] + 0.5) * SLOT), self._updated), float(values[i])) for i in known.tolist()
            ]
        return {name: points for name, points in found.items() if points}


def _errors(table: Table) -> list[str]:
    """Columns that count errors."""
    counters = ((name, CATALOGUE.get(name)) for name in table.columns)
    return [name for name, c in counters if c is not None and c.category is Category.ERROR and c.growth.counts]
