"""Whose fault a loss of packets is: simulated fabrics, with flows and without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fabricmon.engine import Engine
from fabricmon.forms.cables import cables_of
from fabricmon.model import Incident, Maintenance, Severity
from fabricmon.rules.rule import Scope
from fabricmon.sim import shapes
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.traffic import TrafficJob
from fabricmon.sim.world import World
from fabricmon.topology.groups import Many, spans
from fabricmon.topology.stages import stages

START = 1_800_000_000.0


class Run:
    """Four units of eight hosts with two rails, each rail a plane of four spines; every port sends to ten peers."""

    def __init__(self, *, flows: bool, spray: bool = False, layout: Layout | None = None, seed: int = 1,
                 peers: int = 10, mapped: bool = True, hosts: Sequence[int] | None = None) -> None:
        graph = shapes.rail_optimised(4, 8, 2, 4, planes=True)
        self.layout = layout or Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4)
        on = self.layout.hosts if hosts is None else tuple(self.layout.hosts[at] for at in hosts)
        job = TrafficJob("train", on, "all_to_all", peers=peers)
        self.world = World(self.layout, seed, jobs=[job], flows=flows, spray=spray)
        self.engine = Engine(Scope.FLEET, self.layout.graph if mapped else None, {}, "test")
        self.inlet = BulkInlet(self.world)
        self.run(80.0)

    def strike(self, fault: str, *where: str, **how: object) -> None:
        for step in FAULTS[fault](self.layout, *where, start=self.world.now, **how).steps:
            if step.at <= self.world.now:
                step.do(self.world)

    def run(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.advance(self.world.now + 5.0)
            self.inlet.poll(self.engine, START + self.world.now)
            self.engine.tick(START + self.world.now)
        assert self.engine.rule_states.failures.last == {}

    def told(self, least: Severity = Severity.WARNING) -> list[Incident]:
        return [i for i in self.engine.incidents() if i.status == "firing" and i.severity.rank >= least.rank]

    def components(self) -> list[str]:
        return [incident.component for incident in self.told()]


def test_flows_name_the_gray_spine_and_ports_are_explained_by_it() -> None:
    run = Run(flows=True)
    run.strike("switch_gray", "plane1-spine-002", ratio=0.01)
    run.run(60)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("fault_domain", "spine(plane1-spine-002)")
    assert incident.severity is Severity.CRITICAL
    assert incident.confidence >= 0.9
    assert any("explained by it: packet loss on" in e.text for e in incident.evidence)
    assert any("packet loss of single connections" in e.text for e in incident.evidence)


def test_without_flows_it_is_the_plane_and_all_its_spines_are_candidates() -> None:
    run = Run(flows=False)
    run.strike("switch_gray", "plane1-spine-002", ratio=0.01)
    run.run(90)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("fault_domain", "plane(1)")
    assert [c for c in incident.candidates if c.startswith("spine(")] == [
        f"spine(plane1-spine-{n:03d})" for n in range(4)
    ]
    assert any("no finer answer" in e.text for e in incident.evidence)
    assert incident.labels["tier"] == "spine"


def test_few_bit_errors_do_not_account_for_what_a_plane_loses() -> None:
    """A worn link spoils no more packets than it counts errors."""
    run = Run(flows=False)
    run.strike("link_errors", run.layout.port_name(1), ratio=1e-10)
    run.run(90)
    assert [i.kind for i in run.told()] == ["link_errors"]
    run.strike("switch_gray", "plane1-spine-002", ratio=0.01)
    run.run(90)
    assert sorted(i.kind for i in run.told()) == ["fault_domain", "link_errors"]


def test_without_a_map_the_ports_that_lose_packets_are_one_incident_without_a_name() -> None:
    run = Run(flows=False, mapped=False)
    run.strike("switch_gray", "plane1-spine-002", ratio=0.01)
    run.run(90)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("fault_domain", "common(ports losing packets)")
    assert incident.severity is Severity.WARNING
    assert all("/mlx5_1/" in part for part in incident.parts)
    assert any("knows no topology" in e.text for e in incident.evidence)


def test_without_a_map_a_lossy_adapter_is_named_by_how_much_it_loses() -> None:
    run = Run(flows=False, mapped=False, peers=3)
    run.strike("lossy_nic", "host-010/mlx5_1", ratio=0.01)
    run.run(90)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("packet_loss", "link(host-010/mlx5_1/1)")
    assert incident.severity is Severity.WARNING


def test_sprayed_flows_name_the_plane_too() -> None:
    run = Run(flows=True, spray=True)
    run.strike("switch_gray", "plane1-spine-002", ratio=0.05)
    run.run(90)
    assert run.components() == ["plane(1)"]


def test_a_gray_cable_between_switches_is_named_with_its_two_ends() -> None:
    run = Run(flows=True)
    run.strike("uplink_gray", "su2-rail0-leaf", "plane0-spine-003", ratio=0.01)
    run.run(60)
    (incident,) = run.told()
    assert incident.kind == "packet_loss"
    assert incident.component.startswith("link(su2-rail0-leaf/")
    assert len(incident.candidates) == 2
    assert all(candidate.startswith("port(") for candidate in incident.candidates)


SERIES = "link(su0-rail0-leaf/12, plane0-spine-003/1, su1-rail0-leaf/12, plane0-spine-003/2)"


def test_cables_that_no_flow_separates_are_named_together() -> None:
    """A spine with two leaves: all flows through one of its cables pass the other."""
    graph = shapes.rail_optimised(2, 8, 2, 4, planes=True)
    run = Run(flows=True, layout=Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4))
    run.strike("uplink_gray", "su1-rail0-leaf", "plane0-spine-003", ratio=0.01)
    run.run(60)
    (incident,) = run.told()
    low, high = cables_of(SERIES)
    assert (incident.kind, incident.component) == ("packet_loss", SERIES)
    assert incident.title.startswith(f"One of 2 cables loses packets ({low} or {high}): ")
    assert incident.candidates[:2] == (f"link({low})", f"link({high})")
    assert not {"node", "device", "leaf"} & incident.labels.keys()
    assert not any(SERIES in found.component for found in incident.ruled_out)
    assert any(e.text.startswith("best explanation") and "as probable" not in e.text for e in incident.evidence)


def test_maintenance_of_one_of_them_covers_the_incident() -> None:
    graph = shapes.rail_optimised(2, 8, 2, 4, planes=True)
    run = Run(flows=True, layout=Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4))
    now, cable = START + run.world.now, f"link({cables_of(SERIES)[1]})"
    run.engine.maintenance([Maintenance("m-1", now, now + 900.0, components=(cable,))])
    run.strike("uplink_gray", "su1-rail0-leaf", "plane0-spine-003", ratio=0.01)
    run.run(60)
    assert run.components() == []


@pytest.mark.parametrize("flows", [False, True])
def test_a_dead_leaf_is_one_incident_and_what_its_peers_lose_is_explained(flows: bool) -> None:
    run = Run(flows=flows)
    run.strike("leaf_down", "su1/rail1")
    run.run(120)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("fault_domain", "leaf(su1/rail1)")
    assert len(run.engine.rule_states.by_rule["packet_loss"].open) > 3


@pytest.mark.parametrize("flows", [False, True])
def test_a_dead_host_is_unreachable_when_its_peers_say_so(flows: bool) -> None:
    run = Run(flows=flows)
    run.strike("host_crash", "host-013")
    run.run(90)
    (incident,) = run.told()
    assert (incident.kind, incident.component) == ("host_unreachable", "host(host-013)")


@pytest.mark.parametrize("flows", [False, True])
def test_a_silent_agent_whose_host_still_answers_its_peers_is_no_dead_host(flows: bool) -> None:
    run = Run(flows=flows)
    run.strike("agents_silent", hosts=["host-013"], reachable=False)
    run.run(120)
    assert [(i.kind, i.severity) for i in run.told(Severity.INFO)] == [("agent_silent", Severity.WARNING)]


def test_where_agents_often_fall_silent_a_host_that_goes_on_is_no_warning_and_a_dead_one_is() -> None:
    run = Run(flows=False)
    for host in ("host-001", "host-027"):
        run.strike("agents_silent", hosts=[host], reachable=False)
        run.run(70)
    before = run.components()
    run.strike("agents_silent", hosts=["host-013"], reachable=False)
    run.run(60)
    assert run.components() == before
    (incident,) = [i for i in run.told(Severity.INFO) if i.component == "host(host-013)"]
    assert any("lost packets since it fell silent" in e.text for e in incident.evidence)
    run.strike("host_crash", "host-022")
    for seconds in (60, 600):  # and when its peers have given it up
        run.run(seconds)
        assert set(run.components()) - set(before) == {"host(host-022)"}


@pytest.mark.parametrize("flows", [False, True])
def test_peers_tell_a_loss_of_power_from_a_cut_in_the_monitoring(flows: bool) -> None:
    dark, cut = Run(flows=flows), Run(flows=flows)
    dark.strike("power_loss", "power-2")
    names = [cut.layout.hosts[host] for host in cut.layout.power_hosts("power-2")]
    cut.strike("agents_silent", hosts=names, reachable=False)
    for run in (dark, cut):
        run.run(100)
    assert [(i.kind, i.component) for i in dark.told()] == [("fault_domain", "power(power-2)")]
    assert "other hosts lose packets" in dark.told()[0].why
    (incident,) = cut.told()
    if flows:  # who sends to these hosts loses nothing
        assert (incident.component, incident.severity) == ("management(power-2)", Severity.WARNING)
    else:
        assert "have not confirmed" in incident.why
        assert "management(power-2)" in incident.candidates


def test_what_peers_lose_while_a_leaf_comes_back_is_its_effect() -> None:
    run = Run(flows=False)
    start = run.world.now
    steps = FAULTS["leaf_down"](run.layout, "su1/rail1", start=start, lasts=60.0).steps
    blamed: set[str] = set()
    for step in sorted(steps, key=lambda step: step.at):
        run.run(max(0.0, step.at - run.world.now))
        step.do(run.world)
        for _ in range(9):
            run.run(10.0)
            blamed.update(run.components())
    assert blamed == {"leaf(su1/rail1)"}


def test_a_leaf_in_maintenance_and_what_its_peers_lose_are_no_incident() -> None:
    run = Run(flows=False)
    now = START + run.world.now
    run.engine.maintenance([Maintenance("m-1", now, now + 900.0, components=("leaf(su1/rail1)",))])
    run.strike("leaf_down", "su1/rail1")
    run.run(150)
    assert run.told() == []
    assert run.engine.rule_states.by_rule["packet_loss"].open


def test_what_is_lost_to_a_host_without_an_agent_below_a_leaf_in_maintenance_is_no_incident() -> None:
    run = Run(flows=True)
    run.strike("agents_silent", hosts=["host-013"], reachable=False)
    run.run(120)
    now = START + run.world.now
    run.engine.maintenance([Maintenance("m-1", now, now + 900.0, components=("leaf(su1/rail1)",))])
    run.strike("leaf_down", "su1/rail1")
    run.run(150)
    assert run.components() == ["host(host-013)"]
    assert run.told()[0].kind == "agent_silent"


def test_a_spine_that_recovers_is_resolved() -> None:
    run = Run(flows=True)
    run.strike("switch_gray", "plane1-spine-002", ratio=0.01, lasts=60.0)
    run.run(60)
    assert run.components() == ["spine(plane1-spine-002)"]
    run.world.stop_losing(next(iter(run.world.effects.grays)))
    run.run(150)
    assert run.told(Severity.INFO) == []


def test_pods_and_planes_of_a_tree_of_three_levels() -> None:
    found = stages(shapes.fat_tree(8, 3))
    assert len(found) == 32
    assert len({of["pod"].name for of in found.values()}) == 8
    one = next(iter(found.values()))
    assert one["plane"].about["tier"] == "core"
    assert one["plane"].about["switches"] == "16"
    assert one["pod"].about["switches"] == "4"


def test_a_torus_has_no_plane() -> None:
    found = stages(shapes.torus3d(3, 3, 3))
    assert all(of.keys() == {"network"} for of in found.values())


def test_groups_of_rows_in_many() -> None:
    many = Many(np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 3], np.int32))
    assert many.members(1).tolist() == [0, 2]
    assert many.members(2).tolist() == []
    assert many.members(9).tolist() == []
    at, groups = many.groups_of(np.array([2, 0]))
    assert list(zip(at.tolist(), groups.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 3), (1, 1), (1, 3)]
    known = np.array([True, True, False])
    assert many.count(np.array([0, 1, 3, 7]), known).tolist() == [0.0, 1.0, 1.0, 0.0]
    at, entries = spans(np.array([0, 2, 2, 5]), np.array([1]))
    assert len(at) == len(entries) == 0


def test_a_loss_that_is_of_some_part_for_sure_is_a_warning_though_not_sure_which() -> None:
    graph = shapes.rail_optimised(8, 8, 4, 4, planes=False)
    layout = Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4)
    run = Run(flows=False, layout=layout, seed=4, peers=1)
    run.strike("switch_gray", "spine-000", ratio=0.03, pairs=0.03)
    run.run(70)
    (incident,) = run.told(Severity.INFO)
    assert 0.5 <= incident.confidence < 0.9
    assert incident.title.startswith("Suspected:")
    assert incident.severity is Severity.WARNING


def test_a_gray_leaf_that_is_joined_to_no_other_switch_is_named() -> None:
    graph = shapes.rail_optimised(1, 24, 4, 0)
    run = Run(flows=False, layout=Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4))
    run.strike("switch_gray", "su0-rail2-leaf", ratio=0.01, pairs=0.3)
    run.run(90)
    (incident,) = run.told()
    assert incident.component == "leaf(su0/rail2)"
    assert incident.severity is Severity.CRITICAL


def test_without_flows_a_gray_cable_is_a_warning_with_the_leaves_at_the_ends_of_its_flows_as_candidates() -> None:
    graph = shapes.rail_optimised(16, 16, 1, 4)
    layout = Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=4)
    run = Run(flows=False, layout=layout, peers=3, hosts=range(48, 80))  # of two leaves
    run.strike("uplink_gray", "su3-rail0-leaf", "spine-001", ratio=0.01)
    run.run(90)
    (incident,) = run.told()
    assert incident.component == "plane(0)"
    assert set(incident.candidates) == {"uplinks(su3-rail0-leaf)", "uplinks(su4-rail0-leaf)"}
    assert incident.severity is Severity.WARNING
    assert any("the evidence does not separate them" in e.text for e in incident.evidence)
