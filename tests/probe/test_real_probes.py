"""Probes between kernels: network namespaces, real sockets and stamps, faults in a switch between them."""

from __future__ import annotations

import asyncio
import math
import time
from array import array

import pytest

from fabricmon import frame
from fabricmon.agent.probing.prober import SETTLE, Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.agent.readings.state import NodeState
from fabricmon.central.probing.probing import Probing
from fabricmon.central.probing.settings import CentralProbeConfig
from fabricmon.engine.engine import Engine
from fabricmon.model import Component, Identity, Kind, Part, Presence, Reading
from fabricmon.probe.assignment import Assignment, PortProbes, ProbeTarget, encode
from fabricmon.probe.windows import WATERMARK, WINDOW
from fabricmon.rules import Scope
from tests.probe.fleet_of_probes import graph, words
from tests.probe.lab import NONCE, Lab, Talk, maker_of

pytestmark = [pytest.mark.netns, pytest.mark.timeout(400)]

ROW = "mlx5_0/1"
PLAIN, SLOW, TOWARDS, BACK, HOLE, DEAD, STRANGER = range(1, 8)


@pytest.fixture
def make_lab(require, tmp_path):
    require("netns", "makes namespaces")
    require("ip")
    return lambda hosts: Lab(tmp_path, hosts)


