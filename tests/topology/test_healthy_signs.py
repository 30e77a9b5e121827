"""What a fabric of a known shape should have and lacks: one finding for what was taken away, none beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fabricmon.sim import shapes
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Cable, End, Finding, Graph, cable


def without(graph: Graph, gone: Callable[[Cable], bool]) -> Graph:
    return replace(graph, cables=tuple(link for link in graph.cables if not gone(link)))


def checked(graph: Graph) -> list[Finding]:
    return list(findings.check(infer.annotate(graph)).findings)


def named(graph: Graph, name: str) -> str:
    (found,) = [key for key in (*graph.switches, *graph.adapters) if graph.name(key) == name]
    return found


def between(one: str, other: str) -> Callable[[Cable], bool]:
    return lambda link: {link.a.node, link.b.node} == {one, other}


def test_a_host_without_one_of_its_rails() -> None:
    graph = shapes.rail_optimised()
    adapter, leaf = named(graph, "host-003/mlx5_5"), named(graph, "su0-rail5-leaf")
    (finding,) = checked(without(graph, between(adapter, leaf)))
    assert (finding.kind, finding.components) == ("missing_rail", ("host-003", "su0-rail5-leaf"))


def test_a_nameless_adapter_may_be_the_missing_one() -> None:
    graph = shapes.rail_optimised()
    key = named(graph, "host-003/mlx5_5")
    nameless = replace(graph.adapters[key], host="", name="")
    (finding,) = checked(replace(graph, adapters=graph.adapters | {key: nameless}))
    assert finding.kind == "unnamed_adapter"


def test_a_host_with_two_adapters_on_one_leaf() -> None:
    graph = shapes.rail_optimised(hosts=12)
    adapter, leaf, other = (
        named(graph, name) for name in ("host-003/mlx5_5", "su0-rail5-leaf", "su0-rail4-leaf")
    )
    moved = without(graph, between(adapter, leaf))
    extra = cable(End(adapter, 1), End(other, 60), graph.cables[0].rate, 4)
    found = checked(replace(moved, cables=(*moved.cables, extra)))
    assert {finding.kind for finding in found} == {"missing_rail", "twice_on_leaf", "impure_rail"}
    (twice,) = [finding for finding in found if finding.kind == "twice_on_leaf"]
    assert twice.components == ("su0-rail4-leaf", "host-003/mlx5_4", "host-003/mlx5_5")


def test_an_adapter_that_lost_one_of_two_leaves() -> None:
    graph = shapes.dual_tor()
    (finding,) = checked(without(graph, between(named(graph, "host-003/mlx5_5"), named(graph, "su0-rail5b-leaf"))))
    assert (finding.kind, finding.components) == ("lost_leg", ("host-003/mlx5_5",))


def test_a_cable_between_two_leaves() -> None:
    graph = shapes.fat_tree(16)
    one, other = named(graph, "leaf-000"), named(graph, "leaf-001")
    found = checked(replace(graph, cables=(*graph.cables, cable(End(one, 60), End(other, 60), 5e10, 4))))
    assert [(finding.kind, len(finding.components)) for finding in found] == [("cross_link", 1)]


def test_uplinks_that_are_all_there_but_not_even() -> None:
    graph = shapes.rail_optimised(parallel=2)
    leaf, one, other = (named(graph, name) for name in ("su0-rail5-leaf", "spine-000", "spine-001"))
    link = next(c for c in graph.cables if {c.a.node, c.b.node} == {leaf, one})
    end = link.a if link.a.node == leaf else link.b
    moved = tuple(c for c in graph.cables if c is not link)
    found = checked(replace(graph, cables=(*moved, cable(end, End(other, 64), link.rate, 4))))
    assert [(finding.kind, finding.components) for finding in found] == [("uneven_uplinks", ("su0-rail5-leaf",))]
    assert "spine-000 1, spine-001 3" in found[0].why


def test_planes_that_are_not_equal() -> None:
    graph = shapes.rail_optimised(2, 12, 8, 0)
    adapter = named(graph, "host-003/mlx5_5")
    found = checked(without(graph, lambda link: adapter in (link.a.node, link.b.node)))
    assert {finding.kind for finding in found} == {"missing_rail", "uneven_planes"}


def test_switches_of_which_most_pairs_are_not_connected_are_no_group() -> None:
    """Ten pairs of a group of eight are: what many cables join need not be meant as one group."""
    graph = shapes.dragonfly(9, 8, 2, 2)
    ring = {frozenset((named(graph, f"g0-s{at}"), named(graph, f"g0-s{to}"))) for at in range(8) for to in range(8)
            if (to - at) % 8 == 1 or (at, to) in ((0, 4), (2, 6))}  # fmt: skip
    inside = {named(graph, f"g0-s{at}") for at in range(8)}
    sparse = without(graph, lambda link: {link.a.node, link.b.node} <= inside
                     and frozenset((link.a.node, link.b.node)) not in ring)  # fmt: skip
    assert "lost_local_link" not in {finding.kind for finding in checked(sparse)}


def test_groups_of_a_dragonfly_that_lost_cables() -> None:
    graph = shapes.dragonfly(9, 8, 2, 2)
    near, far = (named(graph, name) for name in ("g0-s0", "g0-s1"))
    found = checked(without(graph, between(near, far)))
    assert [(finding.kind, finding.components) for finding in found] == [("lost_local_link", ("g0-s0 - g0-s1",))]
    lost = next(
        link for link in graph.cables
        if {graph.name(link.a.node)[:2], graph.name(link.b.node)[:2]} == {"g3", "g7"}
    )  # fmt: skip
    found = checked(without(graph, lambda link: link is lost))
    assert [(finding.kind, finding.components) for finding in found] == [("lost_global_links", ("g3-s0", "g7-s0"))]


@pytest.mark.parametrize(("pairs", "told"), [(4, 4), (25, 0)])
def test_groups_of_which_more_than_one_pair_each_has_fewer_cables_are_so_by_design(pairs: int, told: int) -> None:
    """Ports that cannot be divided evenly among the other groups."""
    graph = shapes.dragonfly(17, 16, 1, 1)
    one_each: dict[frozenset[str], object] = {}
    for link in graph.cables:
        groups = frozenset(graph.name(end.node).partition("-")[0] for end in (link.a, link.b))
        if len(groups) == 2 and all(graph.name(end.node)[0] == "g" for end in (link.a, link.b)):
            one_each.setdefault(groups, link)
    gone = list(one_each.values())[:pairs]
    found = checked(without(graph, lambda link: any(link is one for one in gone)))
    assert [finding.kind for finding in found] == ["lost_global_links"] * told


def test_groups_of_a_dragonfly_plus_that_lost_cables() -> None:
    graph = shapes.dragonfly_plus(6)
    lost = next(
        link for link in graph.cables
        if {graph.name(link.a.node)[:2], graph.name(link.b.node)[:2]} == {"g1", "g2"}
    )  # fmt: skip
    found = checked(without(graph, lambda link: link is lost))
    assert [finding.kind for finding in found] == ["lost_global_links"]


def test_a_torus_that_lost_a_neighbour_and_a_cable() -> None:
    graph = shapes.torus3d(6, 6, 4, parallel=2)
    one, other = named(graph, "sw-0-0-0"), named(graph, "sw-5-0-0")
    (gone,) = checked(without(graph, between(one, other)))
    assert (gone.kind, gone.components) == ("missing_neighbour", ("sw-0-0-0", "sw-5-0-0"))
    first = next(link for link in graph.cables if {link.a.node, link.b.node} == {one, other})
    (thin,) = checked(without(graph, lambda link: link is first))
    assert (thin.kind, thin.components) == ("thin_trunk", ("sw-0-0-0 - sw-5-0-0",))


def test_a_gpu_that_lost_an_nvlink() -> None:
    graph = shapes.nvl72()
    gpu = "rack0-tray05/gpu2"
    lost = next(link for link in graph.cables if gpu in (link.a.node, link.b.node))
    (finding,) = checked(without(graph, lambda link: link is lost))
    assert (finding.kind, finding.components) == ("missing_nvlink", (gpu,))


def test_a_rack_that_lacks_gpus() -> None:
    graph = shapes.nvl72(3)
    gone = {key for key in graph.adapters if key.startswith("rack1-tray05/gpu")}
    less = replace(graph, adapters={k: a for k, a in graph.adapters.items() if k not in gone})
    found = checked(without(less, lambda link: bool(gone & {link.a.node, link.b.node})))
    assert [(finding.kind, finding.components) for finding in found] == [("small_nvlink_domain", ("rack1-nvsw0-0",))]


@pytest.mark.parametrize(("stated", "odd"), [("torus 4x4x4", False), ("torus 8x4x2", True), ("mesh 4x4x4", True)])
def test_a_stated_shape_is_compared_with_the_cables(stated: str, odd: bool) -> None:
    found = checked(replace(shapes.torus3d(4, 4, 4), stated={"shape": stated}))
    assert [finding.kind for finding in found] == ["unlike_stated"] * odd
