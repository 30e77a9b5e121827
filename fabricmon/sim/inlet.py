"""Feeds a world into an engine in bulk, without a frame for each node. Pure.

It delivers the same values, times, inventories and presences as frames of real agents. The caller advances the world
before a poll and ticks the engine after it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fabricmon.engine.engine import Engine
from fabricmon.fleet.bulk import Block, note_frames
from fabricmon.model import Kind
from fabricmon.sim.hosts import PRESENCE
from fabricmon.sim.machine import components, inventory, parts, row_starts
from fabricmon.sim.world import World

DETAIL = ("", "connection refused", "no answer")
"""Details of a pull, by Hosts.answer."""


class BulkInlet:
    """All nodes at once, column by column, without frames: Python work only for nodes whose inventory changed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._shape = np.full(len(world.layout.hosts), -1, np.int64)
        self._blocks: list[Block] = []
        self._member = np.full(len(world.layout.hosts), -1, np.intp)
        self._hosts: np.ndarray[tuple[int], np.dtype[np.intp]] = np.zeros(0, np.intp)
        self._answer = np.full_like(world.hosts.answer, -1)

    def poll(self, engine: Engine, wall: float) -> None:
        """Feed the values of every answering agent into the engine; `wall` is the engine's `now`."""
        world, hosts = self._world, self._world.hosts
        send_presences(world, engine, self._answer, wall)
        live = ~hosts.silent
        other = np.flatnonzero(live & (self._shape != hosts.shape))
        for host in other.tolist():
            engine.inventory(world.layout.hosts[host], inventory(world, host, wall), wall)
        self._shape[other] = hosts.shape[other]
        self._settle(engine, other)
        answered = live[self._hosts]
        if not answered.any():
            return
        taken = hosts.monotonic(world.now)[self._hosts]
        for block in self._blocks:
            rows = self._pick[block.kind]
            block.load(
                lambda name, kind=block.kind, rows=rows: world.column(kind, name)[rows],  # type: ignore[misc]
                taken, answered, wall,
            )  # fmt: skip
        fleet = engine.fleet
        note_frames(fleet, [fleet.nodes[world.layout.hosts[host]] for host in self._hosts[answered].tolist()], wall)
        send_events(world, engine, wall)

    def _settle(self, engine: Engine, changed: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        """Set where the values of changed hosts land."""
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
        self._pick = {kind: self._known_rows(kind) for kind in known}

    def _known_rows(self, kind: Kind) -> np.ndarray[tuple[int], np.dtype[np.intp]] | slice:
        """Rows of the world that belong to hosts with an inventory."""
        if len(self._hosts) == len(self._member):
            return slice(None)
        owners = np.repeat(np.arange(len(self._member)), np.diff(row_starts(self._world, kind)))
        return np.flatnonzero(np.isin(owners, self._hosts))


def send_presences(world: World, engine: Engine, sent: np.ndarray[tuple[int], np.dtype[np.int8]], wall: float) -> None:
    """Feed the changes of `Hosts.answer` since `sent`, which is updated, into the engine."""
    for host in np.flatnonzero(world.hosts.answer != sent).tolist():
        at = int(world.hosts.answer[host])
        engine.presence(world.layout.hosts[host], PRESENCE[at], DETAIL[at], wall)
    sent[:] = world.hosts.answer


def send_events(world: World, engine: Engine, wall: float) -> None:
    """Feed kernel events of answering hosts since the last poll into the engine; events of other hosts are lost."""
    for host, event in world.events:
        if not world.hosts.silent[host]:
            at = wall - world.now + event.wall
            engine.event(world.layout.hosts[host], msgspec.structs.replace(event, wall=at), wall)
    world.events.clear()
