"""The node's own judgement: the same engine as at the centre, over one node's rows and the rules that need no other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.frame import Frame
from fabricmon.model import Event, Inventory, Kind, Presence, Snapshot, Symptom
from fabricmon.units import Duration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fabricmon.engine import Engine

TICK = 1.0
"""Seconds between two looks at what was read."""

PACE = 9.0
"""Seconds between two judgements while no reading says anything new: less than the 10 s between two readings of
counters, so that each is judged on its own. What time alone brings about (an end of grace) is so much later at most."""

PACE_ILL = 4.0
"""The same while a symptom is open: time alone ends some of them."""

TELLING = frozenset({Category.STATE, Category.ERROR, Category.CONFIGURATION})
"""A change of these may make or end a symptom. Traffic, congestion and repeats change with every reading of a node at
work; what the rules know by them takes half a minute or more to show."""

DOWNS = frozenset({"link_downed", "carrier_down_changes"})
"""Counters of which the rises count, over whatever interval; no rate is formed of them."""

FRESH_PERIODS, FRESH_LEAST = 3.0, 30.0
"""A row counts as judged when a part of it was read within three periods, or 30 s (detection-methods 0.1)."""


class NodeJudge:
    """Feeds snapshots to an engine of node scope. NumPy and the rules are imported when one is made.

    `at_once`: rules do not wait for their condition to hold; for one look that cannot wait.
    """

    def __init__(self, node: str, params: Mapping[str, Any], at_once: bool = False) -> None:
        from fabricmon.engine import Engine
        from fabricmon.rules import RULES
        from fabricmon.rules.rule import Scope

        self._node, self._at_once = node, at_once
        if at_once:
            params = {rule.name: _without_hold(params.get(rule.name) or rule.params()) for rule in RULES}
        self._engine: Engine = Engine(Scope.NODE, None, params)
        self._inventory: Inventory | None = None
        self._seq = -1
        self._pace = 0.0
        self._telling: NDArray[np.intp]
        self._told = b""  # bits of the telling cells at the last judgement
        self._judged = -math.inf  # `now` of it
        self._wait = 0.0  # seconds until the next judgement where nothing changes
        self._passed: float | None = None  # `now` of the newest that was fed and not judged
        self.words = {rule.name: (rule.title, rule.why, rule.action) for rule in RULES}

    def tick(self, snapshot: Snapshot, now: float) -> None:
        """Judge the newest snapshot where that can make a difference; `now` is the wall clock. Call it every TICK.

        Nearly all readings of a healthy node say what the ones before said. Judged is at once when a cell changed that
        a symptom may hang on, at every tick while a symptom is about to open or close, and else at the pace.
        """
        whole, snapshot = snapshot.inventory, own(snapshot)
        if whole is not self._inventory:
            self._enter(snapshot.inventory, now)
            self._inventory = whole
        told = _bits(snapshot, self._telling)
        changed = told != self._told
        since = now - self._judged
        if not changed and 0.0 <= since < self._wait:
            self._feed(snapshot, now)
            self._passed = now
            return
        if changed and self._passed is not None and since > 2 * TICK:
            # So that what changed is seen as a change of the last second, not of the whole time since it was judged.
            self._engine.fleet.advance(self._passed)
        self._passed = None
        self._feed(snapshot, now)
        self._engine.judge(now)
        self._told, self._judged = told, now
        ill = any(self._engine.open_by_rule().values())
        self._wait = 0.0 if self._engine.waiting() else min(self._pace, PACE_ILL) if ill else self._pace

    def _enter(self, inventory: Inventory, now: float) -> None:
        self._told, self._passed, self._wait = b"", None, 0.0
        self._telling = _telling(inventory)
        self._pace = 0.0 if self._at_once else pace(inventory)
        self._engine.inventory(self._node, inventory, now)
        self._engine.presence(self._node, Presence.LIVE, "", now)

    def _feed(self, snapshot: Snapshot, now: float) -> None:
        import numpy as np

        if snapshot.seq == self._seq:
            return
        self._seq = snapshot.seq
        values = np.frombuffer(snapshot.values, np.float64)
        inventory, taken = snapshot.inventory.id, np.array(snapshot.taken, np.float64)
        self._engine.frame(self._node, Frame(inventory, snapshot.seq, snapshot.wall, taken, None, values), now)

    def event(self, event: Event, now: float) -> None:
        self._engine.event(self._node, event, now)

    def reconfigure(self, params: Mapping[str, Any], now: float) -> None:
        """Other limits; what is open stays open until they say otherwise. ValueError changes nothing."""
        self._engine.reconfigure(params, None, now)
        self._wait = 0.0

    def symptoms(self) -> list[Symptom]:
        return self._engine.symptoms()


def pace(inventory: Inventory) -> float:
    """Seconds between two judgements of a node that shows nothing new. Less than two of the shortest period of counters
    that rates are formed of: three periods are a gap (detection-methods 0.1)."""
    periods = [
        part.period for part in inventory.parts
        if any(c in CATALOGUE and CATALOGUE[c].window and c not in DOWNS for c in part.columns)
    ]
    return max(0.0, min(PACE, *(2 * period - TICK for period in periods)) if periods else PACE)


def _telling(inventory: Inventory) -> NDArray[np.intp]:
    """Places of the cells that a symptom may hang on as soon as they change."""
    import numpy as np

    cells: list[int] = []
    base = 0
    for part in inventory.parts:
        telling = [c for c, name in enumerate(part.columns)
                   if name in CATALOGUE and CATALOGUE[name].category in TELLING]
        for row in range(len(part.components)):
            cells.extend(base + row * len(part.columns) + c for c in telling)
        base += part.size
    return np.array(cells, np.intp)


def _bits(snapshot: Snapshot, cells: NDArray[np.intp]) -> bytes:
    """Bits, not numbers: NaN differs from itself as a number."""
    import numpy as np

    return np.frombuffer(snapshot.values, np.float64)[cells].tobytes() if len(snapshot.values) else b""


def _without_hold(params: Any) -> Any:
    return msgspec.structs.replace(params, hold=Duration(0)) if hasattr(params, "hold") else params


def own(snapshot: Snapshot) -> Snapshot:
    """What concerns this node: without the ports elsewhere that it sweeps for the centre."""
    parts = snapshot.inventory.parts
    mine = [not (part.components and "swept" in part.components[0].labels) for part in parts]
    if all(mine):
        return snapshot
    values, base = array("d"), 0
    for part, keep in zip(parts, mine, strict=True):
        if keep:
            values.extend(snapshot.values[base : base + part.size])
        base += part.size
    kept = tuple(part for part, keep in zip(parts, mine, strict=True) if keep)
    return Snapshot(
        msgspec.structs.replace(snapshot.inventory, parts=kept), snapshot.seq, snapshot.wall,
        [taken for taken, keep in zip(snapshot.taken, mine, strict=True) if keep], values,
    )


LINKS = frozenset({Kind.PORT, Kind.NVLINK})
"""Kinds whose rows are ends of links. A node of which only counts and inventory are known has not been judged."""


def judged_rows(snapshot: Snapshot, monotonic: float) -> int:
    """Links of this node with at least one value that is known and fresh. `monotonic` is the node's clock."""
    snapshot = own(snapshot)
    rows: set[tuple[str, str]] = set()
    base = 0
    for part, taken in zip(snapshot.inventory.parts, snapshot.taken, strict=True):
        if part.kind in LINKS and monotonic - taken <= max(FRESH_PERIODS * part.period, FRESH_LEAST):
            width = len(part.columns)
            for n, component in enumerate(part.components):
                row = snapshot.values[base + n * width : base + (n + 1) * width]
                if any(not math.isnan(v) for v in row):
                    rows.add((part.kind, component.name))
        base += part.size
    return len(rows)
