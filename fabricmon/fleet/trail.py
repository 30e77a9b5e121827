"""What every port did over the last hours, coarsely: how busy it was and how many errors it counted. Pure, NumPy.

For the hours before an incident, which nobody had a reason to watch closely: `closeup.py` has what is of interest now.
A slot holds the mean of the shares that were known in it, and the errors that were counted in it; NaN where nothing was
known. Each row takes SERIES * KEPT * 4 = 576 bytes: 46 MB for 80,000 ports, at most 75 MB (MAX_ROWS).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.fleet.table import Table
from fabricmon.fleet.utilisation import Utilisation

EVERY = 60.0  # seconds between two looks
SLOT = 300.0  # seconds
KEPT = 48  # slots: four hours
MAX_ROWS = 131_072  # rows beyond have no trail
NAMES = ("receive_ratio", "transmit_ratio", "errors")


class Trail:
    """The last KEPT slots of every PORT row."""

    def __init__(self) -> None:
        self._data = np.full((len(NAMES), KEPT, 0), np.nan, np.float32)
        self._sum = np.zeros((2, 0))
        self._count = np.zeros((2, 0), np.int32)
        self._errors = np.full(0, np.nan)
        self._total = np.full(0, np.nan)
        self._known = np.zeros(0, np.int32)
        self._generation = np.zeros(0, np.int64)
        self._slot = -1
        self._looked = -np.inf

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def look(self, of: Utilisation, now: float) -> None:
        """Take in how things stand; does nothing more often than every EVERY seconds."""
        if 0 <= now - self._looked < EVERY:
            return
        self._looked = now
        table, n = of.view.table, min(of.view.n, MAX_ROWS)
        self._widen(n)
        self._turn(int(now // SLOT))
        others = np.flatnonzero(self._generation[:n] != table.generation[:n])
        if len(others):
            self._data[:, :, others] = np.nan
            self._sum[:, others], self._count[:, others] = 0.0, 0
            self._errors[others] = self._total[others] = np.nan
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
        """Errors since the look before; not known where other columns were known than then, or one fell."""
        table = of.view.table
        total, known = np.zeros(n), np.zeros(n, np.int32)
        for column in _errors(table):
            values = table.cells[table.columns[column], :n]
            there = of.view.fresh(column)[:n] & np.isfinite(values)
            total[there] += values[there]
            known += there
        rise = total - self._total[:n]
        with np.errstate(invalid="ignore"):
            fit = (known > 0) & (known == self._known[:n]) & (rise >= 0)
        self._errors[:n][fit] = np.where(np.isnan(self._errors[:n][fit]), 0.0, self._errors[:n][fit]) + rise[fit]
        self._total[:n] = np.where(known > 0, total, np.nan)
        self._known[:n] = known

    def _turn(self, slot: int) -> None:
        """Go on to a slot; those in between, in which nobody looked, are unknown."""
        if slot == self._slot:
            return
        missed = min(KEPT, slot - self._slot) if 0 <= self._slot < slot else KEPT
        for gone in range(missed):
            self._data[:, (slot - gone) % KEPT] = np.nan
        self._sum[:], self._count[:], self._errors[:] = 0.0, 0, np.nan
        self._slot = slot

    def _widen(self, n: int) -> None:
        more = n - self._data.shape[2]
        if more <= 0:
            return
        more = min(max(more, n // 4), MAX_ROWS - self._data.shape[2])

        def wider(array: NDArray[Any], fill: float) -> Any:
            return np.concatenate([array, np.full((*array.shape[:-1], more), fill, array.dtype)], axis=-1)

        self._data, self._sum, self._count = wider(self._data, np.nan), wider(self._sum, 0), wider(self._count, 0)
        self._errors, self._total = wider(self._errors, np.nan), wider(self._total, np.nan)
        self._known, self._generation = wider(self._known, 0), wider(self._generation, -1)

    def of(self, table: Table, row: int) -> dict[str, list[tuple[float, float]]]:
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
                (min(float((slots[i] + 0.5) * SLOT), self._looked), float(values[i])) for i in known.tolist()
            ]
        return {name: points for name, points in found.items() if points}


def _errors(table: Table) -> list[str]:
    """Columns that count errors."""
    counters = ((name, CATALOGUE.get(name)) for name in table.columns)
    return [name for name, c in counters if c is not None and c.category is Category.ERROR and c.growth.counts]
