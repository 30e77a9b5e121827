"""The fleet: the state of every node, as tables. Pure.

`now` is the caller's clock in seconds since the epoch, the same for all calls. Frames land when they arrive; nothing is
computed before `advance`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median_low

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue import CATALOGUE
from fabricmon.fleet.clocks import PartClocks
from fabricmon.fleet.differences import advance
from fabricmon.fleet.layout import InventoryLayout, Landing, LandingShape, Layouts
from fabricmon.fleet.membership import GONE_TIME, drop, enter, is_removed, removed_devices
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.table import FREE, Delivery, Table
from fabricmon.fleet.tracks import FlowTracks, GpuTracks, PcieTracks, Tracks
from fabricmon.frame import Frame
from fabricmon.model import ComponentId, Inventory, Kind, Presence

PRESENCES = tuple(Presence)  # the NODE column "presence" holds the index in this tuple
FORGET_EVERY = 600.0  # seconds between two searches for components that left long ago
EXPECTED_FOR = 600.0
"""Seconds after a start for which a node that no target leads to may still become expected: sources of targets are read
again. The store forgets such a node as soon."""
LISTED = 0.125
"""Share of the nodes whose inventories are there, from which on the others are expected to have as many rows as the
median of these: no node can have a table grow for rows that it does not send."""
NAMED_KINDS = (Kind.PORT, Kind.GPU, Kind.PCIE, Kind.NVLINK, Kind.FLOW)
"""In which tables a part of an incident is looked for, in this order."""
ANSWERS = frozenset({Presence.REFUSED, Presence.CLONED, Presence.INCOMPATIBLE})
"""States of a node that answers and sends no frames."""
NODE_COLUMNS = ("presence", "last_frame", "first_seen", "answered", "interval", "booted")


@dataclass(slots=True)
class Route:
    """Where the values of a node, from `shape.first` to before `shape.last`, land in one table; void when the table's
    cells have moved."""

    table: Table
    shape: LandingShape
    landing: Landing
    version: int

    def renew(self, rows: Mapping[str, int]) -> None:
        """The table's cells have moved, rows and columns are what they were."""
        self.landing, self.version = self.shape.cells(self.table, rows), self.table.version


@dataclass(slots=True)
class Node:
    """State of one node as such.

    row         its row in the NODE table
    booted      `now` when its boot id was seen to change, NaN when it never did
    listed      `now` of its first inventory, NaN before
    removed     devices that it lists as removed on purpose
    size        values of a full frame
    """

    name: str
    number: int
    row: int
    first_seen: float
    presence: Presence = Presence.NEVER
    detail: str = ""
    inventory: Inventory | None = None
    booted: float = float("nan")
    listed: float = float("nan")
    removed: frozenset[str] = frozenset()
    size: int = 0
    clocks: slice = field(default_factory=lambda: slice(0, 0))
    routes: list[Route] = field(default_factory=list)
    rows: dict[Kind, dict[str, int]] = field(default_factory=dict)
    delivers: dict[Kind, Delivery] = field(default_factory=dict)


