"""The fleet: everything known of every node, as tables. Pure: it takes `now` and never looks at a clock.

`now` is the caller's clock in seconds since the epoch, the same for all calls. Frames land when they come; nothing is
worked out before `advance`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Counter
from fabricmon.fleet.clocks import PartClocks
from fabricmon.fleet.losses import FlowTracks
from fabricmon.fleet.membership import Placed, enter, landing
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import Settings, Tracks
from fabricmon.frame import Frame
from fabricmon.model import ComponentId, Inventory, Kind, Presence

PRESENCES = tuple(Presence)  # the NODE column "presence" holds the index in this tuple
NODE_COLUMNS = ("presence", "last_frame", "first_seen", "interval", "booted")


@dataclass(slots=True)
class Route:
    """Where the values of a node land in one table; void when the table's cells have moved."""

    table: Table
    landing: NDArray[np.int64]
    version: int


@dataclass(slots=True)
class Node:
    """What is known of one node as such.

    row         its row in the NODE table
    booted      `now` when its boot id was seen to change, NaN when it never did
    last_frame  `now` of the last frame accepted, NaN before the first
    size        values of a full frame
    """

    name: str
    number: int
    row: int
    first_seen: float
    presence: Presence = Presence.NEVER
    detail: str = ""
    inventory: Inventory | None = None
    last_frame: float = float("nan")
    booted: float = float("nan")
    frames: int = 0
    size: int = 0
    clocks: slice = field(default_factory=lambda: slice(0, 0))
    routes: list[Route] = field(default_factory=list)
    rows: dict[Kind, dict[str, int]] = field(default_factory=dict)


