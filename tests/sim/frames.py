"""A world into an engine as frames that are encoded and decoded, as real agents send them: the slow way, to compare."""

from __future__ import annotations

import numpy as np

from fabricmon.engine.engine import Engine
from fabricmon.frame import decode, encode_full
from fabricmon.sim.inlet import send_events, send_presences
from fabricmon.sim.machine import SimulatedNode, columns
from fabricmon.sim.world import World


class FrameInlet:
    """Every node an agent whose frames are encoded and decoded."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._machines = [SimulatedNode(world, host, staggered=False) for host in range(len(world.layout.hosts))]
        self._shape = np.full(len(self._machines), -1, np.int64)
        self._answer = np.full_like(world.hosts.answer, -1)

    def poll(self, engine: Engine, wall: float) -> None:
        """Feed the frames of every answering agent into the engine; `wall` is the engine's `now`."""
        world, every = self._world, columns(self._world)
        send_presences(world, engine, self._answer, wall)
        for host in np.flatnonzero(~world.hosts.silent).tolist():
            machine = self._machines[host]
            snapshot = machine.take_snapshot(every, wall)
            if self._shape[host] != world.hosts.shape[host]:
                engine.inventory(machine.name, snapshot.inventory, wall)
                self._shape[host] = world.hosts.shape[host]
            engine.frame(machine.name, decode(encode_full(snapshot)), wall)
        send_events(world, engine, wall)
