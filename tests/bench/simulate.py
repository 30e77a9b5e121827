"""A cluster of 10,000 hosts with 8 compute ports each, simulated and judged at once: how much faster than real time.

A poll is ten seconds of the world, the bulk inlet, and a tick of the server's engine. Processor time, so that other
work on the machine does not count; 1 is real time.
"""

from __future__ import annotations

import resource
import statistics
import time

from fabricmon.engine import Engine
from fabricmon.rules.rule import Scope
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import Script
from fabricmon.sim.traffic import TrafficJob
from fabricmon.sim.world import World

UNITS, HOSTS, RAILS, SPINES = 40, 250, 8, 32
POLLS, POLL = 9, 10.0
WALL = 1_800_000_000.0


def main() -> list[tuple[str, float, str]]:
    rows = []
    for link_layer in ("InfiniBand", "Ethernet"):
        began = time.process_time()
        layout = Layout.named(
            "rail-optimised", units=UNITS, hosts=HOSTS, rails=RAILS, spines=SPINES, link_layer=link_layer
        )
        world = World(layout, 1, POLL, jobs=[TrafficJob("train", layout.hosts, "all_to_all", peers=4)], background=True)
        engine, bulk = Engine(Scope.FLEET, layout.graph), BulkInlet(world)
        script = Script([FAULTS["leaf_down"](layout, layout.leaf_name(layout.leaves[7]), start=35.0)])
        bulk.poll(engine, WALL)
        engine.tick(WALL)
        text = f"{link_layer}: build 10,000 hosts and let the engine know them"
        rows.append((text, time.process_time() - began, "s"))
        times: dict[str, list[float]] = {"world": [], "inlet": [], "tick": []}
        for tick in range(1, POLLS + 1):
            at = [time.process_time()]
            script.play(world, tick * POLL)
            at.append(time.process_time())
            bulk.poll(engine, WALL + world.now)
            at.append(time.process_time())
            engine.tick(WALL + world.now)
            at.append(time.process_time())
            for name, a, b in zip(times, at, at[1:], strict=False):
                times[name].append(b - a)
        whole = [sum(parts) for parts in zip(*times.values(), strict=True)]
        rows += [(f"  of a poll, {name}", statistics.median(spent) * 1e3, "ms") for name, spent in times.items()]
        rows.append(("  faster than real time, median poll", POLL / statistics.median(whole), "times (bar 1)"))
        rows.append(("  faster than real time, worst poll", POLL / max(whole), "times"))
        found = [incident.component for incident in engine.incidents() if incident.kind == "fault_domain"]
        rows.append((f"  incidents of the dead leaf: {', '.join(found) or 'none'}", float(len(found)), ""))
    rows.append(("memory at most", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB"))
    return rows
