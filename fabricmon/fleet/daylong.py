"""A day of the components of open and recent incidents, at two minutes: means of what `closeup.py` recorded, also after
it has stopped to follow them. Pure.

Bounds: MAX_SERIES series of KEPT float32 among all components, 24 MB; the component that was recorded least recently
goes first. `StoredDay` is how a component survives a restart: as much again in the database.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet.closeup import KEPT as FINE_KEPT
from fabricmon.fleet.closeup import STEP as FINE_STEP
from fabricmon.fleet.closeup import Closeup, Series
from fabricmon.model import ComponentId, Kind

WIDTH = 8  # fine steps of one slot
STEP = WIDTH * FINE_STEP  # seconds
KEPT = 720  # slots: 24 hours
MAX_SERIES = 8192


class StoredDay(Struct, frozen=True):
    """A component's day. `component`: "port/host-007/mlx5_3/1"; `slot`: the newest; `series`: name -> float32 of KEPT
    slots, oldest first."""

    component: str
    at: float
    slot: int
    series: dict[str, bytes]


@dataclass(slots=True)
class _Day:
    slot: int
    rings: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # by slot modulo KEPT


class Daylong:
    """The components that are kept, the one recorded least recently first."""

    def __init__(self, stored: Iterable[StoredDay] = ()) -> None:
        self._days: dict[ComponentId, _Day] = {}
        self._series = 0
        self._changed: set[ComponentId] = set()
        self._gone: set[ComponentId] = set()
        for one in sorted(stored, key=lambda one: one.slot):
            self._restore(one)

    @property
    def series(self) -> int:
        return self._series

    def update(self, closeup: Closeup, now: float) -> None:
        """Take over full slots of the followed components, an eighth of the components at each fine step; forget what
        is older than a day."""
        slot, turn = int(now // STEP) - 1, int(now // FINE_STEP) % WIDTH
        for at, component in enumerate(closeup.components()):
            if at % WIDTH == turn:
                self._take(closeup, component, slot)
        for component in [c for c, day in self._days.items() if day.slot <= slot - KEPT]:
            self._drop(component)
        while self._series > MAX_SERIES and len(self._days) > 1:
            self._drop(next(iter(self._days)))

    def series_of(self, component: ComponentId, now: float) -> list[Series]:
        """The series of its last 24 hours; points in the middle of their slots."""
        day = self._days.get(component)
        if day is None:
            return []
        slots = np.arange(max(int(now // STEP), day.slot) - KEPT, day.slot + 1)[-KEPT:]
        found = []
        for name, ring in day.rings.items():
            values = ring[slots % KEPT]
            known = np.flatnonzero(np.isfinite(values)).tolist()
            points = [(float((slots[i] + 0.5) * STEP), float(values[i])) for i in known]
            if points:
                found.append(Series(name, STEP, points))
        return found

    def unsaved(self) -> tuple[list[StoredDay], list[str]]:
        """What changed since the last call, and the names of components that are no longer kept."""
        changed = [self._stored(component) for component in self._changed]
        gone = [_word(component) for component in self._gone]
        self._changed, self._gone = set(), set()
        return changed, gone

    # ---------------------------------------------------------------- inside

    def _take(self, closeup: Closeup, component: ComponentId, slot: int) -> None:
        day = self._days.pop(component, None) or _Day(slot - KEPT)
        self._days[component] = day
        spans = min(max(slot - day.slot, 0), FINE_KEPT // WIDTH)
        if not spans:
            return
        self._empty(day, slot)
        reach = FINE_KEPT // WIDTH
        known = closeup.means(component, (slot - reach + 1) * WIDTH, reach, WIDTH)
        for name, means in known.items():
            ring = day.rings.get(name)
            if ring is None:
                ring = day.rings[name] = np.full(KEPT, np.nan, np.float32)
                self._series += 1
                ring[np.arange(slot - reach + 1, slot + 1) % KEPT] = means
            else:
                ring[np.arange(slot - spans + 1, slot + 1) % KEPT] = means[-spans:]
        if known:
            self._changed.add(component)
            self._gone.discard(component)

    def _empty(self, day: _Day, slot: int) -> None:
        """Go on to a slot; those in between are unknown."""
        missed = np.arange(max(day.slot, slot - KEPT) + 1, slot + 1) % KEPT
        for ring in day.rings.values():
            ring[missed] = np.nan
        day.slot = slot

    def _drop(self, component: ComponentId) -> None:
        self._series -= len(self._days.pop(component).rings)
        self._changed.discard(component)
        self._gone.add(component)

    def _stored(self, component: ComponentId) -> StoredDay:
        day = self._days[component]
        order = np.arange(day.slot - KEPT + 1, day.slot + 1) % KEPT
        series = {name: ring[order].tobytes() for name, ring in day.rings.items()}
        return StoredDay(_word(component), day.slot * STEP, day.slot, series)

    def _restore(self, one: StoredDay) -> None:
        """Take over a stored day; one that is none is left out."""
        kind, _, rest = one.component.partition("/")
        node, _, name = rest.partition("/")
        if kind not in tuple(Kind) or not math.isfinite(one.at):
            return
        day = _Day(one.slot)
        order = np.arange(one.slot - KEPT + 1, one.slot + 1) % KEPT
        for series, data in one.series.items():
            if len(data) == KEPT * 4 and self._series < MAX_SERIES:
                ring = day.rings[series] = np.full(KEPT, np.nan, np.float32)
                ring[order] = array("f", data)
                self._series += 1
        self._days[ComponentId(Kind(kind), node, name)] = day


def _word(component: ComponentId) -> str:
    return f"{component.kind.value}/{component.node}/{component.name}"
