"""One simulated node as its agent sees it: inventory and snapshots in the shapes of model.py. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fabricmon import __version__
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.sim.columns import FLOW, PARTS, PartOf
from fabricmon.sim.world import World

STATE_PERIOD = 1.0
"""Seconds between two polls of states."""

Columns = Mapping[Kind, Mapping[str, NDArray[np.float64]]]


def columns(world: World) -> Columns:
    """All columns of the world at this moment, computed once for all nodes."""
    kinds = {part.kind for part in parts(world, wire=False)}
    return {kind: {name: world.column(kind, name) for name in world.columns(kind)} for kind in kinds}


def row_starts(world: World, kind: Kind, hosts: slice = slice(None)) -> NDArray[np.intp]:
    """Rows of host h among all of a kind are those from row_starts[h] up to row_starts[h + 1]."""
    layout = world.layout
    if kind is Kind.FLOW:
        return np.searchsorted(world.flows.source, layout.first[hosts])
    if kind is Kind.NVLINK:
        return layout.gpu_first[hosts].astype(np.intp) * layout.nvlinks
    firsts = {Kind.PORT: layout.first, Kind.PCIE: layout.pcie_first, Kind.GPU: layout.gpu_first}
    return (firsts[kind] if kind in firsts else np.arange(len(layout.hosts) + 1))[hosts].astype(np.intp)


def rows(world: World, kind: Kind, host: int) -> slice:
    """Rows of a host among all of a kind."""
    return slice(*row_starts(world, kind, slice(host, host + 2)).tolist())


def components(world: World, kind: Kind, host: int) -> list[Component]:
    """All components of a kind that a host may have, present or not, in row order."""
    layout, mine = world.layout, rows(world, kind, host)
    if kind is Kind.PORT:
        return [Component(layout.row_name(row), layout.labels(row)) for row in range(mine.start, mine.stop)]
    if kind is Kind.NODE:
        return [Component("")]
    if kind is Kind.FLOW:
        return [_flow(world, flow) for flow in range(mine.start, mine.stop)]
    names = [layout.gpu_names[gpu] for gpu in range(int(layout.gpu_first[host]), int(layout.gpu_first[host + 1]))]
    if kind is Kind.GPU:
        domain = _nvlink_domain(layout.graph.hosts[layout.hosts[host]].get("nvlink", ""))
        return [
            Component(name, domain | {"gpu": str(n), "uuid": _uuid(world, host, n), "pci": layout.pci(n, gpu=True),
                             "model": "NVIDIA H100 80GB HBM3"})
            for n, name in enumerate(names)
        ]  # fmt: skip
    if kind is Kind.NVLINK:
        return [
            Component(f"{name}/link{link}", {"gpu": str(n), "link": str(link), "uuid": _uuid(world, host, n),
                                             "remote": "switch"})
            for n, name in enumerate(names) for link in range(layout.nvlinks)
        ]  # fmt: skip
    first = int(layout.first[host])
    owners = dict.fromkeys(layout.devices[first : int(layout.first[host + 1])])
    adapters = [(layout.pci(n), "nic", device) for n, device in enumerate(owners)]
    chips = [(layout.pci(n, gpu=True), "gpu", name) for n, name in enumerate(names)]
    return [
        Component(pci, {"device": pci, "class": word, "owner": owner, "path": layout.bridges.get(pci, "0000:00:01.0")})
        for pci, word, owner in (*adapters, *chips)
    ]


def present(world: World, kind: Kind, host: int) -> list[bool]:
    """Which of `components` are there now."""
    mine = rows(world, kind, host)
    if kind is Kind.PORT:
        return [bool(there) for there in world.present[mine]]
    if kind is Kind.PCIE:
        layout = world.layout
        found = [True] * (mine.stop - mine.start)
        for port in range(int(layout.first[host]), int(layout.first[host + 1])):
            if not world.present[port]:
                found[int(layout.pcie_of[port]) - mine.start] = False
        return found
    if kind is Kind.FLOW:
        return world.present[world.flows.source[mine]].tolist()
    return [True] * (mine.stop - mine.start)


def parts(world: World, wire: bool = True) -> tuple[PartOf, ...]:
    """Parts of this world's nodes; `wire`: only those that are sent."""
    every = (*PARTS[world.layout.link_layer], FLOW) if world.show_flows else PARTS[world.layout.link_layer]
    return tuple(part for part in every if part.wire or not wire)


