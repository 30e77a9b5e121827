"""Two ways by which an engine gets a world: as frames, as real agents send them, and in bulk, for very many. Pure.

Both bring the same values, times, inventories and presences; a test compares what the engine has after either. The
caller advances the world before a poll and ticks the engine after it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fabricmon.engine.engine import Engine
from fabricmon.fleet.bulk import Block, hear
from fabricmon.frame import decode, encode_full
from fabricmon.model import Kind
from fabricmon.sim.hosts import PRESENCE
from fabricmon.sim.machine import Machine, columns, components, inventory, parts
from fabricmon.sim.world import World

DETAIL = ("", "connection refused", "no answer")
"""The pull's words about what it meets, by Hosts.answer."""


class Presences:
    """Tells an engine of every change in how a centre's pull of the agents stands."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told = np.full(len(world.layout.hosts), -1, np.int8)

    def tell(self, engine: Engine, wall: float) -> None:
        answer = self._world.hosts.answer
        for host in np.flatnonzero(answer != self._told).tolist():
            at = int(answer[host])
            engine.presence(self._world.layout.hosts[host], PRESENCE[at], DETAIL[at], wall)
        self._told[:] = answer


class Frames:
    """Every node an agent whose frames are encoded and decoded."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._machines = [Machine(world, host, staggered=False) for host in range(len(world.layout.hosts))]
        self._shape = np.full(len(self._machines), -1, np.int64)
        self._presences = Presences(world)

    def poll(self, engine: Engine, wall: float) -> None:
        """Hand the engine what every answering agent shows now; `wall` is the engine's `now`."""
        world, every = self._world, columns(self._world)
        self._presences.tell(engine, wall)
        for host in np.flatnonzero(~world.hosts.silent).tolist():
            machine = self._machines[host]
            snapshot = machine.read(every, wall)
            if self._shape[host] != world.hosts.shape[host]:
                engine.inventory(machine.name, snapshot.inventory, wall)
                self._shape[host] = world.hosts.shape[host]
            engine.frame(machine.name, decode(encode_full(snapshot)), wall)
        _tell(world, engine, wall)


class Bulk:
    """All nodes at once, column by column, without frames: Python work only for nodes whose inventory changed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shape = np.full(len(world.layout.hosts), -1, np.int64)
        self._blocks: list[Block] = []
        self._member = np.full(len(world.layout.hosts), -1, np.intp)
        self._hosts: np.ndarray[tuple[int], np.dtype[np.intp]] = np.zeros(0, np.intp)
        self._presences = Presences(world)

    def poll(self, engine: Engine, wall: float) -> None:
        """Hand the engine what every answering agent shows now; `wall` is the engine's `now`."""
        world, hosts = self._world, self._world.hosts
        self._presences.tell(engine, wall)
        live = ~hosts.silent
        other = np.flatnonzero(live & (self._shape != hosts.shape))
        for host in other.tolist():
            engine.inventory(world.layout.hosts[host], inventory(world, host, wall), wall)
        self._shape[other] = hosts.shape[other]
        self._settle(engine, other)
        heard = live[self._hosts]
        if not heard.any():
            return
        taken = hosts.monotonic(world.now)[self._hosts]
        for block in self._blocks:
            block.take(lambda name, kind=block.kind: self._column(kind, name), taken, heard, wall)  # type: ignore[misc]
        fleet = engine.fleet
        hear(fleet, [fleet.nodes[world.layout.hosts[host]] for host in self._hosts[heard].tolist()], wall)
        _tell(world, engine, wall)

    def _settle(self, engine: Engine, changed: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        """Blocks know where the values of these hosts land."""
        if not len(changed):
            return
        if (self._member[changed] >= 0).all():
            for block in self._blocks:
                block.refresh(self._member[changed].tolist())
            return
        layout = self._world.layout
        self._hosts = np.flatnonzero(self._shape >= 0)
        self._member[self._hosts] = np.arange(len(self._hosts))
        names = [layout.hosts[host] for host in self._hosts.tolist()]
        known = {
            kind: [[c.name for c in components(self._world, kind, host)] for host in self._hosts.tolist()]
            for kind in {part.kind for part in parts(self._world)}
        }
        self._blocks = [
            Block(engine.fleet, part.collector, part.kind, names, known[part.kind]) for part in parts(self._world)
        ]
        self._pick = {kind: self._of(kind) for kind in known}

    def _of(self, kind: Kind) -> np.ndarray[tuple[int], np.dtype[np.intp]] | slice:
        """Rows of the world that belong to hosts ever heard of."""
        if len(self._hosts) == len(self._member):
            return slice(None)
        return np.flatnonzero(np.isin(owners(self._world, kind), self._hosts))

    def _column(self, kind: Kind, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return self._world.column(kind, name)[self._pick[kind]]


def _tell(world: World, engine: Engine, wall: float) -> None:
    """What kernels of answering hosts said since the last poll; what others said is lost, as after a boot."""
    for host, event in world.events:
        if not world.hosts.silent[host]:
            at = wall - world.now + event.wall
            engine.event(world.layout.hosts[host], msgspec.structs.replace(event, wall=at), wall)
    world.events.clear()


def owners(world: World, kind: Kind) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The host of each row of a kind."""
    layout = world.layout
    if kind is Kind.PORT:
        return layout.host_of
    if kind is Kind.NODE:
        return np.arange(len(layout.hosts), dtype=np.int32)
    if kind is Kind.PCIE:
        return np.repeat(np.arange(len(layout.hosts), dtype=np.int32), np.diff(layout.pcie_first))
    if kind is Kind.FLOW:
        return layout.host_of[world.flows.source]
    return np.repeat(layout.gpu_host, layout.nvlinks) if kind is Kind.NVLINK else layout.gpu_host
