"""Findings of the topology as incidents, and ports that are filed in the wrong place."""

from __future__ import annotations

from typing import Any

import msgspec

from fabricmon.engine import Engine
from fabricmon.engine.incidents.mismatch import STANDS, Mismatches
from fabricmon.rules.rule import Scope
from fabricmon.topology.findings import check
from fabricmon.topology.graph import Cable, End, Finding, Graph, Origin, Role

EMPTY = Graph({}, {}, ())


def swapped(graph: Graph, host: str) -> Graph:
    """The first two adapters of a host on each other's leaf, as cables were seen on the wire."""
    first, second = sorted(a.id for a in graph.adapters.values() if a.host == host)[:2]
    other = {first: second, second: first}

    def moved(end: End) -> End:
        return End(other.get(end.node, end.node), end.port)

    cables = tuple(Cable(moved(c.a), moved(c.b), c.rate, c.width, c.labels) for c in graph.cables)
    return msgspec.structs.replace(graph, cables=cables, origins=(Origin("ibnetdiscover", "/f", Role.LIVE),))


def test_swapped_rails_are_reported_once_and_end_when_the_graph_is_right(world: Any) -> None:
    w = world(hosts=8, rails=4)
    right = w.graph
    w.engine.reconfigure({}, check(swapped(right, "host-003")), w.now)
    w.run(STANDS - 5, step=5.0)
    assert w.firing("info") == []
    w.run(20, step=5.0)
    (incident,) = w.firing("info")
    assert (incident.kind, incident.severity) == ("topology_mismatch", "warning")
    assert "host-003" in incident.component
    assert "swapped" in incident.evidence[0].text
    w.run(60, step=5.0)
    assert sum(i.id == incident.id for i in w.changed) == 1
    w.engine.reconfigure({}, check(right), w.now)
    w.run(5)
    assert w.firing("info") == []


def test_a_plan_that_swaps_two_rails_is_put_right_and_reported_once(world: Any) -> None:
    w = world(hosts=8, rails=4)
    plan = check(msgspec.structs.replace(swapped(w.graph, "host-003"), origins=()))
    assert [finding.kind for finding in plan.findings] == ["swapped_rails"]
    w.engine.reconfigure({}, plan, w.now)
    w.run(STANDS + 20, step=5.0)
    (incident,) = w.firing("info")
    assert (incident.kind, incident.severity) == ("topology_mismatch", "info")
    assert "the other way round" in incident.evidence[0].text


def test_many_findings_of_one_kind_are_one_incident() -> None:
    found = tuple(Finding("lost_uplinks", (f"leaf-{n}",), f"leaf-{n} has 3 uplinks") for n in range(40))
    mismatches = Mismatches("f")
    graph = msgspec.structs.replace(EMPTY, findings=found)
    assert mismatches.drafts(graph, 0.0) == []
    (case,) = mismatches.drafts(graph, STANDS)
    assert case.members.bad == 40
    assert case.title.startswith("Topology: 40 findings")


def test_a_restart_neither_forgets_nor_repeats_a_finding(world: Any) -> None:
    w = world(hosts=8, rails=4)
    graph = check(swapped(w.graph, "host-003"))
    w.engine.reconfigure({}, graph, w.now)
    w.run(STANDS + 10, step=5.0)
    (before,) = w.firing("info")
    w.engine, kept = Engine(Scope.FLEET, None, {}, "test"), w.engine.incidents()
    w.engine.restore(kept, w.now)
    for host in w.hosts:
        w._tell_inventory(host)
    w.run(30, step=5.0)
    w.engine.reconfigure({}, graph, w.now)
    w.run(STANDS + 30, step=5.0)
    (after,) = w.firing("info")
    assert (after.id, after.since) == (before.id, before.since)
    assert not [i for i in w.changed if i.id == before.id and i.status != "firing"]


def test_a_port_that_goes_with_another_leaf_joins_it_and_raises_a_note(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    stray, filed_for_it = ("host-010", 0), ("host-003", 0)
    w.break_links((w.ports(w.hosts[:8], 0) - {filed_for_it}) | {stray})
    w.run(40)
    (leaf,) = w.firing()
    assert (leaf.kind, leaf.component) == ("fault_domain", "leaf(su0/rail0)")
    notes = [i for i in w.firing("info") if i.kind == "topology_mismatch"]
    (note,) = notes
    assert "host-010/mlx5_0/1" in note.component
    assert note.severity == "info"
    assert note.labels["group"] == "leaf(su0/rail0)"
    assert not [i for i in w.firing("info") if i.kind == "link_down"]
    w.leave("host-010")
    w.run(10)
    assert not [i for i in w.firing("info") if i.kind == "topology_mismatch"]


def test_a_cable_that_breaks_in_the_same_seconds_as_a_whole_leaf_is_told(world: Any) -> None:
    """No port of the leaf is missing, so none can be filed elsewhere."""
    w = world(units=2, hosts=8, rails=2)
    w.break_links(w.ports(w.hosts[:8], 0) | {("host-010", 0)})
    w.run(40)
    assert {(i.kind, i.component) for i in w.firing()} == {
        ("fault_domain", "leaf(su0/rail0)"), ("link_down", "link(host-010/mlx5_0/1, leaf-1-0/11)"),
    }  # fmt: skip
    assert not [i for i in w.firing("info") if i.kind == "topology_mismatch"]


def test_a_cable_that_was_seen_on_the_wire_is_not_filed_wrongly(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    seen = msgspec.structs.replace(w.graph, origins=(Origin("ibnetdiscover", "/f", Role.LIVE),))
    w.engine.reconfigure({}, seen, w.now)
    w.break_links((w.ports(w.hosts[:8], 0) - {("host-003", 0)}) | {("host-010", 0)})
    w.run(40)
    assert {i.component for i in w.firing()} == {"leaf(su0/rail0)", "link(host-010/mlx5_0/1, leaf-1-0/11)"}


def test_two_leaves_of_one_rail_that_restart_seconds_apart_are_two(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    first, second = w.ports(w.hosts[:8], 0), w.ports(w.hosts[8:], 0)
    w.break_links(first)
    w.run(6)
    w.break_links(second)
    w.run(40)
    assert {i.component for i in w.firing()} == {"leaf(su0/rail0)", "leaf(su1/rail0)"}
    assert not [i for i in w.firing("info") if i.kind == "topology_mismatch"]


def test_a_link_of_another_rail_in_the_same_seconds_is_a_fault_of_its_own(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    w.break_links(w.ports(w.hosts[:8], 0) | {("host-010", 1)})
    w.run(40)
    assert {(i.kind, i.component) for i in w.firing()} == {
        ("fault_domain", "leaf(su0/rail0)"), ("link_down", "link(host-010/mlx5_1/1, leaf-1-1/11)"),
    }  # fmt: skip


def test_of_two_swapped_adapters_the_one_that_goes_with_the_others_leaf_joins_it(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    w.break_links((w.ports(w.hosts[:8], 0) - {("host-003", 0)}) | {("host-003", 1)})
    w.run(60)
    assert [i.component for i in w.firing()] == ["leaf(su0/rail0)"]
    assert any(i.labels.get("finding") == "stray_port" for i in w.firing("info"))


def test_a_link_that_fails_at_another_time_is_its_own(world: Any) -> None:
    w = world(units=2, hosts=8, rails=2)
    w.break_links(w.ports(w.hosts[:8], 0))
    w.run(60)
    w.break_links([("host-010", 0)])
    w.run(40)
    assert len(w.firing()) == 2
    assert not [i for i in w.firing("info") if i.kind == "topology_mismatch"]
