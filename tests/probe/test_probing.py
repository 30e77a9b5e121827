"""The server's side: which agents are sent what, when it is renewed, and one switch that stops all."""

from __future__ import annotations

from array import array

import pytest

from fabricmon import frame
from fabricmon.central.probing.probing import Probing
from fabricmon.central.probing.settings import CentralProbeConfig
from fabricmon.engine.engine import Engine
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.probe.assignment import decode
from fabricmon.rules import Scope

ON = CentralProbeConfig(enabled=True)


class Wire:
    """Streams of agents: what each was sent, and whether it is connected."""

    def __init__(self, nodes):
        self.sent = {node: [] for node in nodes}
        self.connections = {node: object() for node in nodes}
        self.failing = set()

    def connection(self, node):
        return self.connections.get(node)

    async def send(self, node, text):
        self.sent[node].append(decode(text))
        return node not in self.failing

    def newest(self, node):
        return self.sent[node][-1] if self.sent[node] else None


def offer(engine, node, address, now=0.0, id=1):
    labels = {"device": "mlx5_0", "port": "1", "role": "compute", "probe_address": f"{address}:9795"}
    part = Part("flow", Kind.PORT, ("probe_packets",), (Component("mlx5_0/1", labels),), 10.0)
    inventory = Inventory(id, Identity(node, "boot", f"agent-{node}", "1", 0.0), (part,))
    engine.inventory(node, inventory, now)
    engine.frame(node, frame.decode(frame.encode_full(Snapshot(inventory, 1, now, [now], array("d", [0.0])))), now)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def site():
    engine, clock = Engine(Scope.FLEET, None), Clock()
    nodes = [f"n{number}" for number in range(6)]
    for number, node in enumerate(nodes):
        offer(engine, node, f"10.0.0.{number}")
    engine.tick(1.0)
    engine.tick(3.0)
    wire = Wire(nodes)
    probing = Probing(ON, engine, wire, lambda: (Jobs("slurm", 1.0, (Job("1", "train", "u", ("n0", "n1")),)),), clock)
    return engine, wire, probing, clock


async def test_each_agent_is_sent_its_own_ports_once(site):
    _, wire, probing, clock = site
    for _ in range(5):
        await probing.step()
        clock.now += 1
    assert {node: len(sent) for node, sent in wire.sent.items()} == dict.fromkeys(wire.sent, 1)
    for sent in wire.sent.values():
        (port,) = sent[0].ports
        assert (port.name, len(port.targets), len(port.askers)) == ("mlx5_0/1", 4, 4)
    assert len({sent[0].nonce for sent in wire.sent.values()}) == 1
    assert probing.coverage.within == 24


async def test_it_is_renewed_before_it_ends_and_sent_anew_over_a_new_connection(site):
    _, wire, probing, clock = site
    await probing.step()
    clock.now += float(ON.lasts) / 3
    await probing.step()
    assert {sent[-1].ports for sent in wire.sent.values()} == {None}
    assert {sent[-1].version for sent in wire.sent.values()} == {sent[0].version for sent in wire.sent.values()}
    wire.connections["n3"] = object()
    await probing.step()
    assert wire.newest("n3").ports is not None
    assert wire.newest("n2").ports is None


async def test_a_node_that_goes_changes_only_its_neighbours_and_one_that_is_disconnected_waits(site):
    engine, wire, probing, clock = site
    wire.connections.pop("n4")
    await probing.step()
    assert wire.newest("n4") is None
    engine.forget("n5", 10.0)
    engine.tick(20.0)
    clock.now += 20
    await probing.step()
    for node in ("n0", "n1", "n2", "n3"):
        assert all("n5/" not in target.peer for port in wire.newest(node).ports for target in port.targets)


async def test_one_switch_stops_all_at_the_next_look(site):
    _, wire, probing, _ = site
    await probing.step()
    probing.configure(CentralProbeConfig(enabled=False))
    await probing.step()
    assert {(sent[-1].ports, sent[-1].lasts) for sent in wire.sent.values()} == {((), 0.0)}
    await probing.step()
    assert all(len(sent) == 2 for sent in wire.sent.values())


