"""Records of a plan that are exchanged: which are put right, and which stay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import sources
from fabricmon.sim.shapes import dual_tor, rail_fabric
from fabricmon.topology.exchanged_records import KIND, put_right
from fabricmon.topology.graph import End, Graph, Origin, Role, cable
from fabricmon.topology.infer import annotate

FABRICS = [annotate(rail_fabric(nodes=32, unit=16)), annotate(dual_tor(units=1, hosts=16))]


def of_hosts(graph: Graph) -> dict[int, tuple[End, End]]:
    """Number of each cable between an adapter and a switch -> these ends."""
    found = {}
    for number, link in enumerate(graph.cables):
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in graph.adapters and far.node in graph.switches:
                found[number] = near, far
    return found


def exchanged(graph: Graph, pairs: Sequence[tuple[int, int]]) -> Graph:
    """The graph with the switch ends of pairs of cables exchanged, one pair after the other."""
    ends, cables = of_hosts(graph), list(graph.cables)
    for one, other in pairs:
        (near, far), (other_near, other_far) = ends[one], ends[other]
        ends[one], ends[other] = (near, other_far), (other_near, far)
    for number in {number for pair in pairs for number in pair}:
        cables[number] = cable(*ends[number])
    return msgspec.structs.replace(graph, cables=tuple(cables))


def joined(graph: Graph) -> set[tuple[End, End]]:
    return {(link.a, link.b) for link in graph.cables}


def numbers(graph: Graph, *ports: str) -> list[int]:
    return [next(n for n, (near, _) in of_hosts(graph).items() if graph.describe(near) == port) for port in ports]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("host-005/mlx5_0/1", "host-006/mlx5_0/1"),
        ("host-005/mlx5_0/1", "host-009/mlx5_0/1"),
        ("host-005/mlx5_0/1", "host-005/mlx5_3/1"),
        ("host-005/mlx5_0/1", "host-025/mlx5_6/1"),
        ("host-000/mlx5_0/1", "host-009/mlx5_0/1"),
    ],
    ids=["next to each other", "one leaf", "one host", "elsewhere", "the first of all"],
)
def test_two_exchanged_records_are_put_right_and_named(one: str, other: str) -> None:
    graph = FABRICS[0]
    wrong = exchanged(graph, [tuple(numbers(graph, one, other))])
    assert joined(wrong) != joined(graph)
    found = put_right(wrong)
    assert joined(found) == joined(graph)
    (finding,) = found.findings[len(wrong.findings) :]
    assert finding.kind == KIND
    assert {one.rpartition("/")[0], other.rpartition("/")[0]} == set(finding.components)
    assert one in finding.why
    assert other in finding.why


def test_what_a_source_saw_on_the_wire_stays() -> None:
    graph = FABRICS[0]
    ends = list(of_hosts(graph))
    wrong = msgspec.structs.replace(exchanged(graph, [(ends[20], ends[40])]), origins=(Origin("sweep", Role.LIVE),))
    assert put_right(wrong) is wrong


@pytest.mark.parametrize("fabric", FABRICS, ids=["rail-optimised", "dual ToR"])
@given(seed=st.integers(0, 2**32), pairs=st.integers(0, 12))
def test_no_right_record_is_made_wrong(fabric: Graph, seed: int, pairs: int) -> None:
    ends, chance = list(of_hosts(fabric)), random.Random(seed)
    wrong = exchanged(fabric, [tuple(chance.sample(ends, 2)) for _ in range(pairs)])  # type: ignore[misc]
    found, true = joined(put_right(wrong)), joined(fabric)
    assert len(found - true) <= len(joined(wrong) - true)
    assert pairs or put_right(wrong) is wrong, "nothing is exchanged in a right map"


@given(st.integers(0, 2**32))
def test_a_map_without_an_order_stays(seed: int) -> None:
    graph, chance = FABRICS[0], random.Random(seed)
    ends = of_hosts(graph)
    far = [end for _, end in ends.values()]
    chance.shuffle(far)
    cables = list(graph.cables)
    for number, there in zip(ends, far, strict=True):
        cables[number] = cable(ends[number][0], there)
    mixed = msgspec.structs.replace(graph, cables=tuple(cables))
    assert put_right(mixed) is mixed


def test_in_a_real_fabric_many_are_found_and_none_where_there_is_none(shared_dir: Path) -> None:
    """1,247 adapters of a storage network that others wired and named; every fortieth record is exchanged."""
    fabric = sources.load(str(shared_dir / "captures/fabric/ibnetdiscover/selene.storage.txt.gz"))
    graph = msgspec.structs.replace(fabric, origins=())
    assert put_right(graph) is graph
    ends = [number for number, (near, _) in of_hosts(graph).items() if graph.adapters[near.node].host]
    some = random.Random(1).sample(ends, len(ends) // 40 * 2)
    wrong = exchanged(graph, list(zip(some[::2], some[1::2], strict=True)))
    true, before, after = joined(graph), joined(wrong), joined(put_right(wrong))
    assert len(after - true) < 0.6 * len(before - true)
    assert len(after - true - before) < 0.01 * len(before - true)
