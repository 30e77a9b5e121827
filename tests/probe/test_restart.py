"""An agent that restarts answers at another queue pair: its peers learn its number, and nothing is blamed meanwhile.

Real probers, planner and engine; only the packets go through memory, and time is the test's.
"""

from __future__ import annotations

import asyncio
from array import array

import pytest

from fabricmon import frame
from fabricmon.agent.probing.prober import SETTLE, Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.readings.state import NodeState
from fabricmon.central.probing.probing import LOOK, REPLAN, Probing
from fabricmon.central.probing.settings import CentralProbeConfig
from fabricmon.engine.engine import Engine
from fabricmon.fleet.probes import STARTING
from fabricmon.model import Component, Identity, Kind, Part, Presence, Reading
from fabricmon.probe.windows import WATERMARK, WINDOW
from fabricmon.rules import Scope
from tests.probe.memory import ROW, MemoryBackend, MemoryNetwork

NODES, STEP = 4, 0.1


class RestartedSite:
    """Agents and a server, joined by their messages. now: of all their clocks."""

    def __init__(self):
        self.now, self.ends, self.starts = 1000.0, MemoryNetwork(), 0
        self.engine = Engine(Scope.FLEET, None)
        self.states, self.parts, self.probers, self.connections, self.seen = {}, {}, {}, {}, []
        self.probing = Probing(CentralProbeConfig(enabled=True, rate=4.0), self.engine, self, tuple, lambda: self.now)
        for number in range(NODES):
            self.start(number)

    def start(self, number):
        """Another run of an agent: its queue pairs have new numbers."""
        self.starts += 1
        node = f"n{number}"
        state = NodeState(Identity(node, "b", f"a{self.starts}", "1", self.now), ("infiniband_state", "flow"))
        labels = {"device": "mlx5_0", "port": "1", "role": "compute"}
        part = Part("infiniband_state", Kind.PORT, ("state", "phys_state"), (Component(ROW, labels),), 1.0)
        self.states[node], self.connections[node] = state, object()
        self.parts[node] = (part,)
        self.probers[node] = Prober(
            AgentProbeConfig(enabled=True), lambda: state.snapshot,
            lambda found: state.accept(("flow", ""), found, self.now), lambda: self.now,
            MemoryBackend(self.ends, f"10.0.0.{number}", 1000 * self.starts),
        )  # fmt: skip

    async def stop(self, number):
        node = f"n{number}"
        del self.connections[node], self.states[node]
        prober = self.probers.pop(node)
        prober.leave("server")
        running = asyncio.create_task(prober.run())
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        self.engine.presence(node, Presence.REFUSED, "connection refused", self.now)

    def connection(self, node):
        return self.connections.get(node)

    async def send(self, node, text):
        self.probers[node].take("server", text, None)
        return True

    async def run(self, seconds):
        for at in range(round(seconds / STEP)):
            self.now += STEP
            for prober in self.probers.values():
                prober.step(self.now, 0.0)
            for _ in range(4):  # questions, first and second answers
                await asyncio.sleep(0)
            if at % round(1 / STEP) == 0:
                await self._serve()

    async def _serve(self):
        for node, state in self.states.items():
            up = Reading(self.parts[node], array("d", [4.0, 5.0]), self.now)
            state.accept(("infiniband_state", ""), up, self.now)
            snapshot = state.travelling()
            known = self.engine.fleet.nodes.get(node)
            if known is None or known.inventory is not snapshot.inventory:
                self.engine.inventory(node, snapshot.inventory, self.now)
                self.engine.presence(node, Presence.LIVE, "", self.now)
            self.engine.frame(node, frame.decode(frame.encode_full(snapshot)), self.now)
        self.engine.tick(self.now)
        self.seen += [(one.kind, one.component) for one in self.engine.incidents() if one.status == "firing"]
        await self.probing.step()

    def towards(self, node):
        """Probes towards a node and those of them that are lost, of all flows that there are."""
        flows = self.engine.fleet.tables[Kind.FLOW]
        rows = [row for row in range(flows.n) if flows.present[row] and flows.labels[row]["peer"].startswith(node)]
        return [sum(flows.value(of)[row] for row in rows) for of in ("flow_packets", "flow_lost")]


@pytest.mark.parametrize("away", [2.0, 20.0])
async def test_peers_learn_the_new_number_and_nothing_is_blamed(away):
    """n1 restarts a moment before n2 is back: the plan was just made anew, so that n2 waits longest for the next."""
    site = RestartedSite()
    await site.run(SETTLE + 3 * WINDOW)
    assert (site.towards("n2")[0] > 30, site.towards("n2")[1]) == (True, 0)
    await site.stop(2)
    await site.run(away - LOOK)
    await site.stop(1)
    site.start(1)
    await site.run(2 * LOOK)
    site.start(2)
    await site.run(REPLAN + SETTLE + WINDOW)
    before = site.towards("n2")
    await site.run(2 * WINDOW + WATERMARK)
    after = site.towards("n2")
    assert after[0] - before[0] > 30
    assert after[1] == before[1]
    await site.run(3 * WINDOW)
    assert site.seen == []


async def test_a_responder_that_stays_away_after_a_restart_is_named():
    site = RestartedSite()
    await site.run(SETTLE + 3 * WINDOW)
    await site.stop(2)
    site.start(2)
    site.ends.deaf.add("10.0.0.2")
    await site.run(STARTING + 4 * WINDOW)
    assert site.seen[-1] == ("unreachable", "host(n2)")
