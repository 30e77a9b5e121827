"""Plays a story: the world goes on, its agents report, the server's engine works with its defaults."""

from __future__ import annotations

from fabricmon.engine import Engine
from fabricmon.rules.rule import Scope
from fabricmon.sim.scenarios.run import Log
from fabricmon.simulate.random_scenarios import DELIVERED
from fabricmon.topology.graph import Graph
from tests.stories.infiniband.agents import Agents
from tests.stories.infiniband.physics import advance
from tests.stories.infiniband.world import World
from tests.stories.sent import Inbox

FAULT = 200.0
"""Second at which most faults begin."""


def play(world: World, plan: Graph | None, *, until: float, fault: float = FAULT) -> Inbox:
    """What was sent of a story that ends `until` seconds after its fault. `plan`: the topology, where there is one."""
    engine = Engine(Scope.FLEET, plan, fabric="x")
    log = Log(engine, 0.0, (DELIVERED,))
    agents = Agents(world, engine)
    step = 0
    while world.now <= fault + until:
        world.act()
        agents.announce()
        advance(world)
        agents.deliver()
        step += 1
        if step % 2 == 0:
            log.tick(world.now)
    return Inbox(log, fault)
