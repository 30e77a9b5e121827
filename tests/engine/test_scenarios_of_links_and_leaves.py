"""Ground truths of the scenario catalogue through the real fleet, rules and engine: links, leaves, NICs."""

from __future__ import annotations

from typing import Any

from fabricmon.model import Members
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import annotate

LINK = "link(host-002/mlx5_1/1, leaf-0-1/3)"


def test_s01_a_flapping_cable_is_reported_at_the_third_down_and_once(world: Any) -> None:
    w = world()
    port = ("host-002", 1)
    for pause in (87.0, 57.0):
        w.flap(port)
        w.run(pause)
    assert w.firing() == []
    w.break_links([port])
    waited = w.run(10, check=lambda: bool(w.firing()))
    assert waited <= 2.0
    w.mend([port])
    w.run(120)
    w.flap(port)
    (incident,) = w.firing()
    assert (incident.kind, incident.component, incident.severity) == ("link_flapping", LINK, "warning")
    assert incident.confidence >= 0.9
    assert any("3 downs" in e.text for e in incident.evidence)
    assert w.told("info") == {("link_flapping", LINK)}
    assert len({i.revision for i in w.changed if i.id == incident.id}) == 1


def test_a_flap_that_ends_is_resolved_when_its_penalty_has_decayed(world: Any) -> None:
    w = world(hosts=2, rails=2)
    w.run(3700, step=25.0)  # what was before the watch began is forgotten by now
    for _ in range(3):
        w.flap(("host-001", 1))
        w.run(30)
    assert w.kinds() == [("link_flapping", "link(host-001/mlx5_1/1, leaf-0-1/2)")]
    w.run(20 * 60, step=10.0)
    assert w.kinds() != []
    w.run(25 * 60, step=10.0)
    assert w.kinds() == []


def test_s02_one_down_every_six_hours_is_slow_flapping_at_the_third(world: Any) -> None:
    w = world(hosts=2, rails=2, period=60.0)
    port = ("host-001", 0)
    for _ in range(2):
        w.flap(port)
        w.run(6 * 3600, step=60.0)
        assert w.firing() == []
    w.flap(port)
    w.run(120, step=60.0)
    (incident,) = w.firing()
    assert incident.kind == "link_flapping"
    assert incident.severity == "warning"
    assert incident.labels.get("slow") == "true"


def test_s03_a_dead_leaf_is_one_incident_with_all_its_links(world: Any) -> None:
    for period in (1.0, 10.0):
        w = world(units=2, hosts=8, rails=4, period=period)
        w.break_links(w.ports(w.hosts[:8], 2))
        w.run(40)
        (incident,) = w.firing()
        assert (incident.kind, incident.component) == ("fault_domain", "leaf(su0/rail2)")
        assert (incident.severity, incident.members) == ("critical", Members(8, 8))
        assert incident.labels["switch"] == "leaf-0-2"
        assert incident.confidence >= 0.9
        assert w.told() == {("fault_domain", "leaf(su0/rail2)")}


def test_s03_is_reported_within_twenty_seconds(world: Any) -> None:
    w = world(units=2, hosts=8, rails=4, period=10.0)
    w.break_links(w.ports(w.hosts[:8], 2))
    assert w.run(60, check=lambda: bool(w.firing())) <= 30.0
    w = world(units=2, hosts=8, rails=4)
    w.break_links(w.ports(w.hosts[:8], 2))
    assert w.run(60, check=lambda: bool(w.firing())) <= 10.0


def test_s04_a_leaf_that_restarts_is_one_incident_and_its_links_do_not_flap(world: Any) -> None:
    w = world(units=2, hosts=10, rails=2)
    links = sorted(w.ports(w.hosts[:10], 1))
    w.break_links(links)
    w.run(140)
    w.mend(links)
    w.run(10)
    w.break_links(links[:4])
    w.run(8)
    w.mend(links[:4])
    w.run(120)
    assert w.kinds() == []
    assert w.told() == {("fault_domain", "leaf(su0/rail1)")}


def test_a_leaf_that_comes_back_link_by_link_does_not_turn_into_link_incidents(world: Any) -> None:
    w = world(units=1, hosts=16, rails=2)
    links = sorted(w.ports(rail=1))
    w.break_links(links)
    w.run(60)
    for link in links:
        w.mend([link])
        w.run(5)
    w.run(60)
    assert w.kinds() == []
    assert w.told() == {("fault_domain", "leaf(su0/rail1)")}


def test_the_link_that_does_not_come_back_with_its_leaf_is_reported_on_its_own(world: Any) -> None:
    w = world(units=1, hosts=16, rails=2)
    links = sorted(w.ports(rail=1))
    w.break_links(links)
    w.run(60)
    w.mend(links[1:])
    w.run(60)
    assert w.kinds() == [("fault_domain", "leaf(su0/rail1)")]
    w.run(120)
    assert w.kinds() == [("link_down", "link(host-000/mlx5_1/1, leaf-0-1/1)")]


def test_a_cable_names_what_the_evidence_cannot_tell_apart(world: Any) -> None:
    w = world()
    w.break_links([("host-002", 1)])
    w.run(20)
    (incident,) = w.firing()
    assert (incident.kind, incident.component, incident.severity) == ("link_down", LINK, "warning")
    assert {"nic(host-002/mlx5_1)", "port(leaf-0-1/3)"} <= set(incident.candidates)


def test_one_cable_is_one_incident_whose_kind_sharpens(world: Any) -> None:
    w = world()
    port = ("host-002", 1)
    w.break_links([port])
    w.run(30)
    (first,) = w.firing()
    for _ in range(2):
        w.mend([port])
        w.run(6)
        w.break_links([port])
        w.run(10)
    (second,) = w.firing()
    assert (first.kind, second.kind, second.id) == ("link_down", "link_flapping", first.id)
    assert "kind" in [entry.change for entry in second.history]
    assert second.revision > first.revision


