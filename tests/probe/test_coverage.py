"""What the server states on paths, against counts over the cables of whole fabrics.

The hash model, which the planner does not have: each switch takes, of the cables that begin a shortest way to the
target's leaf, one by BLAKE2 of a number of its own, the addresses and the UDP ports.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from hashlib import blake2b

import pytest

from fabricmon.central.probing.ends import ends, uplinks
from fabricmon.fleet.table import Table
from fabricmon.model import Component, Kind, Part
from fabricmon.probe.plan import PlanLimits, plan
from fabricmon.sim import shapes
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Graph
from tests.fleet.site import Site

DRAWS = 100


def ports_of(graph: Graph) -> Table:
    """Every adapter with one port, which offers to probe."""
    site, rows = Site(), defaultdict(list)
    for number, adapter in enumerate(sorted(graph.adapters.values(), key=lambda one: (one.host, one.name))):
        offer = f"10.0.{number >> 8}.{number & 255}:9795"
        labels = {"device": adapter.name, "port": "1", "role": "compute", "probe_address": offer}
        rows[adapter.host].append(Component(f"{adapter.name}/1", labels))
    for host, found in rows.items():
        site.inventory(host, Part("flow", Kind.PORT, ("probe_packets",), tuple(found), 10.0))
    table = site.fleet.tables[Kind.PORT]
    table.domains = assign(graph, list(zip(table.ids, table.labels, strict=True)), {})
    return table


class Ways:
    """Cables between switches, and on which switch each port is."""

    def __init__(self, graph: Graph):
        self.of, self.leaf, self._steps = defaultdict(list), {}, {}
        for number, cable in enumerate(graph.cables):
            one, other = sorted((cable.a.node, cable.b.node), key=lambda id: id in graph.switches)
            if one in graph.switches:
                self.of[one].append((other, number))
                self.of[other].append((one, number))
            else:
                self.leaf[f"{graph.adapters[one].host}/{graph.adapters[one].name}/1"] = other

    def steps(self, target: str) -> dict[str, int]:
        """To a switch from all others, by breadth first."""
        if target not in self._steps:
            found, waiting = {target: 0}, deque([target])
            while waiting:
                here = waiting.popleft()
                for there, _ in self.of[here]:
                    if there not in found:
                        found[there] = found[here] + 1
                        waiting.append(there)
            self._steps[target] = found
        return self._steps[target]

    def first(self, source: str, target: str) -> list[int]:
        steps = self.steps(target)
        return [cable for there, cable in self.of[source] if steps[there] == steps[source] - 1]


def counted(graph: Graph, limits: PlanLimits) -> tuple[float, list[float]]:
    """The stated probability, and for each leaf the share of draws in which every one of its cables has a flow."""
    table, ways = ports_of(graph), Ways(graph)
    paths = uplinks(table, graph)
    made = plan(ends(table, {}), paths.cables, limits, paths.unequal)
    flows = defaultdict(list)
    for flow in made.flows:
        source, target = made.ports[flow.source], made.ports[flow.target]
        one, other = ways.leaf[source.full_name], ways.leaf[target.full_name]
        if flow.apart:
            words = f"{source.address} {target.address} {flow.udp} {target.port}"
            flows[one].append((ways.first(one, other), words))
    shares = []
    for leaf, mine in flows.items():
        full = 0
        for draw in range(DRAWS):
            taken = {cables[int.from_bytes(blake2b(f"{draw} {leaf} {words}".encode(), digest_size=8).digest())
                            % len(cables)] for cables, words in mine}  # fmt: skip
            full += len(taken) == len(ways.of[leaf])
        shares.append(full / DRAWS)
    return made.coverage.probability, shares


@pytest.mark.parametrize("between", [2, 4])
@pytest.mark.parametrize("graph", [
    shapes.fat_tree(8, 2), shapes.fat_tree(8, 3), shapes.rail_optimised(8, 8, 2, 4), shapes.dragonfly_plus(),
], ids=["fat tree, 2 tiers", "fat tree, 3 tiers", "rail-optimised", "dragonfly+"])  # fmt: skip
def test_each_cable_above_a_leaf_has_a_flow_at_least_as_often_as_stated(graph: Graph, between: int) -> None:
    stated, shares = counted(graph, PlanLimits(between=between))
    mean = sum(shares) / len(shares)
    assert 0 < stated <= mean + 4 * math.sqrt(stated * (1 - stated) / (DRAWS * len(shares)))


@pytest.mark.parametrize("shape", ["dragonfly", "torus"])
def test_where_leaves_are_connected_with_each_other_it_is_unknown(shape: str) -> None:
    """There no number of flows makes sure: of the cables of a leaf, some may begin no shortest way of any of them."""
    graph = shapes.dragonfly(9, 4, 4, 1) if shape == "dragonfly" else shapes.torus3d(4, 4, 4, 4)
    stated, shares = counted(graph, PlanLimits())
    assert math.isnan(stated)
    assert min(shares) < 0.9
