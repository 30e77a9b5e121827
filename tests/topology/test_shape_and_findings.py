"""What a fabric's shape says of itself, and what in it is odd: levels, units, rails, findings."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from fabricmon.model import ComponentId, Kind
from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology import domains, findings, infer
from fabricmon.topology.graph import Adapter, Cable, End, Graph, Switch, cable
from tests.topology.odd_nodes import FABRICS


def bare(graph: Graph) -> Graph:
    """The graph as a discovery has it: no levels, no labels."""
    switches = {key: replace(switch, level=-1, labels={}) for key, switch in graph.switches.items()}
    return replace(graph, switches=switches, hosts={})


@pytest.fixture
def plan() -> Graph:
    return rail_fabric(nodes=16, rails=4, unit=8, spines=4)


def recabled(graph: Graph, change: dict[End, End]) -> Graph:
    """The graph with some ends moved elsewhere."""
    def moved(end: End) -> End:
        return change.get(end, end)

    cables = tuple(cable(moved(c.a), moved(c.b), c.rate, c.width) for c in graph.cables)
    return findings.check(infer.annotate(bare(replace(graph, cables=cables))))


def adapter_end(graph: Graph, host: str, device: str) -> End:
    return End(next(a.id for a in graph.adapters.values() if (a.host, a.name) == (host, device)), 1)


def test_levels_units_and_rails_follow_from_the_cables_alone(plan: Graph) -> None:
    found = infer.annotate(bare(plan))
    assert {s.id: (s.level, s.labels) for s in found.switches.values()} == {
        s.id: (s.level, s.labels) for s in plan.switches.values()
    }
    assert {host: labels["unit"] for host, labels in found.hosts.items()} == {
        host: labels["unit"] for host, labels in plan.hosts.items()
    }
    assert Counter(infer.tier(found, c) for c in found.cables) == {"adapter-0": 64, "0-1": 8 * 4 * 2}


def test_a_sound_fabric_has_no_findings(plan: Graph) -> None:
    assert findings.check(plan).findings == ()


def test_what_a_source_states_is_kept(plan: Graph) -> None:
    leaf = next(s for s in plan.switches.values() if s.level == 0)
    stated = replace(leaf, labels={"unit": "pod-a", "rail": "blue"})
    found = infer.annotate(replace(plan, switches=plan.switches | {leaf.id: stated}))
    assert found.switches[leaf.id].labels == {"unit": "pod-a", "rail": "blue"}


def test_three_levels_are_distances_from_the_leaves() -> None:
    """A management host on a core makes it no leaf."""
    leaves = ("l1", "l2", "l3", "l4")
    switches = {name: Switch(name, name) for name in (*leaves, "s1", "s2", "c1", "alone")}
    names = [f"{leaf}-{n}" for leaf in leaves for n in range(8)]
    adapters = {name: Adapter(name, f"h-{name}", "mlx5_0") for name in names}
    cables = [cable(End(a, 1), End(a[:2], int(a[3:]) + 1)) for a in adapters]
    pairs = (("l1", "s1"), ("l2", "s1"), ("l3", "s2"), ("l4", "s2"), ("s1", "c1"), ("s2", "c1"))
    cables += [cable(End(a, 20 + n), End(b, 1 + n)) for n, (a, b) in enumerate(pairs)]
    adapters["ufm"] = Adapter("ufm", "ufm-1", "mlx5_0")
    cables.append(cable(End("ufm", 1), End("c1", 30)))
    graph = Graph(switches, adapters, tuple(cables))
    assert infer.tiers_of(graph).level == dict.fromkeys(leaves, 0) | {"s1": 1, "s2": 1, "c1": 2, "alone": -1}


def test_a_fabric_without_adapters_has_no_levels() -> None:
    graph = Graph({"a": Switch("a", "a")}, {}, ())
    assert infer.tiers_of(graph).level == {"a": -1}
    assert findings.check(infer.annotate(graph)).findings == ()


@pytest.mark.parametrize(
    ("device", "index"), [("mlx5_0", 0), ("mlx5_11", 11), ("HCA-1", 0), ("hca-6", 5), ("uverbs", None)]
)
def test_adapter_names_count_from_zero_or_one(device: str, index: int | None) -> None:
    assert infer.rail_index(device) == index


def test_a_swapped_pair_is_one_finding_with_both_cables(plan: Graph) -> None:
    one, two = adapter_end(plan, "host-003", "mlx5_1"), adapter_end(plan, "host-003", "mlx5_2")
    found = recabled(plan, {one: two, two: one})
    (swapped,) = found.findings
    assert swapped.kind == "swapped_rails"
    assert swapped.components == ("host-003/mlx5_1", "host-003/mlx5_2")
    assert "mlx5_1 is on su0-rail2-leaf" in swapped.why
    assert "mlx5_2 is on su0-rail1-leaf" in swapped.why


def test_a_stranger_on_a_rail_is_reported(plan: Graph) -> None:
    stranger = Adapter("0x1", "mgmt-1", "mlx5_0")
    leaf = next(s for s in plan.switches.values() if s.labels.get("rail") == "3")
    graph = replace(
        plan, adapters=plan.adapters | {"0x1": stranger}, cables=(*plan.cables, cable(End("0x1", 1), End(leaf.id, 60)))
    )
    (finding,) = findings.check(infer.annotate(graph)).findings
    assert finding.kind == "impure_rail"
    assert finding.components == ("su0-rail3-leaf", "mgmt-1/mlx5_0")


def test_a_leaf_with_fewer_uplinks_than_its_peers_is_reported(plan: Graph) -> None:
    leaf = next(s.id for s in plan.switches.values() if s.name == "su1-rail0-leaf")
    ups = [c for c in plan.cables if leaf in (c.a.node, c.b.node) and {c.a.node, c.b.node} <= plan.switches.keys()]
    graph = replace(plan, cables=tuple(c for c in plan.cables if c not in ups[:3]))
    kinds = {f.kind: f for f in findings.check(graph).findings}
    assert kinds["lost_uplinks"].why == (
        "su1-rail0-leaf has 5 uplinks, 7 of 8 peers have 8: spine-01 0 of 2, spine-02 1 of 2"
    )


def test_slow_links_among_fast_ones_are_reported(plan: Graph) -> None:
    first = plan.cables[0]
    slow = Cable(first.a, first.b, first.rate / 2, 2)
    (finding,) = findings.check(replace(plan, cables=(slow, *plan.cables[1:]))).findings
    assert finding.kind == "slow_link"
    assert finding.components == (plan.title(first),)


def test_one_name_for_two_adapters_is_reported(plan: Graph) -> None:
    first = next(iter(plan.adapters.values()))
    twin = Adapter("0xdd", first.host, first.name)
    (finding,) = findings.check(replace(plan, adapters=plan.adapters | {"0xdd": twin})).findings
    assert finding.kind == "duplicate_adapter"
    assert finding.components == (first.id, "0xdd")


def test_leaves_that_are_mixed_by_design_get_no_rail_and_no_finding() -> None:
    switches = {"l1": Switch("l1", "l1")}
    adapters = {f"a{n}": Adapter(f"a{n}", f"h{n // 2}", f"mlx5_{n % 2}") for n in range(12)}
    graph = Graph(switches, adapters, tuple(cable(End(a, 1), End("l1", n + 1)) for n, a in enumerate(adapters)))
    found = findings.check(infer.annotate(graph))
    assert "rail" not in found.switches["l1"].labels
    assert found.findings == ()


def renamed(plan: Graph, names: list[str]) -> Graph:
    """The fabric with other device names, in the order of the rails."""
    adapters = {
        key: replace(adapter, name=names[infer.rail_index(adapter.name) or 0], description="")
        for key, adapter in plan.adapters.items()
    }
    return replace(plan, adapters=adapters)


ADDRESSES = ["ibp11s0f0", "ibp21s0f0", "ibp139s0f0", "ibp203s0f0"]


@pytest.mark.parametrize("names", [ADDRESSES, ["enP1p2s0f0np0", "enP1p2s0f1np1", "enP2p1s0np0", "enP10p1s0np0"]])
def test_names_made_of_pci_addresses_give_rails_by_their_order(plan: Graph, names: list[str]) -> None:
    by_number = findings.check(infer.annotate(bare(plan)))
    by_address = findings.check(infer.annotate(bare(renamed(plan, names))))
    assert by_address.shapes[0].name == by_number.shapes[0].name
    assert by_address.shapes[0].kind == "rail-optimised"
    labels = {key: switch.labels.get("rail") for key, switch in by_number.switches.items()}
    assert {key: switch.labels.get("rail") for key, switch in by_address.switches.items()} == labels
    assert not by_address.findings


def test_ports_of_other_drivers_do_not_take_each_others_links(plan: Graph) -> None:
    graph = renamed(plan, [f"cxi{rail}" for rail in range(4)])
    host = next(iter(graph.adapters.values())).host
    devices = ("cxi0", "mlx5_0")
    rows = [(ComponentId(Kind.PORT, host, f"{device}/1"), {"device": device, "port": "1"}) for device in devices]
    groups = domains.assign(infer.annotate(bare(graph)), rows, {})
    assert groups.ids["leaf"].tolist()[0] >= 0
    assert groups.ids["leaf"].tolist()[1] == -1  # a storage adapter beside the compute adapter of the same number
    assert len(set(groups.ids["link"].tolist())) == 2


def test_a_dead_core_is_one_finding_with_its_name() -> None:
    graph = FABRICS["three tiers, 320 switches"]()
    dead = [switch for switch in graph.switches.values() if switch.level == 2][2]
    cables = tuple(link for link in graph.cables if dead.id not in (link.a.node, link.b.node))
    left = replace(graph, switches={key: s for key, s in graph.switches.items() if key != dead.id}, cables=cables)
    found = findings.check(infer.annotate(bare(left))).findings
    (lost,) = [finding for finding in found if finding.kind in ("missing_switch", "lost_uplinks")]
    assert (lost.kind, lost.components[0]) == ("missing_switch", dead.name)
    assert len(lost.components) == 1 + sum(dead.id in (link.a.node, link.b.node) for link in graph.cables)


def test_a_spine_that_lost_some_of_its_links_is_one_finding_with_its_name() -> None:
    graph = rail_fabric(nodes=64, rails=8, unit=8, spines=8, parallel=1)
    spine = next(s for s in graph.switches.values() if s.level == 1)
    links = [link for link in graph.cables if spine.id in (link.a.node, link.b.node)]
    gone = links[: len(links) // 8]
    found = findings.check(infer.annotate(bare(replace(graph, cables=tuple(c for c in graph.cables if c not in gone)))))
    (lost,) = [finding for finding in found.findings if finding.kind == "lost_uplinks"]
    ends = [link.b if link.a.node == spine.id else link.a for link in gone]
    assert lost.components[0] == spine.name
    assert set(lost.components[1:]) == {graph.describe(end) for end in ends}


def test_a_lost_uplink_names_the_empty_port(plan: Graph) -> None:
    gone = next(c for c in plan.cables if c.a.node in plan.switches and c.b.node in plan.switches)
    leaf = gone.a if plan.switches[gone.a.node].level == 0 else gone.b
    left = replace(plan, cables=tuple(c for c in plan.cables if c != gone))
    found = findings.check(infer.annotate(bare(left))).findings
    (lost,) = [finding for finding in found if finding.kind == "lost_uplinks"]
    assert lost.components == (plan.name(leaf.node), plan.describe(leaf))


def test_a_cable_back_to_its_own_switch_is_reported(plan: Graph) -> None:
    spine = next(s for s in plan.switches.values() if s.level == 1)
    plug = cable(End(spine.id, 60), End(spine.id, 61), plan.cables[0].rate, 4)
    (finding,) = findings.check(replace(plan, cables=(*plan.cables, plug))).findings
    assert (finding.kind, finding.components) == ("loopback", (f"{spine.name}/60, {spine.name}/61",))


# --- rails by the order of the adapters and the leaves that they reach


def rails_of(graph: Graph) -> dict[str, str | None]:
    return {key: switch.labels.get("rail") for key, switch in infer.annotate(bare(graph)).switches.items()}


@pytest.mark.parametrize("offset", [0, 2])
def test_each_kind_of_host_may_name_its_adapters_otherwise(plan: Graph, offset: int) -> None:
    """Half of the hosts by number from 2, with a gap, the others by PCI address."""
    numbers = [f"mlx5_{n}" for n in (2, 3, 6, 9)]
    adapters = {
        key: replace(a, name=(numbers if int(a.host[-3:]) % 2 else ADDRESSES)[infer.rail_index(a.name) or 0])
        for key, a in plan.adapters.items()
    }
    assert rails_of(replace(plan, adapters=adapters)) == rails_of(plan)


def test_a_host_without_an_adapter_keeps_the_rails_of_its_kind(plan: Graph) -> None:
    gone = next(a for a in plan.adapters.values() if a.name == "mlx5_1")
    left = replace(
        plan, adapters={key: a for key, a in plan.adapters.items() if key != gone.id},
        cables=tuple(c for c in plan.cables if gone.id not in (c.a.node, c.b.node)),
    )  # fmt: skip
    found = findings.check(infer.annotate(bare(left))).findings
    assert [finding.kind for finding in found] == ["missing_rail"]
    assert found[0].components[0] == gone.host


def test_a_host_with_one_more_adapter_has_the_rails_of_the_leaves_it_reaches(plan: Graph) -> None:
    """Its first adapter is for management: the numbers of the others are one higher than their peers'."""
    host = next(iter(plan.adapters.values())).host
    adapters = {
        key: replace(a, name=f"mlx5_{int(a.name[-1]) + 1}") if a.host == host else a
        for key, a in plan.adapters.items()
    }
    adapters["0x9"] = Adapter("0x9", host, "mlx5_0")
    spine = next(s for s in plan.switches.values() if s.level == 1)
    cables = (*plan.cables, cable(End("0x9", 1), End(spine.id, 60), plan.cables[0].rate, 4))
    graph = findings.check(infer.annotate(bare(replace(plan, adapters=adapters, cables=cables))))
    assert [finding.kind for finding in graph.findings] == ["odd_switch"]


