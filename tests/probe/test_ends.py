"""Which ports can probe, with the places that the plan needs, and the uplinks of their leaves."""

from __future__ import annotations

import pytest

from fabricmon.central.probing.ends import ends, jobs_of, uplinks
from fabricmon.fleet.table import Table
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import Component, Kind, Part
from fabricmon.probe.plan import plan
from fabricmon.sim import shapes
from fabricmon.topology.domains import assign
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from tests.fleet.site import Site


def fleet_of(offers: dict[str, str], graph: Graph | None = None) -> Table:
    """One port a node, which offers to probe at an address."""
    site = Site()
    for node, offer in offers.items():
        labels = {"device": "mlx5_0", "port": "1", "role": "compute", "probe_address": offer}
        site.inventory(node, Part("flow", Kind.PORT, ("probe_packets",), (Component("mlx5_0/1", labels),), 10.0))
    table = site.fleet.tables[Kind.PORT]
    table.domains = assign(graph, list(zip(table.ids, table.labels, strict=True)), {})
    return table


@pytest.mark.parametrize(
    ("offer", "address", "port"),
    [("10.0.0.7:9795", "10.0.0.7", 9795), ("[fd00::7]:9795", "fd00::7", 9795)],
)
def test_a_port_probes_where_it_offers_to(offer: str, address: str, port: int) -> None:
    (end,) = ends(fleet_of({"a": offer}), {})
    assert (end.node, end.name, end.address, end.port) == ("a", "mlx5_0/1", address, port)
    assert (end.network, end.rail, end.leaf, end.job) == ("compute/", "0", "", "")


@pytest.mark.parametrize("offer", ["", ":9795", "10.0.0.7", "10.0.0.7:", "10.0.0.7:x", "10.0.0.7:-1"])
def test_an_offer_without_an_address_and_a_port_is_none(offer: str) -> None:
    assert ends(fleet_of({"a": offer}), {}) == []


def test_a_port_that_left_and_an_address_that_two_offer_are_left_out() -> None:
    table = fleet_of({"a": "10.0.0.1:1", "b": "10.0.0.2:1", "c": "10.0.0.2:2", "d": "10.0.0.4:1"})
    assert [end.node for end in ends(table, {})] == ["a", "d"]
    table.leave(table.n - 1, 5.0, known_absence=True)
    assert [end.node for end in ends(table, {})] == ["a"]
    table.domains = None
    (end,) = ends(table, {})
    assert (end.rail, end.leaf, end.network) == ("", "", "compute/")


def test_a_port_that_came_after_the_places_were_made_has_none() -> None:
    table = fleet_of({"a": "10.0.0.1:1", "b": "10.0.0.2:1"})
    table.domains = assign(None, [(table.ids[0], table.labels[0])], {})
    assert [(end.node, end.rail) for end in ends(table, {})] == [("a", "0"), ("b", "")]


def test_the_job_of_a_node_is_found_by_its_short_name_and_only_where_it_is_alone() -> None:
    slurm = Jobs("slurm", 1.0, (Job("7", "t", "u", ("n1", "n2")), Job("8", "t", "u", ("n2",))))
    other = Jobs("k8s", 1.0, (Job("x", "t", "u", ("n3",)),))
    assert jobs_of([slurm, other]) == {"n1": "slurm/7", "n3": "k8s/x"}
    table = fleet_of({"N1.site.example": "10.0.0.1:1", "n2": "10.0.0.2:1"})
    assert [end.job for end in ends(table, jobs_of([slurm]))] == ["slurm/7", ""]


def test_uplinks_are_the_cables_of_a_leaf_to_other_switches() -> None:
    switches = {f"0x{n}": Switch(f"0x{n}", f"leaf-{n}", 0) for n in range(3)} | {"0x9": Switch("0x9", "spine", 1)}
    adapters = {f"h{n}/mlx5_0": Adapter(f"h{n}/mlx5_0", f"h{n}", "mlx5_0") for n in range(3)}
    cables = [cable(End(f"h{n}/mlx5_0", 1), End(f"0x{n}", 1)) for n in range(3)]
    cables += [cable(End("0x0", 10 + n), End("0x9", n)) for n in range(3)] + [cable(End("0x9", 7), End("0x1", 10))]
    graph = Graph(switches, adapters, tuple(cables))
    table = fleet_of({f"h{n}": f"10.0.0.{n}:1" for n in range(3)}, graph)
    assert uplinks(table, graph) == ({"leaf-0": 3, "leaf-1": 1}, frozenset())
    beside = Graph(switches, adapters, (*cables, cable(End("0x1", 20), End("0x2", 20))))
    assert uplinks(table, beside) == ({"leaf-0": 3, "leaf-1": 2, "leaf-2": 1}, {"leaf-1", "leaf-2"})
    assert uplinks(table, None) == ({}, frozenset())
    table.domains = None
    assert uplinks(table, graph) == ({}, frozenset())


def test_a_rail_is_that_of_all_units_so_that_probes_cross_the_spines() -> None:
    graph = shapes.rail_optimised(2, 4, 2, 2)
    offers = {host: f"10.0.0.{n}:1" for n, host in enumerate(sorted({a.host for a in graph.adapters.values()}))}
    found = ends(fleet_of(offers, graph), {})
    assert {end.rail for end in found} == {"0"}
    assert len({end.leaf for end in found}) == 2
    made = plan(found, uplinks(fleet_of(offers, graph), graph).cables)
    assert made.coverage.between > 0
    assert made.coverage.pairs == (2, 2)