class Fleet:
    """All nodes. Rules evaluate `tables[kind]` through `View(table, now)`.

    settings       parameters of the state that is carried from tick to tick; may be replaced between ticks
    expected_from  `now` from which on the expected nodes were listed; infinite while a source of them has not answered
    """

    def __init__(self) -> None:
        self.settings = TrackSettings()
        self.clocks = PartClocks()
        self.tables: dict[Kind, Table] = {kind: Table(kind, CATALOGUE, self.clocks) for kind in Kind}
        self.nodes: dict[str, Node] = {}
        self.expected_from = -np.inf
        self._numbers = 0  # that were given
        self._beating = np.full((4, 64), -1)  # by node number: inventory, its parts, the first of them, row of the node
        self._swept = -np.inf
        self._awaited = -np.inf, False
        self._spare: list[int] = []
        self._layouts = Layouts(self.tables)
        self._maintained: frozenset[str] = frozenset()
        for kind in set(Kind) - {Kind.NODE}:
            self.tables[kind].expected = partial(self._expected_rows, kind)
        for name in NODE_COLUMNS:
            self.tables[Kind.NODE].column(name)
        self.tables[Kind.NODE].own = frozenset(NODE_COLUMNS)
        ports, flows = self.tables[Kind.PORT], self.tables[Kind.FLOW]
        self.pcie = PcieTracks(self.tables[Kind.PCIE].capacity, lambda: ports)
        self.gpus = GpuTracks(self.tables[Kind.GPU].capacity)
        self._tracks: dict[Kind, Tracks | FlowTracks | PcieTracks | GpuTracks] = {
            Kind.PORT: Tracks(ports.capacity, self.settings, lambda: flows),
            Kind.FLOW: FlowTracks(flows.capacity, lambda: ports),
            Kind.PCIE: self.pcie,
            Kind.GPU: self.gpus,
        }
        for kind, tracks in self._tracks.items():
            self.tables[kind].tracks = tracks

    def _expected_rows(self, kind: Kind) -> int:
        """Rows of all nodes together, 0 while too few have sent their inventory."""
        sizes = [len(node.rows.get(kind, ())) for node in self.nodes.values() if node.inventory is not None]
        return len(self.nodes) * median_low(sizes) if len(sizes) > LISTED * len(self.nodes) else 0

    # --- what comes in

    def inventory(self, node: str, inventory: Inventory, now: float) -> None:
        """Take over a node's new inventory. Its next frame must be a full one of this inventory."""
        known = self._node(node, now)
        before = known.inventory
        rebooted = before is not None and before.identity.boot_id != inventory.identity.boot_id
        restarted = before is not None and before.identity.started != inventory.identity.started
        if rebooted:
            known.booted = now
            self._put(known, "booted", now)
            self._restart(known, now)
        if before is None:
            known.listed = now
        layout = self._layouts.of(inventory.parts)
        known.removed = removed_devices(inventory.parts) if Kind.NODE in layout.kinds else frozenset()
        self.clocks.release(known.clocks)
        known.clocks = self.clocks.allocate(layout.periods)
        known.inventory, known.size = inventory, layout.size
        self._beating[:, known.number] = inventory.id, len(inventory.parts), known.clocks.start, known.row
        self._put(known, "interval", layout.interval)
        collectors = {part.collector for part in inventory.parts} if before else frozenset()
        for kind in Kind:
            table, here = self.tables[kind], layout.kinds.get(kind, self._layouts.none[kind])
            if not here.numbers and kind not in known.rows:
                continue
            mine = known.rows.setdefault(kind, {} if kind is not Kind.NODE else {"": known.row})
            covered = {p.collector for p in before.parts if p.kind is kind} <= collectors if before else True
            known.delivers[kind] = table.deliver(here.delivered, known.delivers.get(kind, Delivery()))
            absent = covered or not restarted or rebooted
            parts = [inventory.parts[number] for number in here.numbers]
            renewed = enter(
                table, node, known.number, mine, parts, here, known.clocks.start, now, absent, known.removed)
            if renewed:
                table.begun[_own(table, mine)] = now
            if node in self._maintained:
                table.quiet[_own(table, mine)] = True
        self._settle(known, layout)

    def frame(self, node: str, frame: Frame, now: float) -> bool:
        """Take over values of a node. False when they belong to another inventory than the known one: ask for it.

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
        if frame.index is not None and (
            len(frame.index) != len(frame.values) or int(frame.index.max(initial=0)) >= max(size, 1)
        ):
            raise ValueError(f"{node}: frame {frame.seq} does not fit its inventory of {size} values")
        for route in known.routes:
            if route.version != route.table.version:
                route.renew(known.rows[route.table.kind])
            first, last = route.shape.first, route.shape.last
            if frame.index is None:
                route.table.flat[route.landing] = frame.values[first:last]
            elif last - first == size:
                route.table.flat[route.landing[frame.index]] = frame.values
            else:
                mine = (frame.index >= first) & (frame.index < last)
                route.table.flat[route.landing[frame.index[mine] - first]] = frame.values[mine]
        self.clocks.note_reads(known.clocks, frame.taken, now)
        self._put(known, "last_frame", now)
        self.clocks.note_frame(known.number, now)
        if known.presence is Presence.NEVER:
            self.presence(node, Presence.LIVE, "", now)
        return True

    def heartbeats(
        self, nodes: Sequence[str], inventories: NDArray[np.uint32], taken: NDArray[np.float64], at: NDArray[np.float64]
    ) -> None:
        """Take over times of reads (float64[n, parts]) without values, which came at `at`. One of another inventory
        than its node's known one is left out. Each node at most once."""
        numbers = np.array([self.nodes[name].number if name in self.nodes else -1 for name in nodes], np.int64)
        ids, parts, first, rows = self._beating[:, numbers]
        fit = (numbers >= 0) & (ids == inventories) & (parts == taken.shape[1])
        if not fit.all():
            numbers, first, rows, taken, at = numbers[fit], first[fit], rows[fit], taken[fit], at[fit]
        self.clocks.note_many(first, taken, at)
        self.clocks.last_frame[numbers] = at
        table = self.tables[Kind.NODE]
        table.cells[table.columns["last_frame"], rows] = at
        for row in rows[table.cells[table.columns["presence"], rows] == PRESENCES.index(Presence.NEVER)].tolist():
            self.presence(table.ids[row].node, Presence.LIVE, "", float(at[0]))

    def last_frame(self, node: str) -> float:
        """`now` of the last frame accepted of a node, NaN before the first."""
        known = self.nodes.get(node)
        return float(self.clocks.last_frame[known.number]) if known is not None else float("nan")

    def newest(self, node: str, now: float) -> Frame | None:
        """A node's known values as a full frame of its inventory; None before its first frame.

        A value that several parts deliver is in the part it is taken from, and unknown in the rest.
        """
        known = self.nodes.get(node)
        if known is None or known.inventory is None or np.isnan(self.last_frame(node)):
            return None
        values = np.full(known.size, np.nan)
        for route in known.routes:
            if route.version != route.table.version:
                route.renew(known.rows[route.table.kind])
            mine = route.landing > 0
            values[route.shape.first : route.shape.last][mine] = route.table.flat[route.landing[mine]]
        taken = self.clocks.taken[known.clocks].copy()
        return Frame(known.inventory.id, 0, now, taken, None, values, known.size)

    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None:
        """Set the state of a node's pull; adds the node when it is new."""
        known = self._node(node, now)
        if presence is Presence.UNREACHABLE and known.presence in ANSWERS:
            self._put(known, "answered", now)
        known.presence, known.detail = presence, detail
        self._put(known, "presence", float(PRESENCES.index(presence)))
        self.tables[Kind.NODE].labels[known.row]["detail"] = detail

    def forget(self, node: str) -> None:
        """Remove a node that is no longer expected: its rows are free and nothing of it is kept."""
        known = self.nodes.pop(node, None)
        if known is None:
            return
        known.rows.setdefault(Kind.NODE, {"": known.row})
        for kind, mine in known.rows.items():
            self.tables[kind].drop(np.array(list(mine.values()), np.intp))
            self.tables[kind].deliver(Delivery(), known.delivers.pop(kind, Delivery()))
        self.clocks.release(known.clocks)
        self._spare.append(known.number)

    def maintain(self, nodes: Collection[str]) -> None:
        """Set the nodes that are under maintenance."""
        self._maintained = frozenset(nodes)
        for table in self.tables.values():
            table.quiet[: table.n] = False
        for name in self._maintained & self.nodes.keys():
            known = self.nodes[name]
            self.tables[Kind.NODE].quiet[known.row] = True
            for kind, mine in known.rows.items():
                self.tables[kind].quiet[_own(self.tables[kind], mine)] = True

    # --- which components exist

    def exists(self, node: str, name: str, since: float, now: float) -> bool:
        """Whether a component exists that was known at `since`: what refers to one that does not, ends.

        It exists while a target leads to its node and it is in the node's inventory, left that less than GONE_TIME
        ago, or may be there: the node has sent none. One of a device that was removed on purpose does not.
        """
        known = self.nodes.get(node)
        if known is None:
            return now - max(since, self.expected_from) < EXPECTED_FOR
        if not name or known.inventory is None or any(name in mine for mine in known.rows.values()):
            return True
        return not is_removed(name, {}, known.removed) and now - max(since, known.listed) < GONE_TIME

    def find(self, part: str, kinds: Iterable[Kind] = NAMED_KINDS) -> ComponentId | None:
        """The row that an incident names: "host-007" or "host-007/mlx5_3/1"; the near end of a link's name,
        "host-007/mlx5_3/1, leaf-3/12"; a port elsewhere that a sweep reads, "leaf-3/12". Names of nodes may have a "/"
        themselves. None where there is none."""
        node, name = self.split(part)
        if not name and node in self.nodes:
            return self.tables[Kind.NODE].ids[self.nodes[node].row]
        for kind in kinds:
            if (row := self.tables[kind].row(ComponentId(kind, node, name))) is not None:
                return self.tables[kind].ids[row]
        ports = self.tables[Kind.PORT]
        for word in (part, part.partition(", ")[0]) if Kind.PORT in kinds else ():  # a switch's name may have a ", "
            if (row := ports.swept(word)) is not None:
                return ports.ids[row]
        return None

    def may_return(self, part: str, since: float, now: float) -> bool:
        """Whether a part that has no row may have one again: `exists`, or a port elsewhere of which the node that
        swept it has not reported yet."""
        node, name = self.split(part)
        if self.exists(node, name, since, now):
            return True
        if node in self.nodes or not name or now - since >= GONE_TIME:
            return False
        if self._awaited[0] != now:
            awaited = any(known.inventory is None or now - known.listed < EXPECTED_FOR for known in self.nodes.values())
            self._awaited = now, awaited
        return self._awaited[1]

    def port(self, part: str) -> int | None:
        """The PORT row that an incident names, None where there is none."""
        found = self.find(part, (Kind.PORT,))
        return self.tables[Kind.PORT].row(found) if found is not None and found.kind is Kind.PORT else None

    def lose_gpu(self, gpu: ComponentId, now: float) -> None:
        """A driver reported that the GPU fell off the bus."""
        if (row := self.tables[Kind.GPU].row(gpu)) is not None:
            self.gpus.lost[row] = now

    def split(self, part: str) -> tuple[str, str]:
        """Node and component of a part, whether it is known or not."""
        words = part.partition(", ")[0].split("/")
        for count in range(1, len(words) + 1):
            if (node := "/".join(words[:count])) in self.nodes:
                return node, "/".join(words[count:])
        return words[0], "/".join(words[1:])

    # --- the tick

    def advance(self, now: float) -> None:
        """Compute what changed since the last tick. Call it once per tick, before any rule is evaluated."""
        if not 0 <= now - self._swept < FORGET_EVERY:
            self._swept = now
            self._forget_gone(now)
        for table in self.tables.values():
            advance(table, now)
        for kind, tracks in self._tracks.items():
            tracks.advance(self.tables[kind], now, self.settings)

    # --- within

    def _forget_gone(self, now: float) -> None:
        """Free the rows of components that left their nodes' inventories GONE_TIME ago."""
        for kind, table in self.tables.items():
            old = ~table.present[: table.n] & (now - table.left[: table.n] >= GONE_TIME)
            for row in np.flatnonzero(old & (table.node[: table.n] != FREE)).tolist():
                _, node, name = table.ids[row]
                drop(table, self.nodes[node].rows[kind], [name])

    def _node(self, name: str, now: float) -> Node:
        known = self.nodes.get(name)
        if known is None:
            table = self.tables[Kind.NODE]
            number = self._spare.pop() if self._spare else self._numbers
            self._numbers = max(self._numbers, number + 1)
            self.clocks.note_frame(number, float("nan"))
            if number == self._beating.shape[1]:
                self._beating = np.concatenate([self._beating, np.full_like(self._beating, -1)], axis=1)
            self._beating[:, number] = -1
            (row,) = table.add(number, [ComponentId(Kind.NODE, name, "")], [{}])
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
            self.tables[kind].restart(np.array(list(mine.values()), np.intp))
            self.tables[kind].begun[_own(self.tables[kind], mine)] = now

    def _settle(self, node: Node, layout: InventoryLayout) -> None:
        """Set where the node's values land, for each table that takes some."""
        node.routes = []
        for kind, here in layout.kinds.items():
            table = self.tables[kind]
            shape = here.landing(table)
            node.routes.append(Route(table, shape, shape.cells(table, node.rows[kind]), table.version))


def _own(table: Table, mine: Mapping[str, int]) -> NDArray[np.intp]:
    """Rows of a node's own parts. What it sweeps are parts of switches, which neither reboot nor are under maintenance
    with it."""
    return np.array([row for row in mine.values() if "swept" not in table.labels[row]], np.intp)