def test_storage_adapters_of_another_network_take_no_rail(plan: Graph) -> None:
    """mlx5_2 and mlx5_3 lead to a network of their own, the compute adapters are 0, 1, 4, 5."""
    names = [f"mlx5_{n}" for n in (0, 1, 4, 5)]
    adapters = {key: replace(a, name=names[infer.rail_index(a.name) or 0]) for key, a in plan.adapters.items()}
    hosts = sorted({a.host for a in adapters.values()})
    storage = {f"0xs{n}": Adapter(f"0xs{n}", hosts[n // 2], f"mlx5_{2 + n % 2}") for n in range(2 * len(hosts))}
    switch = Switch("0xstore", "store")
    cables = [cable(End(key, 1), End(switch.id, n + 1)) for n, key in enumerate(storage)]
    both = replace(
        plan, adapters=adapters | storage, switches=plan.switches | {switch.id: switch},
        cables=(*plan.cables, *cables),
    )  # fmt: skip
    found = rails_of(both)
    assert {key: found[key] for key in plan.switches} == rails_of(plan)


def test_a_management_port_beside_ports_with_an_address_is_on_no_rail() -> None:
    """As `lldpctl` of a GPU node shows them: eth0, and the compute ports by PCI address."""
    names = ["eth0", "enp137s0", "enp198s0", "enp233s0"]
    switches = {f"l{n}": Switch(f"l{n}", f"l{n}") for n in range(4)}
    adapters = {name: Adapter(name, "h", name) for name in names}
    cables = tuple(cable(End(name, 1), End(f"l{n}", 3)) for n, name in enumerate(names))
    assert rails_of(Graph(switches, adapters, cables)) == {"l0": None, "l1": "0", "l2": "1", "l3": "2"}


# --- levels that unseen real fabrics showed


def test_a_gateway_leaf_beside_many_cores_with_the_neighbours_of_a_leaf_is_a_leaf() -> None:
    """Half of the usual hosts, and as many cores as leaves above the same spines."""
    graph = FABRICS["three tiers, 320 switches"]()
    leaf = next(s for s in graph.switches.values() if s.level == 0)
    own = [c for c in graph.cables if leaf.id in (c.a.node, c.b.node) and {c.a.node, c.b.node} & graph.adapters.keys()]
    left = replace(graph, cables=tuple(c for c in graph.cables if c not in own[: len(own) // 2]))
    found = infer.annotate(bare(left))
    assert {key: s.level for key, s in found.switches.items()} == {key: s.level for key, s in graph.switches.items()}


def test_leaves_that_mostly_have_no_hosts_yet_are_no_cores() -> None:
    """A director of 40 leaf and 20 spine chips of which two leaves carry an adapter."""
    leaves, spines = [f"l{n}" for n in range(40)], [f"s{n}" for n in range(20)]
    cables = [cable(End(leaf, 1 + n), End(s, 1 + m)) for m, leaf in enumerate(leaves) for n, s in enumerate(spines)]
    adapters = {f"a{n}": Adapter(f"a{n}", f"h{n}", "mlx5_0") for n in range(2)}
    cables += [cable(End(a, 1), End(leaves[n], 40)) for n, a in enumerate(adapters)]
    switches = {key: Switch(key, key) for key in (*leaves, *spines)}
    graph = findings.check(infer.annotate(Graph(switches, adapters, tuple(cables))))
    assert graph.shapes[0].name == "two-level fat tree"
    assert Counter(s.level for s in graph.switches.values()) == {0: 40, 1: 20}


def test_four_switches_in_a_ring_are_no_dragonfly() -> None:
    adapters = {f"a{n}": Adapter(f"a{n}", f"h{n}", "mlx5_0") for n in range(8)}
    on = ["w", "w", "w", "x", "x", "x", "y", "z"]
    cables = [cable(End(a, 1), End(on[n], 10 + n)) for n, a in enumerate(adapters)]
    cables += [cable(End(a, 1), End(b, 2)) for a, b in ("wx", "xy", "yz", "zw")]
    switches = {key: Switch(key, key) for key in "wxyz"}
    graph = findings.check(infer.annotate(Graph(switches, adapters, tuple(cables))))
    assert graph.shapes[0].kind == "irregular"