async def results(lab: Lab, windows: int) -> dict[int, list]:
    """Host 0 probes hosts 1 to 7, one fault each; the results of so many windows by host."""
    talk, tasks = Talk(), []
    for host in set(range(8)) - {DEAD}:
        prober = lab.prober(host)
        tasks.append(asyncio.create_task(prober.run()))
        await asyncio.sleep(0)  # its first step finds its address
        peers = range(1, 8) if not host else ()
        targets = tuple(ProbeTarget(f"h{n}", lab.addresses[n], 9795, 61_000 + n) for n in peers)
        askers = (lab.addresses[0],) if host not in (0, STRANGER) else (lab.addresses[1],)
        ports = (PortProbes("eth0", targets, askers),)
        prober.take("test", encode(Assignment(1, 300.0, NONCE, dscp=26, ports=ports, reply=True)), talk.send)
    await asyncio.sleep(windows * WINDOW + WATERMARK + 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    found = [result for reply in talk.replies for result in reply.results]
    return {n: [result for result in found if result.target.peer == f"h{n}"] for n in range(1, 8)}


async def test_every_fault_shows_as_what_it_is(make_lab):
    with make_lab(8) as lab:
        lab.fault(
            {"out": SLOW, "delay": 0.1}, {"into": SLOW, "delay": 0.1}, {"out": TOWARDS, "loss": 0.5},
            {"into": BACK, "loss": 0.5}, {"source": 61_000 + HOLE, "loss": 1.0},
        )  # fmt: skip
        found = await results(lab, 2)
    sent, lost = ({n: sum(getattr(r, of) for r in rs) for n, rs in found.items()} for of in ("sent", "lost"))
    assert min(sent.values()) > 10
    assert lost[PLAIN] == lost[SLOW] == 0
    assert 0 < lost[TOWARDS] < sent[TOWARDS]
    assert 0 < lost[BACK] < sent[BACK]
    # a black hole, no responder, and a responder whose assignment does not name us: no answer at all
    assert [lost[n] for n in (HOLE, DEAD, STRANGER)] == [sent[n] for n in (HOLE, DEAD, STRANGER)]
    assert {r.dscp for r in found[PLAIN]} == {26}
    assert all(r.rtt[0] > 0.2 for r in found[SLOW])
    assert all(0 < r.rtt[0] < 0.2 and r.own > 0 and r.peer > 0 for r in found[PLAIN])


async def test_no_socket_is_open_before_an_assignment_and_after_its_end(make_lab):
    with make_lab(2) as lab:
        opened = []
        prober = lab.prober(0)
        make = prober._backend._maker
        prober._backend._maker = lambda family: opened.append(make(family)) or opened[-1]
        task = asyncio.create_task(prober.run())
        await asyncio.sleep(0.2)
        assert opened == []
        ports = (PortProbes("eth0", (ProbeTarget("h1", lab.addresses[1], 9795, 61_001),), (lab.addresses[1],)),)
        prober.take("server", encode(Assignment(1, 1.0, NONCE, ports=ports)), Talk().send)
        assert [one.fileno() >= 0 for one in opened] == [True, True]
        await asyncio.sleep(1.5)
        assert [one.fileno() for one in opened] == [-1, -1]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Site:
    """Probers of all hosts, the server's planner, and its engine; texts and frames go from one to the other."""

    def __init__(self, lab: Lab, leaves: int) -> None:
        self.lab, size = lab, len(lab.names) // leaves
        self.engine = Engine(Scope.FLEET, graph(leaves, size))
        self.states: dict[str, NodeState] = {}
        self.probers: dict[str, Prober] = {}
        for number in range(len(lab.names)):
            self._add(number)
        self.probing = Probing(CentralProbeConfig(enabled=True), self.engine, self, tuple)

    def _add(self, number: int) -> None:
        node, address = f"n{number}", {ROW: self.lab.addresses[number]}
        state = self.states[node] = NodeState(Identity(node, "b", f"a-{node}", "1", 0.0), ("infiniband_state", "flow"))
        labels = {"device": "mlx5_0", "port": "1", "role": "compute"}
        part = Part("infiniband_state", Kind.PORT, ("state", "phys_state"), (Component(ROW, labels),), 1.0)
        self.up = Reading((part,), array("d", [4.0, 5.0]), time.monotonic())
        state.accept(("infiniband_state", ""), self.up, time.time())
        self.probers[node] = Prober(
            AgentProbeConfig(enabled=True), lambda: state.snapshot,
            lambda found: state.accept(("flow", ""), found, time.time()), time.monotonic,
            UdpBackend(9795, lambda _: address, maker_of(self.lab.names[number])),
        )  # fmt: skip

    def connection(self, node: str) -> object:
        return self.states[node]

    async def send(self, node: str, text: str) -> bool:
        self.probers[node].take("server", text, Talk().send)
        return True

    async def run(self, seconds: float, until=None) -> float:
        """Let all run for so long, or until `until(incidents)`; the seconds it took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self.step()
            await self.probing.step()
            if until is not None and until(self.firing()):
                break
            await asyncio.sleep(1.0)
        return time.monotonic() - began

    def step(self) -> None:
        now = time.time()
        for node, state in self.states.items():
            snapshot = state.travelling()
            known = self.engine.fleet.nodes.get(node)
            if known is None or known.inventory is not snapshot.inventory:
                self.engine.inventory(node, snapshot.inventory, now)
                self.engine.presence(node, Presence.LIVE, "", now)
            self.engine.frame(node, frame.decode(frame.encode_full(snapshot)), now)
        self.engine.tick(now)

    def firing(self) -> list:
        return [incident for incident in self.engine.incidents() if incident.status == "firing"]


async def test_a_leaf_that_loses_one_percent_is_one_incident_of_that_leaf_within_a_minute(make_lab):
    with make_lab(24) as lab:
        site = Site(lab, 2)
        tasks = [asyncio.create_task(prober.run()) for prober in site.probers.values()]
        await site.run(SETTLE + 3 * WINDOW + WATERMARK)
        before = words(site.firing())
        lab.fault(*({way: host, "loss": 0.01} for host in range(12) for way in ("into", "out")))
        took = await site.run(90, lambda found: any(incident.kind == "fault_domain" for incident in found))
        after = words(site.firing())
        probes = site.engine.fleet.tables[Kind.FLOW]
        lost = math.fsum(probes.value("flow_lost")[: probes.n]) / max(math.fsum(probes.value("flow_packets")), 1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"\nleaf named after {took:.0f} s; {probes.n} flows, {lost:.2%} of all probes lost; {after}")
    assert before == []
    assert after == [("fault_domain", "leaf(leaf-0)")]
    assert took <= 60
