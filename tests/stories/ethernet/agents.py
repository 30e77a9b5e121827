"""The agents of all hosts: they read the world part by part and send inventories and frames to the engine."""

from __future__ import annotations

import math

import numpy as np

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Identity, Inventory, Part, Presence
from fabricmon.sim.scenarios.stage import START
from tests.stories.ethernet.components import Components
from tests.stories.ethernet.layout import Columns, PartLayout, Rows, parts
from tests.stories.ethernet.readings import Reading
from tests.stories.ethernet.state import Floats
from tests.stories.ethernet.world import STEP_S, World

VERSION = "0.9.0"
READ_AT_ONCE = ("ethernet", "bond", "infiniband_state")
"""What an agent reads as soon as the kernel reports that a carrier is lost."""


class Agents:
    """What each agent has read last. `time` is the story's clock in seconds; the engine's is START later.

    device_names  host -> names of its RDMA devices, where a story has renamed one
    """

    def __init__(self, world: World, engine: Engine) -> None:
        cluster = world.cluster
        self._world, self._engine, self._cluster = world, engine, cluster
        self.device_names: dict[int, list[str]] = {}
        self._layouts = {driver: parts(cluster, driver) for driver in sorted(set(cluster.drivers))}
        self._components = Components(
            cluster, world.wiring, world.state.firmware,
            lambda host: self.device_names.get(host) or cluster.rdma_devices(host),
        )  # fmt: skip
        self._values: dict[int, Floats] = {}
        self._taken: dict[int, Floats] = {}
        self._phases: dict[int, Floats] = {}
        self._boots = [0] * cluster.hosts
        self._inventories = [1] * cluster.hosts
        self._sequence = 0

    def presence(self, host: int, presence: Presence, detail: str, time: float) -> None:
        self._engine.presence(self._cluster.node(host), presence, detail, START + time)

    def describe(self, host: int, time: float) -> None:
        """Send the host's inventory; all of its parts are read anew."""
        layouts = self._layouts[self._cluster.driver(host)]
        described = tuple(
            Part(part.collector, part.rows.kind, tuple(part.columns), self._components.of(host, part),
                 float(self._cluster.periods[part.period]))
            for part in layouts
        )  # fmt: skip
        now, boot = START + time, self._boots[host]
        name = self._cluster.node(host)
        identity = Identity(name, f"boot-{host}-{boot}", f"agent-{host}", VERSION, now if boot else now - 1000)
        inventory = Inventory(self._inventories[host], identity, described)
        self._engine.inventory(name, inventory, now)
        self._values[host] = np.full(inventory.size, np.nan)
        self._taken[host] = np.full(len(described), np.nan)
        self._phases[host] = self._world.rng.uniform(0, 1, len(described))

    def reload_driver(self, host: int, time: float) -> None:
        self._world.counters.restart(host, carrier_downs=0)
        self._inventories[host] += 1
        self.describe(host, time)

    def boot(self, host: int, time: float) -> None:
        """The host has started a minute ago, and its agent now."""
        self._boots[host] += 1
        self._inventories[host] += 1
        self._world.state.started[host] = 60 - time
        self._world.counters.restart(host, carrier_downs=1)
        self._world.state.dead[host] = self._world.state.agent_silent[host] = False
        self.presence(host, Presence.LIVE, "", time)
        self.describe(host, time)

    def report(self, time: float) -> None:
        """Send a frame of each host of which a part is due."""
        state = self._world.state
        read: dict[tuple[Reading, Rows], Floats] = {}
        for driver, layouts in self._layouts.items():
            hosts = [
                host
                for host in range(self._cluster.hosts)
                if self._cluster.driver(host) == driver and not state.dead[host] and not state.agent_silent[host]
            ]
            first, due = 0, dict.fromkeys(hosts, False)
            for index, part in enumerate(layouts):
                size = self._row_count(part.rows) * len(part.columns)
                reading = [host for host in hosts if self._is_due(host, index, part, time)]
                block = self._read(part.rows, part.columns, read) if reading else None
                for host in reading:
                    assert block is not None
                    self._values[host][first : first + size] = block[host].ravel()
                    self._taken[host][index] = state.started[host] + time
                    due[host] = True
                first += size
            for host in hosts:
                if due[host]:
                    self._send(host, time)

    def _is_due(self, host: int, index: int, part: PartLayout, time: float) -> bool:
        if math.isnan(self._taken[host][index]):
            return True
        if part.collector in READ_AT_ONCE and self._world.lost_link[host].any():
            return True
        period, phase = self._cluster.periods[part.period], self._phases[host][index]
        return math.floor(time / period + phase) != math.floor((time - STEP_S) / period + phase)

    def _row_count(self, rows: Rows) -> int:
        return {Rows.NODE: 1, Rows.LEG: self._cluster.legs}.get(rows, self._cluster.ports)

    def _read(self, rows: Rows, columns: Columns, read: dict[tuple[Reading, Rows], Floats]) -> Floats:
        """Values of a part [hosts, rows, columns]. `read`: what has been read at this moment."""
        shape = (self._cluster.hosts, self._row_count(rows))
        for reading in columns.values():
            if (reading, rows) not in read:
                read[reading, rows] = reading(self._world, shape)
        return np.stack([read[reading, rows] for reading in columns.values()], 2)

    def _send(self, host: int, time: float) -> None:
        self._sequence += 1
        values, now = self._values[host].copy(), START + time
        frame = Frame(
            self._inventories[host], self._sequence, now, self._taken[host].copy(), None, values, len(values)
        )
        self._engine.frame(self._cluster.node(host), frame, now)
