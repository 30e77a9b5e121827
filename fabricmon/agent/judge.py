"""The node's own judgement: the same engine as at the centre, over one node's rows and the rules that need no other."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon import frame
from fabricmon.model import Event, Inventory, Kind, Presence, Snapshot, Symptom
from fabricmon.units import Duration

if TYPE_CHECKING:
    from fabricmon.engine import Engine

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

        self._node = node
        if at_once:
            params = {rule.name: _without_hold(params.get(rule.name) or rule.params()) for rule in RULES}
        self._engine: Engine = Engine(Scope.NODE, None, params)
        self._inventory: Inventory | None = None
        self._seq = -1
        self.words = {rule.name: (rule.title, rule.why, rule.action) for rule in RULES}

    def tick(self, snapshot: Snapshot, now: float) -> None:
        """Judge the newest snapshot; `now` is the wall clock."""
        if snapshot.inventory is not self._inventory:
            self._inventory = snapshot.inventory
            self._engine.inventory(self._node, own(snapshot).inventory, now)
            self._engine.presence(self._node, Presence.LIVE, "", now)
        if snapshot.seq != self._seq:
            self._seq = snapshot.seq
            self._engine.frame(self._node, frame.decode(frame.encode_full(own(snapshot))), now)
        self._engine.tick(now)

    def event(self, event: Event, now: float) -> None:
        self._engine.event(self._node, event, now)

    def symptoms(self) -> list[Symptom]:
        return self._engine.symptoms()


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
