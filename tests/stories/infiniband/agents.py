"""The agents of all hosts: when they read which part, and what of it reaches the server's engine."""

from __future__ import annotations

import numpy as np

from fabricmon.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import Presence
from fabricmon.sim.scenarios.stage import START
from tests.stories.infiniband.layout import SWEEP, layout
from tests.stories.infiniband.parts import Host, SwitchPort
from tests.stories.infiniband.world import ACTIVE, NAN, Values, World

FULL_EVERY = 4
"""Steps from one frame with values to the next, where no state changes: 5 s."""


class Agent:
    """The agent of one host. It reads states at every step, the other parts with their periods.

    number  of its inventory
    taken   when each part was last read, on the host's monotonic clock
    """

    def __init__(self, world: World, host: Host, engine: Engine) -> None:
        self.host = host
        self._world, self._engine = world, engine
        self._sequence, self._boot, self._lost = 0, host.boot, False
        self._states: tuple[float, ...] | None = None
        self.number = 1
        engine.presence(host.name, Presence.LIVE, "", START)
        self._list()

    def _shape(self) -> tuple[object, ...]:
        """What makes a new inventory when it changes."""
        host = self.host
        return set(host.hidden), set(host.lost_gpus), dict(host.renamed), host.boot

    def _list(self) -> None:
        world, host = self._world, self.host
        self._listed = self._shape()
        self._layout = layout(world, host, self.number)
        parts = self._layout.inventory.parts
        self._periods = np.array([part.period for part in parts])
        self._edges = np.cumsum([0] + [len(part.columns) * len(part.components) for part in parts])
        self.taken = np.full(len(parts), NAN)
        self._values = np.full(len(self._layout.places), NAN)
        self._next = np.full(len(parts), world.now)
        self._fresh = True
        self._engine.inventory(host.name, self._layout.inventory, START + world.now)

    def announce(self) -> None:
        """Send a new inventory where the host has changed or booted, and its events."""
        host, now = self.host, START + self._world.now
        if self._shape() != self._listed:
            self.number += 1
            if host.boot != self._boot:
                self._boot, self._sequence, self._lost = host.boot, 0, False
                self._engine.presence(host.name, Presence.LIVE, "", now)
            self._list()
        for event in host.events:
            self._engine.event(host.name, event, now)
        host.events.clear()

    def silent(self) -> bool:
        """Whether it does not answer; the server notices after a while."""
        host = self.host
        if host.answers:
            return False
        if host.lost and not self._lost and self._world.now >= host.lost[0]:
            self._lost = True
            self._engine.presence(host.name, host.lost[1], host.lost[2], START + self._world.now)
        return True

    def full(self, step: int) -> bool:
        """Whether it sends values in this step: when it is its turn, or a state has changed."""
        states = tuple(self._world.port["state"][self.host.ports])
        changed, self._states = states != self._states, states
        return self._fresh or (step + int(self._world.turn[self.host.row])) % FULL_EVERY == 0 or changed

    def send(self) -> None:
        """Read what is due and send all values."""
        world, host = self._world, self.host
        current = world.values[self._layout.places]
        due = np.full(len(self._next), True) if self._fresh else self._next <= world.now + 1e-6
        for part in np.flatnonzero(due & (self._periods > 1)):
            self._read(int(part), current)
        self._values[: self._edges[1]] = current[: self._edges[1]]
        self._fresh = False
        self.beat()
        values, wall = self._values.copy(), START + world.now
        frame = Frame(self.number, self._sequence, wall, self.taken.copy(), None, values, len(values))
        self._engine.frame(host.name, frame, wall)

    def _read(self, part: int, current: Values) -> None:
        world, period = self._world, self._periods[part]
        rows = slice(self._edges[part], self._edges[part + 1])
        self._values[rows] = current[rows]
        self.taken[part] = self._clock() - world.rng.uniform(0.05, 0.6)
        self._next[part] = world.now + period - 0.01 if period > 5 else world.now
        if self._layout.inventory.parts[part].collector == SWEEP:
            self._blank(self._values[rows].reshape(len(self._layout.swept), -1))

    def _blank(self, swept: Values) -> None:
        """Ports of switches and hosts that cannot answer are unknown in a sweep."""
        for number, row in enumerate(self._layout.swept):
            port = self._world.plant.ports[row]
            if isinstance(port, SwitchPort):
                answers = port.switch.up
            else:
                answers = port.host.up and self._world.port["state"][row] == ACTIVE
            if not answers:
                swept[number] = NAN

    def _clock(self) -> float:
        """Seconds of the host's monotonic clock."""
        return float(self._world.clock[self.host.row]) + self._world.now

    def beat(self) -> None:
        """Read the states, which is done each time."""
        self.taken[0] = self._clock() - 0.05
        self._sequence += 1


class Agents:
    """All agents of a world."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world, self._engine = world, engine
        self._agents = [Agent(world, host, engine) for host in world.hosts]
        self._step = 0

    def announce(self) -> None:
        for agent in self._agents:
            agent.announce()

    def deliver(self) -> None:
        """Frames of those whose turn it is, heartbeats of the others that answer."""
        self._step += 1
        beating: dict[int, list[Agent]] = {}  # number of parts -> agents
        for agent in self._agents:
            if agent.silent():
                continue
            if agent.full(self._step):
                agent.send()
            else:
                agent.beat()
                beating.setdefault(len(agent.taken), []).append(agent)
        for agents in beating.values():
            self._engine.heartbeats(
                [agent.host.name for agent in agents],
                np.array([agent.number for agent in agents], np.uint32),
                np.array([agent.taken for agent in agents]),
                np.full(len(agents), START + self._world.now),
            )
