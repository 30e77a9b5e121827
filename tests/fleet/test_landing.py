"""Where values land: every value of any parts in the cell of its component and column, sent whole or in differences."""

from __future__ import annotations

import math
import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.layout import LARGEST, LAYOUTS, Layouts
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Presence

NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)
COLUMNS = st.lists(st.sampled_from(["symbol_errors", "link_downed", "", "gpu_ecc", "state"]), unique=True, max_size=4)
PARTS = st.lists(
    st.builds(
        lambda number, kind, columns, names, period: (f"collector{number}", kind, tuple(columns), tuple(names), period),
        st.integers(0, 2), st.sampled_from([Kind.PORT, Kind.GPU]), COLUMNS, NAMES, st.sampled_from([1.0, 10.0]),
    ),
    max_size=5,
)  # fmt: skip
NOW = 1_700_000_000.0


def enter(fleet: Fleet, node: str, parts: list, id: int = 1) -> Inventory:
    made = tuple(
        Part(of, kind, columns, tuple(map(Component, names)), pace) for of, kind, columns, names, pace in parts
    )
    inventory = Inventory(id, Identity(node, "boot", node, "1", 1.0), made)
    fleet.inventory(node, inventory, NOW)
    return inventory


def expected(inventory: Inventory, values: list[float]) -> dict[tuple[Kind, str, str], float]:
    """Cell -> value: of the part that is read most often, the first of equals."""
    found: dict[tuple[Kind, str, str], tuple[float, float]] = {}
    left = iter(values)
    for part in inventory.parts:
        for component in part.components:
            for column in part.columns:
                value, cell = next(left), (part.kind, component.name, column)
                if column and (cell not in found or part.period < found[cell][0]):
                    found[cell] = part.period, value
    return {cell: value for cell, (_, value) in found.items()}


def cells(fleet: Fleet, node: str, wanted: dict[tuple[Kind, str, str], float]) -> dict[tuple[Kind, str, str], float]:
    found = {}
    for kind, name, column in wanted:
        table = fleet.tables[kind]
        row = table.row(ComponentId(kind, node, name))
        assert row is not None
        found[kind, name, column] = float(table.value(column)[row])
    return found


@given(st.lists(PARTS, min_size=1, max_size=4), st.data())
def test_values_land_in_their_cells_whole_or_as_differences(shapes: list, data: st.DataObject) -> None:
    fleet = Fleet()
    nodes = [f"n{at}" for at in range(2 * len(shapes))]
    inventories = [enter(fleet, node, shapes[at % len(shapes)]) for at, node in enumerate(nodes)]
    for at in range(70):  # the tables grow: cells move
        enter(fleet, f"more{at}", [("collector0", Kind.PORT, ("state",), ("a", "b"), 1.0)])
    for number, (node, inventory) in enumerate(zip(nodes, inventories, strict=True)):
        size, taken = inventory.size, np.zeros(len(inventory.parts))
        before = [1000.0 * number + place for place in range(size)]
        fleet.frame(node, Frame(1, 1, NOW, taken, None, np.array(before)), NOW)
        turned = data.draw(st.lists(st.integers(0, size - 1), unique=True) if size else st.just([]))
        after = before.copy()
        for place in turned:
            after[place] = -before[place] - 1.0
        index = np.array(turned, np.uint32)
        fleet.frame(node, Frame(1, 2, NOW, taken, index, np.array([after[place] for place in turned])), NOW)
        wanted = expected(inventory, after)
        assert cells(fleet, node, wanted) == wanted
        newest = fleet.newest(node, NOW)
        assert newest is not None
        assert all(math.isnan(value) or value == after[place] for place, value in enumerate(newest.values))
    for number, (node, inventory) in enumerate(zip(nodes, inventories, strict=True)):  # none wrote over another's
        found = cells(fleet, node, expected(inventory, [0.0] * inventory.size)).values()
        assert all(1000.0 * number <= max(value, -value - 1.0) < 1000.0 * number + 1000.0 for value in found)


def test_a_table_grows_once_to_what_all_nodes_will_need_and_values_land_after_it() -> None:
    fleet, ports = Fleet(), [("collector0", Kind.PORT, ("state",), tuple(f"p{n}" for n in range(40)), 1.0)]
    names = [f"node{n}" for n in range(64)]
    for name in names:
        fleet.presence(name, Presence.NEVER, "", NOW)
    table, capacities = fleet.tables[Kind.PORT], []
    for at, name in enumerate(names, 1):
        inventory = enter(fleet, name, ports)
        capacities.append(table.capacity)
        for each in {names[0], name}:
            fleet.frame(each, Frame(inventory.id, 1, NOW, np.ones(1), None, np.full(40, float(at)), 40), NOW)
    assert 64 * 40 <= table.capacity <= 64 * 40 * 5 // 4
    assert len(set(capacities[9:])) <= 2
    for at, name in enumerate(names, 1):
        row = table.row(ComponentId(Kind.PORT, name, "p39"))
        assert table.value("state")[row] == (at if at > 1 else 64)


def test_no_node_makes_a_table_larger_than_what_it_sends_and_others_usually_do() -> None:
    fleet, many = Fleet(), tuple(f"p{n}" for n in range(2000))
    for number in range(1000):
        fleet.presence(f"node{number}", Presence.NEVER, "", NOW)
    for number in range(126):
        names = many if number == 125 else many[:1]
        enter(fleet, f"node{number}", [("collector0", Kind.PORT, ("state",), names, 1.0)])
    assert fleet.tables[Kind.PORT].capacity <= 2 * 2126


def test_a_layout_that_is_known_lands_right_after_columns_came_and_went() -> None:
    fleet = Fleet()
    link = [("infiniband", Kind.PORT, ("rcv", "xmit"), ("p", "q"), 10.0)]
    other = [("roce", Kind.PORT, ("rate", "width"), ("p",), 10.0)]
    for turn, (node, parts) in enumerate((("a", link), ("b", other), ("c", link), ("d", other), ("e", link))):
        inventory = enter(fleet, node, parts)
        values = [10.0 * turn + n for n in range(inventory.size)]
        assert fleet.frame(node, Frame(1, 1, NOW, np.zeros(1), None, np.array(values)), NOW)
        wanted = expected(inventory, values)
        assert cells(fleet, node, wanted) == wanted
        if node in "abc":  # its columns leave with it, and others get their numbers
            fleet.forget(node)
    assert fleet.tables[Kind.PORT].columns.keys() == {"rcv", "xmit", "rate", "width"}


def test_layouts_of_many_shapes_are_bounded() -> None:
    layouts = Layouts(Fleet().tables)
    shapes = [[Part("infiniband", Kind.PORT, ("rcv",), (Component(f"p{n}"),))] for n in range(LAYOUTS + 9)]
    shapes += [[Part("infiniband", Kind.PORT, ("rcv",), tuple(Component(f"{n}") for n in range(LARGEST // 64)))]]
    kept = [weakref.ref(layouts.of(parts)) for parts in shapes]
    assert sum(one() is not None for one in kept) <= LAYOUTS
    assert kept[-1]() is None
    assert layouts.of(shapes[-2]) is kept[-2]()
