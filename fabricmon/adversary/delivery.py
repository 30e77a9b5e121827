"""Delivers what agents read to a watcher: at each node's own moment, late, twice or not at all, with readings missing.

Values go into the watcher's fleet in blocks, as in `sim/inlet.py`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabricmon.adversary.composite import POLL, Composite
from fabricmon.adversary.scene import SWEPT, PlayedFabric, SwitchSweep
from fabricmon.fleet.bulk import Block, note_frames
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Event, Inventory, Kind, Part, Presence
from fabricmon.sim.chance import Chance
from fabricmon.sim.columns import PartOf
from fabricmon.sim.hosts import PRESENCE, UNREACHABLE
from fabricmon.sim.machine import components, inventory, parts, row_starts

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Values = Callable[[Kind, str], Floats]
DETAIL = ("", "connection refused", "no answer")
STEP = 2.5
"""Seconds between two reads of states; agents really read them every second."""
SWEEP_EVERY = 30.0
"""Seconds between two sweeps of the switches."""


class Watcher(Protocol):
    """What takes in deliveries: an engine."""

    @property
    def fleet(self) -> Fleet: ...
    def inventory(self, node: str, inventory: Inventory, now: float) -> None: ...
    def presence(self, node: str, presence: Presence, detail: str, now: float) -> None: ...
    def event(self, node: str, event: Event, now: float) -> None: ...


class AgentDelivery:
    """Delivers one scene.

    due    bool[hosts]: hosts whose counters are read at this step
    live   bool[hosts]: hosts whose agents answer
    """

    def __init__(self, composite: Composite, scene: PlayedFabric) -> None:
        self.composite, self.scene, self.layout = composite, scene, composite.fabric.layout
        hosts = len(self.layout.hosts)
        self.sweep = SwitchSweep(scene, composite.sweeper) if composite.sweeper >= 0 else None
        self._chance = Chance(composite.number)
        self._every = np.arange(hosts)
        share = self._chance.uniform("moment", 0.0, self._every)
        self.quarter = np.minimum((share * len(composite.offsets)).astype(int), len(composite.offsets) - 1)
        self._shape, self._answer = np.full(hosts, -1, np.int64), np.full(hosts, -1, np.int8)
        self._blocks: list[tuple[PartOf, Block]] = []
        self._seen, self._pick = np.zeros(0, np.intp), dict[Kind, NDArray[np.intp]]()
        self._member = np.full(hosts, -1, np.intp)
        self._swept: Block | None = None
        self._swept_at = -math.inf
        self._late: tuple[Bools, dict[tuple[Kind, str], Floats], Floats] | None = None
        self.due, self.live = np.zeros(hosts, np.bool_), np.zeros(hosts, np.bool_)
        lacking = [(begins, np.isin(self._every, some)) for begins, some in composite.noise.missing]
        self.missing = {
            (part.kind, column): hosts_ for part in parts(scene.world) for column in part.columns
            for begins, hosts_ in lacking if column.startswith(begins)
        }  # fmt: skip

    def deliver(self, watcher: Watcher, now: float, moment: int, wall: float) -> None:
        """Deliver what is read at second `now`, moment number `moment` of the poll; `wall`: the watcher's clock."""
        hosts = self.scene.world.hosts
        self._presences(watcher, wall)
        self.live = ~hosts.silent
        self._inventories(watcher, wall)
        late, again, missed = self.composite.unsteady
        luck = self._chance.uniform("luck", now, self._every)
        held = (luck < late) | (luck > 1 - missed)
        self.due = self.live & (self.quarter == moment) & ~held
        if now <= 0:
            self.due = self.live.copy()
        states = self.live & ~held
        taken = hosts.monotonic(self.scene.world.now)
        self._repeat(wall)
        delayed = self.live & (self.quarter == moment) & ((luck < late) | ((luck >= late) & (luck < late + again)))
        if delayed.any():
            every = {(p.kind, c) for p, _ in self._blocks if not p.state for c in p.columns}
            self._late = delayed, {(kind, c): self._value(kind, c) for kind, c in every}, taken.copy()
        for part, block in self._blocks:
            some = states if part.state else self.due
            self._load(block, self._value, taken, some, wall)
        self._sweep(wall, now, taken)
        names = self.layout.hosts
        note_frames(watcher.fleet, [watcher.fleet.nodes[names[host]] for host in np.flatnonzero(states).tolist()], wall)
        self._events(watcher, wall)

    def _value(self, kind: Kind, name: str) -> Floats:
        found = self.scene.world.column(kind, name)
        lack = self.missing.get((kind, name))
        if lack is not None:
            owners = np.repeat(self._every, np.diff(row_starts(self.scene.world, kind)))
            found = np.where(lack[owners], math.nan, found)
        return found

    def _repeat(self, wall: float) -> None:
        """Deliver the frames that were delayed, or a second time."""
        if self._late is None:
            return
        hosts, values, taken = self._late
        self._late = None
        hosts = hosts & self.live & (self._shape == self.scene.world.hosts.shape)
        hosts &= taken == np.minimum(taken, self.scene.world.hosts.monotonic(self.scene.world.now))
        for part, block in self._blocks:
            if not part.state:
                self._load(block, lambda kind, name: values[kind, name], taken, hosts, wall)

    def _load(self, block: Block, values: Values, taken: Floats, hosts: Bools, wall: float) -> None:
        """Load what was read of some hosts into a block, which has the rows of hosts that were seen."""
        live = hosts[self._seen]
        if live.any():
            rows = self._pick[block.kind]
            block.load(lambda name: values(block.kind, name)[rows], taken[self._seen], live, wall)

    def _presences(self, watcher: Watcher, wall: float) -> None:
        answers = self.scene.world.hosts.answer
        for host in np.flatnonzero(answers != self._answer).tolist():
            at = int(answers[host])
            watcher.presence(self.layout.hosts[host], PRESENCE[at], DETAIL[at], wall)
        self._answer[:] = answers

    def _inventories(self, watcher: Watcher, wall: float) -> None:
        world = self.scene.world
        other = np.flatnonzero(self.live & (self._shape != world.hosts.shape)).tolist()
        for host in other:
            watcher.inventory(self.layout.hosts[host], self._inventory(host, wall), wall)
        fresh = any(self._shape[host] < 0 for host in other)
        self._shape[other] = world.hosts.shape[other]
        if fresh:
            self._lay(watcher)
        elif other:
            for _, block in self._blocks:
                block.refresh([int(self._member[host]) for host in other])
        if self.sweep is not None and self.sweep.host in other:
            self._swept = Block(
                watcher.fleet, "fabric", Kind.PORT, [self.layout.hosts[self.sweep.host]],
                [[component.name for component in self.sweep.components]],
            )  # fmt: skip

    def _inventory(self, host: int, wall: float) -> Inventory:
        found = inventory(self.scene.world, host, wall, POLL, STEP)
        if self.sweep is None or host != self.sweep.host:
            return found
        part = Part("fabric", Kind.PORT, SWEPT, tuple(self.sweep.components), SWEEP_EVERY)
        return msgspec.structs.replace(found, parts=(*found.parts, part))

    def _lay(self, watcher: Watcher) -> None:
        """Set where the values of hosts land: of all that have been seen."""
        world, layout = self.scene.world, self.layout
        seen = np.flatnonzero(self._shape >= 0)
        self._member[seen] = np.arange(len(seen))
        names = [layout.hosts[host] for host in seen.tolist()]
        every = parts(world)
        known = {
            kind: [[c.name for c in components(world, kind, host)] for host in seen.tolist()]
            for kind in {part.kind for part in every}
        }
        fleet = watcher.fleet
        self._blocks = [(part, Block(fleet, part.collector, part.kind, names, known[part.kind])) for part in every]
        self._seen, self._pick = seen, {kind: self._rows(kind, seen) for kind in known}

    def _rows(self, kind: Kind, seen: NDArray[np.intp]) -> NDArray[np.intp]:
        owners = np.repeat(self._every, np.diff(row_starts(self.scene.world, kind)))
        return np.flatnonzero(np.isin(owners, seen))

    def _sweep(self, wall: float, now: float, taken: Floats) -> None:
        if self._swept is None or self.sweep is None or now - self._swept_at < SWEEP_EVERY:
            return
        if self.live[self.sweep.host]:
            self._swept_at = now
            self._swept.load(self.sweep.column, taken[[self.sweep.host]], np.ones(1, np.bool_), wall)

    @property
    def swept_now(self) -> bool:
        """Whether the switches were swept at the last delivery."""
        return self._swept_at >= self.scene.world.now

    def _events(self, watcher: Watcher, wall: float) -> None:
        world = self.scene.world
        for host, event in world.events:
            if not world.hosts.silent[host] and world.hosts.answer[host] != UNREACHABLE:
                at = wall - world.now + event.wall
                watcher.event(self.layout.hosts[host], msgspec.structs.replace(event, wall=at), wall)
        world.events.clear()

