"""Switches are compared with those of their own network, or of networks like it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fabricmon.sim.shapes import rail_fabric
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Switch, cable
from fabricmon.topology.peers import peer_sets


def beside(graph: Graph, leaves: int, spines: int, parallel: int, first: str = "st") -> Graph:
    """The graph with a storage network: a second adapter kind of each host on one of `leaves` leaves, all of these
    joined to all of `spines` spines."""
    hosts = sorted({adapter.host for adapter in graph.adapters.values()})
    switches = {f"{first}-{kind}{n}": Switch(f"{first}-{kind}{n}", f"{first}-{kind}{n}")
                for kind, count in (("leaf", leaves), ("spine", spines)) for n in range(count)}  # fmt: skip
    adapters = {f"{first}-{host}": Adapter(f"{first}-{host}", host, "mlx5_9") for host in hosts}
    cables = [cable(End(f"{first}-{host}", 1), End(f"{first}-leaf{n % leaves}", n // leaves + 1))
              for n, host in enumerate(hosts)]  # fmt: skip
    cables += [
        cable(End(f"{first}-leaf{leaf}", 100 + spine * parallel + n), End(f"{first}-spine{spine}", leaf * parallel + n))
        for leaf in range(leaves) for spine in range(spines) for n in range(parallel)
    ]  # fmt: skip
    return replace(graph, switches=graph.switches | switches, adapters=graph.adapters | adapters,
                   cables=(*graph.cables, *cables))  # fmt: skip


def lost(graph: Graph) -> list[Finding]:
    bare = {key: replace(switch, level=-1, labels={}) for key, switch in graph.switches.items()}
    found = findings.check(infer.annotate(replace(graph, switches=bare, hosts={}))).findings
    return [finding for finding in found if finding.kind in ("lost_uplinks", "missing_switch")]


@pytest.mark.parametrize(("leaves", "spines", "parallel"), [(1, 0, 0), (2, 0, 0), (5, 0, 0), (4, 2, 1), (2, 1, 2)])
def test_a_storage_network_is_not_compared_with_the_compute_network(leaves: int, spines: int, parallel: int) -> None:
    compute = rail_fabric(nodes=64, rails=4, unit=16, spines=4)
    assert lost(beside(compute, leaves, spines, parallel)) == []


def test_a_lost_uplink_is_found_in_either_network() -> None:
    both = beside(rail_fabric(nodes=64, rails=4, unit=16, spines=4), 5, 2, 1)
    for first, second in (("st-leaf", "st-spine"), ("su", "")):
        gone = next(c for c in both.cables if _joins(both, c, first, second))
        (finding,) = lost(replace(both, cables=tuple(c for c in both.cables if c is not gone)))
        assert finding.components[0].startswith(first)


def test_planes_that_are_alike_are_compared_with_each_other() -> None:
    """Each rail a network of its own: a spine that is missing in one of them shows by the others."""
    planes = Graph({}, {}, ())
    hosts = [Adapter(f"a{n}", f"h{n}", "mlx5_8") for n in range(64)]
    planes = replace(planes, adapters={adapter.id: adapter for adapter in hosts})
    for rail in range(4):
        planes = beside(planes, 4, 3, 1, f"r{rail}")
    assert lost(planes) == []
    without = replace(
        planes, switches={key: s for key, s in planes.switches.items() if key != "r1-spine1"},
        cables=tuple(c for c in planes.cables if "r1-spine1" not in (c.a.node, c.b.node)),
    )  # fmt: skip
    (finding,) = lost(without)
    assert finding.kind == "missing_switch"
    assert {name for name in finding.components if "leaf" in name} == {f"r1-leaf{n}" for n in range(4)}


def test_each_switch_is_in_one_set_at_most() -> None:
    both = infer.annotate(beside(rail_fabric(nodes=64, rails=4, unit=16, spines=4), 3, 0, 0))
    sets = peer_sets(both)
    every = [switch for compared in sets for switch in compared]
    assert len(every) == len(set(every))
    assert not any(switch.startswith("st-") for switch in every), "joined to no other switch"
    assert all(len({both.switches[switch].level for switch in compared}) == 1 for compared in sets)


def _joins(graph: Graph, link: Cable, first: str, second: str) -> bool:
    ends = sorted(graph.name(end.node) for end in (link.a, link.b))
    both = all(end.node in graph.switches for end in (link.a, link.b))
    return both and any(end.startswith(first) for end in ends) and any(second in end for end in ends)
