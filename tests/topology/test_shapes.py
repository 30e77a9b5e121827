"""Which shape a fabric has: every shape is told from its cables alone, also with some of them gone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fabricmon.sim import shapes
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Graph, Switch, trunk
from fabricmon.topology.shape import recognise

BUILT: dict[str, tuple[Callable[[], Graph], str]] = {
    "two tiers": (lambda: shapes.fat_tree(8), "two-level fat tree"),
    "three tiers": (lambda: shapes.fat_tree(8, 3), "three-level fat tree"),
    "rails": (shapes.rail_optimised, "rail-optimised two-level fat tree, single ToR"),
    "dual ToR": (shapes.dual_tor, "rail-optimised two-level fat tree, dual ToR"),
    "rail-only": (lambda: shapes.rail_optimised(spines=0), "rail-only, 8 separate rails"),
    "dragonfly": (lambda: shapes.dragonfly(9, 8, 2), "dragonfly"),
    "dragonfly, few groups": (lambda: shapes.dragonfly(3, 8, 2, 4), "dragonfly"),
    "balanced dragonfly": (lambda: shapes.dragonfly(73, 8, 1), "dragonfly"),
    "dragonfly of small groups": (lambda: shapes.dragonfly(50, 6, 1), "dragonfly"),
    "dragonfly+": (shapes.dragonfly_plus, "dragonfly+"),
    "full mesh": (lambda: shapes.dragonfly(1, 6, 2), "full mesh"),
    "torus": (lambda: shapes.torus3d(8, 8, 4), "3D torus 8x8x4"),
    "torus of rings of four": (lambda: shapes.torus3d(4, 4, 4), "3D torus 4x4x4"),
    "torus of rings of three": (lambda: shapes.torus3d(3, 3, 3), "3D torus 3x3x3"),
    "uneven torus": (lambda: shapes.torus3d(7, 6, 5, 2, parallel=3), "3D torus 7x6x5"),
    "2D torus": (lambda: shapes.torus3d(6, 6, 1), "2D torus 6x6"),
    "mesh": (lambda: shapes.torus3d(5, 4, 3, closed=False), "3D mesh 5x4x3"),
    "ring": (lambda: shapes.torus3d(12, 1, 1), "ring of 12"),
    "star": (lambda: shapes.rail_optimised(1, 8, 1, 0), "star: one switch"),
    "nvl72": (lambda: shapes.nvl72(2), "rail-optimised two-level fat tree, single ToR"),
}


def unlabelled(graph: Graph) -> Graph:
    """As a discovery has it."""
    switches = {
        key: replace(switch, level=-1, labels={k: v for k, v in switch.labels.items() if k == "network"})
        for key, switch in graph.switches.items()
    }
    return infer.annotate(replace(graph, switches=switches, hosts={}))


def cut(graph: Graph, share: float, seed: int) -> Graph:
    """Without some of the cables between switches."""
    dice = random.Random(seed)
    cables = tuple(
        link for link in graph.cables
        if not {link.a.node, link.b.node} <= graph.switches.keys() or dice.random() > share
    )  # fmt: skip
    return infer.annotate(replace(graph, cables=cables))


@pytest.mark.parametrize("name", BUILT)
def test_a_sound_fabric_is_reported_for_sure_and_has_nothing_odd(name: str) -> None:
    build, words = BUILT[name]
    graph = unlabelled(build())
    shape = recognise(graph)[0]
    assert (shape.name, shape.confidence) == (words, 1.0)
    assert findings.check(graph).findings == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name in BUILT if name not in ("star", "rail-only", "mesh", "ring")])
def test_a_fabric_that_lost_some_cables_is_reported_less_surely(name: str, seed: int) -> None:
    build, words = BUILT[name]
    shape = recognise(cut(unlabelled(build()), 0.02, seed))[0]
    assert shape.name == words
    assert 0.5 <= shape.confidence <= 1.0


@pytest.mark.parametrize("seed", range(5))
def test_cables_without_order_are_no_known_shape(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"s{n}" for n in range(40)]
    graph = Graph(
        {name: Switch(name, name) for name in names}, {}, (),
        attached={f"h{n}": (names[n],) for n in range(40)},
        trunks=tuple(sorted({trunk(*dice.sample(names, 2)) for _ in range(120)})),
    )  # fmt: skip
    shape = recognise(infer.annotate(graph))[0]
    assert shape.kind == "irregular"
    assert shape.confidence > 0.5


def test_nvlink_is_a_shape_beside_the_network() -> None:
    network, scale_up = recognise(shapes.nvl72(3))
    assert network.kind == "rail-optimised"
    assert (scale_up.name, scale_up.confidence) == ("NVL72, 3 racks", 1.0)
    assert scale_up.details == {"domains": "3", "gpus": "216", "chips": "54"}


def test_an_nvl72_rack_has_1296_links() -> None:
    graph = shapes.nvl72()
    chips = {switch.id for switch in graph.switches.values() if infer.is_nvlink(switch)}
    assert sum(bool({link.a.node, link.b.node} & chips) for link in graph.cables) == 1296


def test_a_cloud_tells_layers_but_no_cables() -> None:
    shape = recognise(shapes.efa())[0]
    assert shape.name == "three-level fat tree"
    assert shape.confidence == pytest.approx(0.8)
    assert "no cable is known" in shape.why


def test_no_switch_is_hardly_a_shape() -> None:
    shape = recognise(Graph({}, {}, (), {"h1": {}}))[0]
    assert (shape.kind, shape.confidence) == ("flat", 0.3)
    assert recognise(Graph({}, {}, (), stated={"shape": "flat"}))[0].confidence == 1.0


def test_two_subnets_that_share_hosts_are_two_networks() -> None:
    compute = shapes.rail_optimised(2, 8, 4, 4)
    storage = shapes.fat_tree(4)
    names = sorted(compute.hosts)
    adapters = {
        f"s{key}": replace(a, id=f"s{key}", host=names[n], name="mlx5_8")
        for n, (key, a) in enumerate(storage.adapters.items())
    }
    moved = {key: f"s{key}" for key in (*storage.adapters, *storage.switches)}
    cables = tuple(
        replace(c, a=replace(c.a, node=moved[c.a.node]), b=replace(c.b, node=moved[c.b.node])) for c in storage.cables
    )
    switches = {moved[key]: replace(switch, id=moved[key]) for key, switch in storage.switches.items()}
    both = infer.annotate(
        Graph(compute.switches | switches, compute.adapters | adapters, compute.cables + cables, compute.hosts)
    )
    assert [shape.kind for shape in recognise(both)] == ["rail-optimised", "fat-tree"]


def test_a_management_switch_on_top_makes_no_level() -> None:
    graph = shapes.rail_optimised(4, 8, 8, 8)
    spine = next(s.id for s in graph.switches.values() if s.level == 1)
    extra = Switch("mgmt", "mgmt")
    odd = infer.annotate(
        replace(graph, switches=graph.switches | {"mgmt": extra}, trunks=(trunk("mgmt", spine),))
    )
    assert recognise(odd)[0].details["levels"] == "2"


def test_real_fabrics(shared_dir) -> None:  # type: ignore[no-untyped-def]
    from fabricmon import sources

    dumps = shared_dir / "captures/fabric/ibnetdiscover"
    rail = sources.load(str(dumps / "ndr-rail-example.txt")).shapes[0]
    assert (rail.kind, rail.details["levels"], rail.details["tors"]) == ("rail-optimised", "2", "1")
    assert rail.confidence > 0.85
    storage = sources.load(str(dumps / "selene.storage.txt.gz")).shapes[0]
    assert storage.name == "three-level fat tree"
    mesh = sources.load(str(dumps / "qdr-X5.topofile.txt")).shapes[0]
    assert mesh.kind == "irregular"


@pytest.mark.parametrize(
    "build",
    [lambda: shapes.fat_tree(5), lambda: shapes.fat_tree(8, 4), lambda: shapes.torus3d(0, 1, 1),
     lambda: shapes.dragonfly(switches=0), lambda: shapes.rail_optimised(rails=0), lambda: shapes.nvl72(0)],
)  # fmt: skip
def test_a_fabric_of_nothing_is_refused(build: Callable[[], Graph]) -> None:
    with pytest.raises(ValueError):
        build()