async def test_an_address_that_two_ports_offer_is_probed_by_nobody(site):
    engine, wire, probing, _ = site
    offer(engine, "liar", "10.0.0.1", 5.0)
    engine.tick(6.0)
    await probing.step()
    assert wire.newest("n1") is None
    assert all("n1/" not in target.peer for sent in wire.sent.values() for one in sent for port in one.ports
               for target in port.targets)  # fmt: skip


async def test_off_is_the_default_and_sends_nothing(site):
    engine, wire, _, clock = site
    probing = Probing(CentralProbeConfig(), engine, wire, tuple, clock)
    await probing.step()
    assert not any(wire.sent.values())


async def test_what_did_not_arrive_is_sent_whole_again_until_it_does(site):
    _, wire, probing, clock = site
    wire.failing = {"n2"}
    for _ in range(2):
        await probing.step()
        clock.now += 1
    assert [sent.ports is not None for sent in wire.sent["n2"]] == [True, True]
    assert len(wire.sent["n1"]) == 1
    wire.failing = set()
    for _ in range(2):
        await probing.step()
    assert len(wire.sent["n2"]) == 3


async def test_an_assignment_that_is_renewed_keeps_its_ports_and_another_plan_has_a_higher_version(site):
    engine, wire, probing, clock = site
    await probing.step()
    first = wire.newest("n1")
    for _ in range(7):
        clock.now += float(ON.lasts) / 3 - 0.1
        await probing.step()
        assert wire.newest("n1").ports == (first.ports if clock.now < 120 else None)
    offer(engine, "n9", "10.0.0.9", 5.0)
    engine.tick(6.0)
    clock.now += 20.0
    await probing.step()
    changed = [node for node in wire.sent if wire.newest(node).version > first.version]
    assert changed
    assert {wire.newest(node).ports is None for node in wire.sent if node not in changed} <= {True}
    assert all(sent[-1].rate == ON.rate and sent[-1].lasts == float(ON.lasts) for sent in wire.sent.values())


async def test_plans_are_made_every_fifteen_seconds_at_most_and_at_once_for_other_settings(site):
    engine, _, probing, clock = site
    await probing.step()
    engine.forget("n5", 10.0)
    engine.tick(20.0)
    clock.now += 14.9
    await probing.step()
    assert probing.coverage.ports == 6
    clock.now += 0.2
    await probing.step()
    assert probing.coverage.ports == 5
    engine.forget("n4", 21.0)
    engine.tick(22.0)
    probing.configure(CentralProbeConfig(enabled=True, chords=1))
    await probing.step()
    assert (probing.coverage.ports, probing.coverage.within) == (4, 4)


async def test_a_node_that_left_the_plan_is_stopped_once(site):
    engine, wire, probing, clock = site
    await probing.step()
    part = Part("flow", Kind.PORT, ("probe_packets",), (Component("mlx5_0/1", {"device": "mlx5_0"}),), 10.0)
    engine.inventory("n0", Inventory(2, Identity("n0", "boot", "agent-n0", "1", 0.0), (part,)), 4.0)
    engine.tick(5.0)
    for _ in range(3):
        clock.now += 16
        await probing.step()
    stops = [sent for sent in wire.sent["n0"] if sent.ports == ()]
    assert [sent.lasts for sent in stops] == [0.0]


def figures(probing):
    return {(sample.name.removeprefix("fabricmon_central_probe_"), *sample.labels.values()): sample.value
            for family in probing.families() for sample in family.samples}  # fmt: skip


async def test_figures_of_the_plan_in_force(site):
    _, wire, probing, _ = site
    assert figures(probing)["nodes",] == 0
    wire.connections.pop("n4")
    await probing.step()
    found = figures(probing)
    assert {name: found[name] for name in (("nodes",), ("ports",), ("flows", "leaf"), ("flows", "between_leaves"))} == {
        ("nodes",): 5.0, ("ports",): 6.0, ("flows", "leaf"): 24.0, ("flows", "between_leaves"): 0.0,
    }  # fmt: skip
    assert found.keys().isdisjoint({("leaf_pairs_ratio",), ("path_probability",)})  # there is one leaf at most
    probing.configure(CentralProbeConfig(enabled=False))
    await probing.step()
    assert (figures(probing)["nodes",], figures(probing)["ports",]) == (0.0, 0.0)
