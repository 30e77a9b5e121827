"""What follows from a graph alone is derived once, and never taken for that of another graph."""

from __future__ import annotations

import msgspec
import pytest

from fabricmon.topology import infer
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable, once


def _graph() -> Graph:
    switches = {name: Switch(name, name) for name in ("leaf-1", "leaf-2")}
    adapters = {f"h{n}/mlx5_{n}": Adapter(f"h{n}/mlx5_{n}", f"h{n}", f"mlx5_{n}") for n in range(2)}
    cables = (cable(End("leaf-1", 1), End("h0/mlx5_0", 1)), cable(End("leaf-2", 1), End("h1/mlx5_1", 1)))
    return Graph(switches, adapters, cables)


def test_it_is_derived_once_for_each_graph() -> None:
    asked: list[Graph] = []

    @once
    def size(graph: Graph) -> int:
        asked.append(graph)
        return len(graph.cables)

    first = _graph()
    second = msgspec.structs.replace(first, cables=first.cables[:1])
    assert [size(first), size(second), size(first)] == [2, 1, 2]
    assert len(asked) == 2


@pytest.mark.parametrize("derive", [infer.adapter_ends, infer.neighbours, infer.rail_positions])
def test_a_changed_graph_has_its_own(derive: object) -> None:
    assert callable(derive)
    first = _graph()
    before = derive(first)
    fewer = msgspec.structs.replace(first, switches={}, adapters={}, cables=())
    assert derive(fewer) == {} != before == derive(first)


def test_it_is_no_part_of_the_graph() -> None:
    first, second = _graph(), _graph()
    infer.adapter_ends(first)
    assert first == second
    assert msgspec.msgpack.encode(first) == msgspec.msgpack.encode(second)
    assert vars(msgspec.structs.replace(first)) == {}