class Fleet:
    """All nodes. `tables[kind]` are judged by rules through `View(table, now)`.

    settings  parameters of the state that is carried from tick to tick; may be replaced between ticks
    """

    def __init__(self, settings: Settings | None = None, catalogue: Mapping[str, Counter] = CATALOGUE) -> None:
        self.settings = settings or Settings()
        self.clocks = PartClocks()
        self.tables: dict[Kind, Table] = {kind: Table(kind, catalogue, self.clocks) for kind in Kind}
        self.nodes: dict[str, Node] = {}
        self._numbers = 0
        self._spare: list[int] = []
        self._maintained: frozenset[str] = frozenset()
        for name in NODE_COLUMNS:
            self.tables[Kind.NODE].column(name)
        self.tables[Kind.NODE].own = frozenset(NODE_COLUMNS)
        ports = self.tables[Kind.PORT]
        ports.tracks = Tracks(ports, self.settings)
        flows = self.tables[Kind.FLOW]
        flows.tracks = FlowTracks(flows)

    # --- what comes in

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        """What the node has from now on. Its next frame must be a full one of this inventory."""
        known = self._node(node, now)
        before = known.inventory
        rebooted = before is not None and before.identity.boot_id != inventory.identity.boot_id
        restarted = before is not None and before.identity.started != inventory.identity.started
        if rebooted:
            known.booted = now
            self._put(known, "booted", now)
            self._restart(known, now)
        periods = [max(part.period, 1e-3) for part in inventory.parts]
        self.clocks.give_back(known.clocks)
        known.clocks = self.clocks.take(periods)
        known.inventory, known.size = inventory, inventory.size
        self._put(known, "interval", min(periods, default=float("nan")))
        collectors = {part.collector for part in inventory.parts}
        for kind in Kind:
            table = self.tables[kind]
            parts = [placed for placed in _placed(inventory, known.clocks) if placed.part.kind is kind]
            if not parts and kind not in known.rows:
                continue
            mine = known.rows.setdefault(kind, {} if kind is not Kind.NODE else {"": known.row})
            looked = {p.collector for p in before.parts if p.kind is kind} <= collectors if before else True
            renewed = enter(table, node, known.number, mine, parts, now, looked or not restarted or rebooted)
            if renewed:
                table.begun[np.array(list(mine.values()), np.intp)] = now
            if node in self._maintained:
                table.quiet[np.array(list(mine.values()), np.intp)] = True
        self._settle(known)

    def frame(self, node: str, frame: Frame, now: float) -> bool:
        """Values of a node. False when they belong to another inventory than the one known: ask for it.

        Raises ValueError when the frame does not fit its own inventory; nothing of it is taken then.
        """
        known = self.nodes.get(node)
        if known is None or known.inventory is None or frame.inventory != known.inventory.id:
            return False
        size, parts = known.size, known.clocks.stop - known.clocks.start
        if len(frame.taken) != parts:
            raise ValueError(f"{node}: frame {frame.seq} has {len(frame.taken)} part times, its inventory {parts}")
        if frame.index is None and len(frame.values) != size:
            raise ValueError(f"{node}: frame {frame.seq} has {len(frame.values)} values, its inventory {size}")
        for route in known.routes:
            if route.version != route.table.version:
                self._settle(known)
                break
        for route in known.routes:
            if frame.index is None:
                route.table.flat[route.landing] = frame.values
            else:
                try:
                    route.table.flat[route.landing[frame.index]] = frame.values
                except (IndexError, ValueError) as error:
                    raise ValueError(f"{node}: frame {frame.seq} does not fit its inventory: {error}") from None
        self.clocks.read(known.clocks, frame.taken, now)
        known.last_frame = now
        known.frames += 1
        self._put(known, "last_frame", now)
        self.clocks.hear(known.number, now)
        if known.presence is Presence.NEVER:
            self.presence(node, Presence.LIVE, "", now)
        return True

    def newest(self, node: str, now: float) -> Frame | None:
        """All that is known of a node's values, as a full frame of its inventory; None where nothing came yet.

        A value that several parts deliver is in the part it is taken from, and unknown in the others.
        """
        known = self.nodes.get(node)
        if known is None or known.inventory is None or np.isnan(known.last_frame):
            return None
        if any(route.version != route.table.version for route in known.routes):
            self._settle(known)
        values = np.full(known.size, np.nan)
        for route in known.routes:
            mine = route.landing > 0
            values[mine] = route.table.flat[route.landing[mine]]
        taken = self.clocks.taken[known.clocks].copy()
        return Frame(known.inventory.id, 0, now, taken, None, values, known.size)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        """How the pull of a node stands; makes the node known when it was not."""
        known = self._node(node, now)
        known.presence, known.detail = presence, detail
        self._put(known, "presence", float(PRESENCES.index(presence)))
        self.tables[Kind.NODE].labels[known.row]["detail"] = detail

    def forget(self, node: str) -> None:
        """The node is no longer expected: its rows are free and nothing of it is kept."""
        known = self.nodes.pop(node, None)
        if known is None:
            return
        known.rows.setdefault(Kind.NODE, {"": known.row})
        for kind, mine in known.rows.items():
            table, rows = self.tables[kind], np.array(list(mine.values()), np.intp)
            if table.tracks is not None:
                table.tracks.forget(rows)
            table.drop(rows)
        self.clocks.give_back(known.clocks)
        self._spare.append(known.number)

    def maintain(self, nodes: Collection[str]) -> None:
        """These nodes, and no others, are under announced maintenance."""
        self._maintained = frozenset(nodes)
        for table in self.tables.values():
            table.quiet[: table.n] = False
        for name in self._maintained & self.nodes.keys():
            known = self.nodes[name]
            self.tables[Kind.NODE].quiet[known.row] = True
            for kind, mine in known.rows.items():
                self.tables[kind].quiet[np.array(list(mine.values()), np.intp)] = True

    # --- the tick

    def advance(self, now: float) -> None:
        """Work out what changed since the last tick. Call it once per tick, before any rule looks."""
        for table in self.tables.values():
            table.advance(now)
            if table.tracks is not None:
                table.tracks.advance(now, self.settings)

    # --- within

    def _node(self, name: str, now: float) -> Node:
        known = self.nodes.get(name)
        if known is None:
            table = self.tables[Kind.NODE]
            number = self._spare.pop() if self._spare else self._numbers
            self._numbers = max(self._numbers, number + 1)
            self.clocks.hear(number, float("nan"))
            row = table.add(ComponentId(Kind.NODE, name, ""), number)
            known = self.nodes[name] = Node(name, number, row, now)
            self._put(known, "presence", float(PRESENCES.index(Presence.NEVER)))
            self._put(known, "first_seen", now)
            table.quiet[row] = name in self._maintained
        return known

    def _put(self, node: Node, column: str, value: float) -> None:
        table = self.tables[Kind.NODE]
        table.cells[table.columns[column], node.row] = value

    def _restart(self, node: Node, now: float) -> None:
        for kind, mine in node.rows.items():
            rows = np.array(list(mine.values()), np.intp)
            self.tables[kind].restart(rows)
            self.tables[kind].begun[rows] = now

    def _settle(self, node: Node) -> None:
        """Work out where the node's values land, for each table that takes some."""
        assert node.inventory is not None
        placed = _placed(node.inventory, node.clocks)
        node.routes = []
        for kind in dict.fromkeys(p.part.kind for p in placed):
            table = self.tables[kind]
            parts = [p for p in placed if p.part.kind is kind]
            lands = landing(table, node.rows[kind], parts, node.inventory.size)
            node.routes.append(Route(table, lands, table.version))


def _placed(inventory: Inventory, clocks: slice) -> list[Placed]:
    offset, placed = 0, []
    for number, part in enumerate(inventory.parts, clocks.start):
        placed.append(Placed(number, offset, part))
        offset += part.size
    return placed
