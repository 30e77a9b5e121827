"""Fine-grained series of the last hours for single components: those of open incidents, and those asked for. Pure.

Every STEP seconds each new reading of a followed component becomes a point: of a counter, its rise per second by the
node's own clock; of a gauge, its value. A column gets a ring when it first moves (most never do), filled with 0 or its
former value wherever it was read. There is no point where a reading is missing or its interval is not known: a first
reading, a reset, a counter at its top, a gap.

Bounds: MAX_FOLLOWED components, MAX_SERIES rings of KEPT float32 among all of them: 31 MB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Growth
from fabricmon.fleet.arithmetic import GAP_FACTOR
from fabricmon.fleet.table import Table
from fabricmon.model import ComponentId, Kind

STEP = 15.0  # seconds
KEPT = 960  # points of a series: four hours
MAX_FOLLOWED = 256
MAX_ASKED = 64  # of them the ones asked for last
ASKED_FOR = 3600.0  # seconds that one is followed after it was asked for
MAX_SERIES = 8192


class Series(NamedTuple):
    """Points (wall time of the slot, value) of one column, oldest first; `period` seconds between its readings."""

    name: str
    period: float
    points: list[tuple[float, float]]


@dataclass(slots=True)
class _Followed:
    """One component. `read` per set of collectors: whether a reading came whose interval is known; `rings` per column.
    Both by slot modulo KEPT."""

    row: int
    generation: int
    begun: float
    slot: int
    base: NDArray[np.float64]
    taken: dict[tuple[int, ...], float] = field(default_factory=dict)
    read: dict[tuple[int, ...], NDArray[np.bool_]] = field(default_factory=dict)
    rings: dict[str, NDArray[np.float32]] = field(default_factory=dict)


class _Column(NamedTuple):
    name: str
    at: int
    counts: bool
    wrap: float  # by what it falls when it wraps, 0 where it does not
    top: float  # where it stops, NaN where it does not


class Closeup:
    """Components that are followed now."""

    def __init__(self) -> None:
        self._followed: dict[ComponentId, _Followed] = {}
        self._asked: dict[ComponentId, float] = {}
        self._columns: dict[tuple[Kind, int], dict[tuple[int, ...], list[_Column]]] = {}
        self._series = 0

    @property
    def followed(self) -> int:
        return len(self._followed)

    @property
    def series(self) -> int:
        return self._series

    def follow(self, component: ComponentId, now: float) -> None:
        """Follow it from the next update on."""
        self._asked.pop(component, None)
        self._asked[component] = now
        while len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]

    def update(self, wanted: Iterable[ComponentId], tables: Mapping[Kind, Table], now: float) -> None:
        """Take over what was read since the last update. `wanted`: what to follow besides what was asked for, the most
        important first."""
        self._asked = {c: at for c, at in self._asked.items() if 0 <= now - at < ASKED_FOR}
        keep = dict.fromkeys(self._asked)
        for component in wanted:
            if len(keep) >= MAX_FOLLOWED:
                break
            keep[component] = None
        for component in [c for c in self._followed if c not in keep]:
            self._drop(component)
        slot = int(now // STEP)
        for component in keep:
            table = tables[component.kind]
            row = table.row(component)
            if row is not None:
                self._update_one(component, table, row, slot)

    def series_of(self, component: ComponentId, table: Table) -> tuple[list[Series], list[str]]:
        """Its series in the order of the table's columns, and the names of what was read and never moved."""
        one = self._followed.get(component)
        if one is None:
            return [], []
        found, quiet = [], []
        slots = np.arange(one.slot - KEPT + 1, one.slot + 1)
        for supply, columns in self._by_supply(table).items():
            read = one.read.get(supply)
            if read is None:
                continue
            period = table.by_supply[supply].newest_at(table.clocks.period, table.part_of, one.row)
            for column in columns:
                ring = one.rings.get(column.name)
                if ring is not None:
                    values = ring[slots % KEPT]
                    known = np.flatnonzero(np.isfinite(values)).tolist()
                    points = [(float(slots[i] * STEP), float(values[i])) for i in known]
                    found.append((column.at, Series(column.name, period, points)))
                elif not math.isnan(one.base[column.at]):
                    quiet.append(column.name)
        return [series for _, series in sorted(found, key=lambda pair: pair[0])], sorted(quiet)

    def components(self) -> list[ComponentId]:
        """The followed ones."""
        return list(self._followed)

    def means(self, component: ComponentId, first: int, count: int, width: int) -> dict[str, NDArray[np.float64]]:
        """Series -> the means of `count` spans of `width` slots from slot `first` on; NaN: nothing is known of it."""
        one = self._followed.get(component)
        if one is None:
            return {}
        slots = np.arange(first, first + count * width)
        outside = (slots <= one.slot - KEPT) | (slots > one.slot)
        found = {}
        for name, ring in one.rings.items():
            values = np.where(outside, np.nan, ring[slots % KEPT]).reshape(count, width)
            known = np.isfinite(values)
            number = known.sum(1)
            total = np.where(known, values, 0.0).sum(1)
            found[name] = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return found

    # ---------------------------------------------------------------- inside

    def _drop(self, component: ComponentId) -> None:
        self._series -= len(self._followed.pop(component).rings)

    def _update_one(self, component: ComponentId, table: Table, row: int, slot: int) -> None:
        one = self._followed.get(component)
        generation, begun = int(table.generation[row]), float(table.begun[row])
        if one is not None and (one.row, one.generation) != (row, generation):
            self._drop(component)
            one = None
        if one is None:
            blank = np.full(len(table.cells), np.nan)
            one = self._followed[component] = _Followed(row, generation, begun, slot, blank)
        if len(one.base) < len(table.cells):
            one.base = np.concatenate([one.base, np.full(len(table.cells) - len(one.base), np.nan)])
        if one.begun != begun and not (math.isnan(one.begun) and math.isnan(begun)):
            one.base[:] = np.nan  # the counting began anew
            one.begun = begun
        self._turn(one, slot)
        for supply, columns in self._by_supply(table).items():
            times = table.by_supply[supply]
            taken = times.newest_at(table.clocks.taken, table.part_of, row)
            before = one.taken.get(supply, math.nan)
            if math.isnan(taken) or taken == before:
                continue
            one.taken[supply] = taken
            self._points(one, table, supply, columns, taken - before)

    def _turn(self, one: _Followed, slot: int) -> None:
        """Empty the slots between the last update and this one."""
        missed = np.arange(max(one.slot, slot - KEPT) + 1, slot + 1) % KEPT
        for read in one.read.values():
            read[missed] = False
        for ring in one.rings.values():
            ring[missed] = np.nan
        one.slot = max(slot, one.slot)

    def _points(
        self, one: _Followed, table: Table, supply: tuple[int, ...], columns: list[_Column], dt: float
    ) -> None:
        here = one.slot % KEPT
        read = one.read.setdefault(supply, np.zeros(KEPT, np.bool_))
        period = table.by_supply[supply].newest_at(table.clocks.period, table.part_of, one.row)
        regular = 0 < dt <= max(GAP_FACTOR * period, GAP_FACTOR * STEP)
        values = table.cells[:, one.row]
        for column in columns:
            value, base = float(values[column.at]), float(one.base[column.at])
            ring = one.rings.get(column.name)
            if math.isnan(value) or (ring is None and value == base):
                continue
            point = value
            if column.counts:
                point = _rate(column, base, value, dt) if regular else math.nan
            if ring is None and not math.isnan(base):
                ring = self._ring(one, column, read, base)
            if ring is not None:
                ring[here] = point
            one.base[column.at] = value
        read[here] = regular

    def _ring(
        self, one: _Followed, column: _Column, read: NDArray[np.bool_], base: float
    ) -> NDArray[np.float32] | None:
        """A ring for a column that moves for the first time, filled with how it stood until now; None: no room."""
        if self._series >= MAX_SERIES:
            return None
        self._series += 1
        still = 0.0 if column.counts else base
        ring = one.rings[column.name] = np.where(read, np.float32(still), np.float32(np.nan)).astype(np.float32)
        return ring

    def _by_supply(self, table: Table) -> dict[tuple[int, ...], list[_Column]]:
        """Columns by the collectors that supply them; rebuilt when these change."""
        key = table.kind, table.shape
        found = self._columns.get(key)
        if found is None:
            found = {}
            for name, at in table.columns.items():
                times = table.read_times(name)
                if times is not None and name not in table.own:
                    found.setdefault(times.sources, []).append(_column(name, at))
            self._columns = {k: v for k, v in self._columns.items() if k[0] is not table.kind}
            self._columns[key] = found
        return found


def _column(name: str, at: int) -> _Column:
    counter = CATALOGUE.get(name)
    counts = counter is not None and counter.growth.counts
    wraps = counter is not None and counter.growth is Growth.WRAPS and counter.bits
    wrap = 2.0**counter.bits * counter.scale if counter is not None and wraps else 0.0
    return _Column(name, at, counts, wrap, counter.top if counter is not None else math.nan)


def _rate(column: _Column, before: float, after: float, dt: float) -> float:
    """Rise per second, NaN where it is not known."""
    if after == column.top:
        return math.nan
    rise = after - before
    if rise < 0 and column.wrap and 0 <= rise + column.wrap < column.wrap / 2:
        rise += column.wrap
    return rise / dt if rise >= 0 else math.nan
