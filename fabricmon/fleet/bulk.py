"""Values of many nodes at once, straight into the tables: for a source of columns instead of frames. Pure.

A Block is one part of many nodes, whose inventories the fleet already has; `load` does for all of them what
`Fleet.frame` does for one, and everything after it (differences, tracks, rules) is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.fleet import Fleet, Node
from fabricmon.model import Kind, Presence

Ints = NDArray[np.intp]


class Block:
    """One collector's part of one kind on several nodes.

    nodes      names, in the order of their rows; every one has an inventory with this part
    rows       table row of each component the part may have, node by node; -1: not in the inventory at present
    part       number of the part in the fleet's clocks, per node
    number     the node's number, per node
    owner      index into `nodes`, per component
    """

    def __init__(
        self, fleet: Fleet, collector: str, kind: Kind, nodes: Sequence[str], components: Sequence[Sequence[str]]
    ) -> None:
        """`components`: names of each node's components of the part, whether they are present now or not."""
        self.fleet, self.collector, self.kind, self.nodes = fleet, collector, kind, tuple(nodes)
        self._components = [tuple(names) for names in components]
        sizes = [len(names) for names in self._components]
        self._start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self.owner: Ints = np.repeat(np.arange(len(self.nodes), dtype=np.intp), sizes)
        self.rows: Ints = np.full(int(self._start[-1]), -1, np.intp)
        self.part: Ints = np.zeros(len(self.nodes), np.intp)
        self.number: Ints = np.zeros(len(self.nodes), np.intp)
        self.columns: tuple[str, ...] = ()
        self._complete = False  # all components are in the inventory
        self._together: slice | None = None  # their rows, where they follow each other
        self.refresh(range(len(self.nodes)))

    def refresh(self, nodes: Sequence[int] | range) -> None:
        """Take over the changed inventories of these nodes (indices). KeyError for one without the part."""
        for at in nodes:
            node = self.fleet.nodes[self.nodes[at]]
            inventory = node.inventory
            found = None
            for number, part in enumerate(inventory.parts if inventory else (), node.clocks.start):
                if part.collector == self.collector and part.kind is self.kind:
                    found = number, part
            if found is None:
                raise KeyError(f"{self.nodes[at]} has no part {self.collector} of kind {self.kind}")
            self.part[at], part = found
            self.number[at] = node.number
            self.columns = part.columns
            mine = node.rows[self.kind]
            present = {component.name for component in part.components}
            names = self._components[at]
            self.rows[self._start[at] : self._start[at + 1]] = [mine[n] if n in present else -1 for n in names]
        self._complete, self._together = bool((self.rows >= 0).all()), None
        if self._complete and len(self.rows) and (np.diff(self.rows) == 1).all():
            self._together = slice(int(self.rows[0]), int(self.rows[-1]) + 1)

    def load(
        self, values: Callable[[str], NDArray[np.float64]], taken: NDArray[np.float64], live: NDArray[np.bool_],
        now: float,
    ) -> None:
        """Write what was read of the live nodes into the tables.

        values  column -> float64, one value a component in the order of `rows`; NaN unknown
        taken   float64[nodes]: node monotonic seconds of the read, finite where live
        live    bool[nodes]: nodes whose frame arrives
        """
        table, every = self.fleet.tables[self.kind], self._complete and bool(live.all())
        picked = slice(None) if every else np.flatnonzero(live[self.owner] & (self.rows >= 0))
        rows = self._together if every and self._together is not None else self.rows[picked]
        for column in self.columns:
            table.cells[table.columns[column], rows] = values(column)[picked]
        clocks = self.fleet.clocks
        at = live & np.isfinite(taken)
        parts = self.part[at]
        moved = taken[at] != clocks.taken[parts]
        clocks.taken[parts[moved]] = taken[at][moved]
        clocks.received[parts[moved]] = now


def note_frames(fleet: Fleet, nodes: Sequence[Node], now: float) -> None:
    """Note that a frame of each of these nodes arrived: once a poll, after their blocks."""
    if not nodes:
        return
    table = fleet.tables[Kind.NODE]
    table.cells[table.columns["last_frame"], [node.row for node in nodes]] = now
    numbers = [node.number for node in nodes]
    most = max(numbers)
    fleet.clocks.note_frame(most, now)
    fleet.clocks.last_frame[numbers] = now
    for node in nodes:
        if node.presence is Presence.NEVER:
            fleet.presence(node.name, Presence.LIVE, "", now)
