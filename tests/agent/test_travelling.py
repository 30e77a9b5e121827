"""What leaves a node: parts that stay are on its own page and in no frame."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from fabricmon import frame
from fabricmon.agent.readings.state import NodeState
from fabricmon.model import Component, Identity, Kind, Part, Reading

ME = Identity("host-007", "boot", "agent", "1", 1.0)


def part(name: str, rows: int, wire: bool) -> Part:
    components = tuple(Component(f"{name}{n}") for n in range(rows))
    return Part(name, Kind.GPU, ("gpu_nvlinks", "gpu_nvlinks_active"), components, 10.0, wire)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6))
def test_what_travels_is_the_rest_in_its_order(shapes: list[tuple[int, bool]]) -> None:
    state = NodeState(ME, ("a",))
    parts = tuple(part(f"p{n}", rows, wire) for n, (rows, wire) in enumerate(shapes))
    values = array("d", range(sum(p.size for p in parts)))
    state.accept(("a", ""), Reading(parts, values, 5.0), 100.0)
    sent = state.travelling()
    assert sent.inventory.parts == tuple(p for p in parts if p.wire)
    assert sent.inventory.id == state.inventory.id
    assert sent.taken == [5.0] * len(sent.inventory.parts)
    expected, at = array("d"), 0
    for one in parts:
        expected.extend(values[at : at + one.size] if one.wire else ())
        at += one.size
    assert sent.values == expected
    assert frame.decode(frame.encode_full(sent)).values.tolist() == expected.tolist()
    assert state.snapshot.values == values


def test_a_new_reading_travels_under_the_same_inventory() -> None:
    state = NodeState(ME, ("a",))
    parts = (part("stays", 2, False), part("goes", 1, True))
    state.accept(("a", ""), Reading(parts, array("d", [1, 2, 3, 4, 5, 6]), 5.0), 100.0)
    first = state.travelling()
    state.accept(("a", ""), Reading(parts, array("d", [1, 2, 3, 4, 7, 8]), 15.0), 110.0)
    second = state.travelling()
    assert second.inventory is first.inventory
    assert (first.values.tolist(), second.values.tolist()) == ([5, 6], [7, 8])
    assert second.seq > first.seq


def test_where_all_travels_the_inventory_is_the_nodes_own() -> None:
    state = NodeState(ME, ("a",))
    state.accept(("a", ""), Reading((part("goes", 1, True),), array("d", [1, 2]), 5.0), 100.0)
    assert state.travelling().inventory is state.inventory
    state.travelling().values[0] = 9.0
    assert state.snapshot.values[0] == 1.0