def test_a_cause_that_comes_back_is_the_same_incident_in_a_new_episode(world: Any) -> None:
    w = world()
    port = ("host-002", 1)
    w.break_links([port])
    w.run(20)
    (first,) = w.firing()
    w.mend([port])
    w.run(30)
    (over,) = [i for i in w.engine.incidents() if i.id == first.id]
    assert over.status == "resolved"
    w.run(3000, step=15.0)
    w.break_links([port])
    w.run(20)
    (again,) = w.firing()
    assert again.id == first.id
    assert again.since > over.resolved
    assert first.revision < over.revision < again.revision


def test_s15_a_link_trained_slow_is_degraded(world: Any) -> None:
    w = world()
    w.half.add(("host-002", 1))
    w.run(80)
    (incident,) = w.firing()
    assert (incident.kind, incident.component, incident.severity) == ("link_degraded", LINK, "warning")


def test_s19_two_faults_are_two_incidents(world: Any) -> None:
    w = world()
    for _ in range(3):
        w.flap(("host-002", 1))
        w.run(20)
    w.half.add(("host-005", 3))
    w.run(80)
    assert w.kinds() == [
        ("link_degraded", "link(host-005/mlx5_3/1, leaf-0-3/6)"),
        ("link_flapping", LINK),
    ]


def test_s20_a_nic_that_vanished_is_a_nic_fault(world: Any) -> None:
    w = world()
    w.run(130)
    w.lose("host-003", 2)
    assert w.run(40, check=lambda: bool(w.firing())) <= 30.0
    (incident,) = w.firing()
    assert (incident.kind, incident.component, incident.severity) == ("nic_fault", "nic(host-003/mlx5_2)", "critical")
    assert any("expected 4, found 3" in e.text for e in incident.evidence)


def test_two_adapters_that_vanish_at_one_moment_share_no_module(world: Any) -> None:
    w = world(topology=False)
    w.run(130)
    w.lose("host-003", 2)
    w.lose("host-005", 1)
    w.run(40)
    assert set(w.kinds()) == {("nic_fault", "nic(host-003/mlx5_2)"), ("nic_fault", "nic(host-005/mlx5_1)")}


def test_a_link_that_was_reported_becomes_part_of_its_nic_when_that_vanishes(world: Any) -> None:
    w = world()
    w.run(130)
    w.break_links([("host-003", 2)])
    w.run(15)
    assert w.kinds() == [("link_down", "link(host-003/mlx5_2/1, leaf-0-2/4)")]
    w.lose("host-003", 2)
    w.run(40)
    assert w.kinds() == [("nic_fault", "nic(host-003/mlx5_2)")]


def test_with_no_hold_a_link_that_is_down_is_reported_at_the_tick_that_saw_it(world: Any) -> None:
    """Where it has no neighbours that are still to be read."""
    w = world(hosts=1, params={"link_down": {"hold": "0s"}}, topology=False, period=5.0)
    w.run(5)
    w.break_links([("host-000", 1)])
    w._tell_frame("host-000")
    assert w.run(10, step=0.5, check=lambda: bool(w.firing())) <= 0.5


def test_without_a_topology_a_cable_is_still_one_incident(world: Any) -> None:
    w = world(topology=False)
    w.break_links([("host-002", 1)])
    w.run(20)
    assert w.kinds() == [("link_down", "link(host-002/mlx5_1/1)")]


def test_a_link_that_goes_down_minutes_after_its_neighbour_flapped_is_no_flapping_cage(world: Any) -> None:
    w = world()
    for _ in range(3):
        w.flap(("host-003", 1))
        w.run(20)
    w.run(20)
    w.break_links([("host-003", 0)])  # the other adapter of the cage; in reality its leaf begins to fail
    w.run(60)
    assert sorted(w.kinds()) == [
        ("link_down", "link(host-003/mlx5_0/1, leaf-0-0/4)"),
        ("link_flapping", "link(host-003/mlx5_1/1, leaf-0-1/4)"),
    ]


def test_an_adapter_that_fell_once_beside_the_flapping_one_of_its_cage_is_evidence_for_the_cage(world: Any) -> None:
    w = world()
    w.flap(("host-003", 0))  # not at the moment of any fall of the other
    for _ in range(3):
        w.run(20)
        w.flap(("host-003", 1))
    w.run(5)
    assert w.kinds() == [("fault_domain", "cage(host-003/0)")]


def test_an_adapter_that_fell_with_its_leaf_is_no_evidence_for_a_flapping_cage(world: Any) -> None:
    w = world()
    w.break_links(w.ports(rail=0))
    w.run(3)
    w.mend(w.ports(rail=0))
    for _ in range(3):
        w.run(20)
        w.flap(("host-003", 1))
    w.run(5)
    assert ("link_flapping", "link(host-003/mlx5_1/1, leaf-0-1/4)") in w.kinds()
    assert not [component for _, component in w.kinds() if component.startswith("cage")]


def test_a_port_without_a_known_cable_that_falls_with_a_leaf_is_part_of_it(world: Any) -> None:
    w = world(rails=2)
    graph = w.graph
    known = [c for c in graph.cables if f"0x{0xBB0000 + 7 * 64:016x}" not in (c.a.node, c.b.node)]
    assert len(known) == len(graph.cables) - 1
    w.engine.reconfigure({}, annotate(Graph(graph.switches, graph.adapters, tuple(known), graph.hosts, "test")), w.now)
    w.run(5)
    w.break_links(w.ports(rail=0))
    w.run(60)
    assert w.told() == {("fault_domain", "leaf(su0/rail0)")}