def inventory(
    world: World, host: int, wall: float, interval: float | None = None, state_interval: float | None = None,
    wire: bool = True,
) -> Inventory:
    """A node's present inventory. `wall`: the server's clock; periods are the world's poll where not given."""
    layout, hosts = world.layout, world.hosts
    name, boot = layout.hosts[host], int(hosts.boots[host])
    started = wall - (world.now - float(hosts.started[host])) + float(hosts.skew[host])
    identity = Identity(name, f"{name}-boot-{boot}", f"simulated-{name}", __version__, round(started, 3))
    every = interval or world.poll
    found = []
    for part in parts(world, wire):
        there = present(world, part.kind, host)
        listed = tuple(c for c, here in zip(components(world, part.kind, host), there, strict=True) if here)
        period = (state_interval or every) if part.state else every
        found.append(Part(part.collector, part.kind, part.columns, listed, period, part.wire))
    return Inventory(int(hosts.shape[host]), identity, tuple(found))


class SimulatedNode:
    """A node with its own pace: states are read at each snapshot, counters every `interval` seconds."""

    def __init__(
        self, world: World, host: int, interval: float | None = None, state_interval: float | None = None,
        staggered: bool = True,
    ) -> None:
        """`staggered`: each node reads at its own moment within the interval, as real agents do."""
        self._world, self.host, self._interval = world, host, interval or world.poll
        self._state_interval, self._staggered = state_interval or self._interval, staggered
        self.name = world.layout.hosts[host]
        self._due = -math.inf
        self._shape = -1
        self._slots: list[tuple[PartOf, int, NDArray[np.intp]]] = []
        self.snapshot = Snapshot(self._inventory(0.0), 0, 0.0, [], array("d"))

    def take_snapshot(self, columns: Columns, wall: float) -> Snapshot:
        """The newest snapshot after reading what is due; a changed inventory starts a new one with all parts read."""
        world = self._world
        if self._shape != world.hosts.shape[self.host]:
            self._shape = int(world.hosts.shape[self.host])
            found = self._inventory(wall)
            blank = array("d", [math.nan]) * found.size
            self.snapshot = Snapshot(found, self.snapshot.seq, wall, [math.nan] * len(found.parts), blank)
            self._due = world.now - (self._interval * (self.host % 16) / 16 if self._staggered else 0.0)
        now, snapshot = float(world.hosts.monotonic(world.now)[self.host]), self.snapshot
        due = world.now >= self._due
        for number, (part, base, mine) in enumerate(self._slots):
            if part.state or due or math.isnan(snapshot.taken[number]):
                self._put(columns[part.kind], part, base, mine)
                snapshot.taken[number] = now
        if due:
            self._due += self._interval * max(1, math.ceil((world.now - self._due) / self._interval))
        snapshot.seq += 1
        snapshot.wall = wall + float(world.hosts.skew[self.host])
        return snapshot

    def _put(self, columns: Mapping[str, NDArray[np.float64]], part: PartOf, base: int, mine: NDArray[np.intp]) -> None:
        values = np.column_stack([columns[name][mine] for name in part.columns]).ravel()
        self.snapshot.values[base : base + values.size] = array("d", values.tobytes())

    def _inventory(self, wall: float) -> Inventory:
        found = inventory(self._world, self.host, wall, self._interval, self._state_interval)
        self._slots, base = [], 0
        for part, made in zip(parts(self._world), found.parts, strict=True):
            there = np.flatnonzero(present(self._world, part.kind, self.host))
            self._slots.append((part, base, there + rows(self._world, part.kind, self.host).start))
            base += made.size
        return found


def _flow(world: World, flow: int) -> Component:
    source, target = int(world.flows.source[flow]), int(world.flows.target[flow])
    port, peer = world.layout.row_name(source), world.layout.port_name(target)
    labels = {"port": port, "peer": peer}
    if world.flows.words[flow]:
        labels["path"] = world.flows.words[flow]
    return Component(f"{port}>{peer}", labels)


def _nvlink_domain(name: str) -> dict[str, str]:
    """Labels of a GPU in the domain "<cluster UUID>.<clique>"; none for ""."""
    cluster, _, clique = name.rpartition(".")
    return {"cluster": cluster, "clique": clique} if cluster else {}


def _uuid(world: World, host: int, gpu: int) -> str:
    return f"GPU-{int(world.layout.gpu_first[host]) + gpu:08x}-0000-4000-8000-000000000000"
