"""Whose traffic passes a component, on a three-tier tree of 16 hosts: 4 pods of 2 leaves and 2 spines, 4 cores."""

import pytest

from fabricmon.engine.domains.dependent_hosts import DependentHosts
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import ComponentId, Kind
from fabricmon.sim.shapes.fat_tree import fat_tree
from fabricmon.topology.domains import assign
from fabricmon.topology.infer import annotate


def reach_of(graph, power):
    rows = [
        (ComponentId(Kind.PORT, adapter.host, f"{adapter.name}/1"), {"device": adapter.name, "port": "1"})
        for adapter in graph.adapters.values()
    ]
    return DependentHosts(RowDomains(assign(graph, rows, power), power, []), graph)


@pytest.fixture(scope="module")
def graph():
    return annotate(fat_tree(4, 3))


@pytest.fixture(scope="module")
def reach(graph):
    return reach_of(graph, {host: f"pdu-{n // 4}" for n, host in enumerate(sorted(graph.hosts))})


def names(graph, prefix):
    return sorted(switch.name for switch in graph.switches.values() if switch.name.startswith(prefix))


def hosts(graph, *numbers):
    return frozenset(sorted(graph.hosts)[n] for n in numbers)


def test_each_tier_has_the_hosts_below_it(graph, reach):
    leaf, spine, core = (names(graph, prefix)[0] for prefix in ("leaf", "spine", "core"))
    assert reach.domain(f"leaf({leaf})").hosts == hosts(graph, 0, 1)
    assert reach.domain(f"spine({spine})").hosts == hosts(graph, 0, 1, 2, 3)
    assert reach.domain(f"core({core})").hosts == hosts(graph, *range(16))
    assert reach.domain("power(pdu-1)").hosts == hosts(graph, 4, 5, 6, 7)


def test_a_cable_between_switches_has_the_hosts_below_its_lower_end(graph, reach):
    leaf, spine = names(graph, "leaf")[0], names(graph, "spine")[0]
    assert reach.domain(f"link({spine}/1, {leaf}/3)").hosts == hosts(graph, 0, 1)
    assert reach.domain(f"link({leaf}, {spine})").hosts == hosts(graph, 0, 1)


def test_one_of_two_cables_has_the_hosts_below_both(graph, reach):
    one, other, spine = *names(graph, "leaf")[:2], names(graph, "spine")[0]
    assert reach.domain(f"link({one}/3, {spine}/1, {other}/3, {spine}/2)").hosts == hosts(graph, 0, 1, 2, 3)


def test_what_is_a_hosts_own_or_unknown_puts_no_other_at_risk(graph, reach):
    host, leaf = sorted(graph.hosts)[0], names(graph, "leaf")[0]
    for own in (f"nic({host}/mlx5_0)", f"link({host}/mlx5_0/1, {leaf}/1)", f"host({host})", "spine(nobody)", ""):
        assert reach.domain(own).hosts == frozenset()


def test_hosts_without_a_leaf_in_common_have_to_cross(graph, reach):
    first, second, third, *_ = sorted(graph.hosts)
    assert not reach.crosses([first, second])
    assert reach.crosses([first, third])
    assert reach.crosses([first, "stranger"])


def test_above_the_leaves_only_who_crosses_counts(graph, reach):
    assert reach.domain(f"spine({names(graph, 'spine')[0]})").crosses == reach.crosses
    assert reach.domain(f"leaf({names(graph, 'leaf')[0]})").crosses is None


def test_without_a_topology_only_hosts_themselves_are_known(graph):
    bare = DependentHosts(reach_of(graph, {})._domains, None)
    assert bare.domain(f"spine({names(graph, 'spine')[0]})").hosts == frozenset()
