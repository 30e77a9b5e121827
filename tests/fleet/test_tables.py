"""Where values land, what stays when an inventory changes, what a new epoch is."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.frame import Frame, decode, encode_delta, encode_full
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Presence, Snapshot
from tests.fleet.site import Site, port_part

ERRORS = ("symbol_errors", "link_downed")


def test_collectors_meet_in_one_row() -> None:
    site = Site()
    site.inventory(
        "a",
        port_part("infiniband", ERRORS, "mlx5_0/1", "mlx5_1/1", device="x"),
        port_part("ethernet", ("carrier",), "mlx5_1/1", "eth0", netdev="y"),
    )
    site.send("a", {("mlx5_1/1", "symbol_errors"): 7.0, ("mlx5_1/1", "carrier"): 1.0, ("eth0", "carrier"): 1.0}, 10.0)
    view = site.tick()
    row = site.row("a", "mlx5_1/1")
    assert view.value("symbol_errors")[row] == 7.0
    assert view.value("carrier")[row] == 1.0
    assert view.table.labels[row] == {"device": "x", "netdev": "y"}
    assert math.isnan(view.value("carrier")[site.row("a", "mlx5_0/1")])
    assert math.isnan(view.value("symbol_errors")[site.row("a", "eth0")])
    assert view.n == 3


def test_a_cell_two_parts_deliver_belongs_to_the_quicker_one() -> None:
    site = Site()
    site.inventory(
        "a",
        port_part("infiniband", ERRORS, "p", period=10.0),
        port_part("infiniband_state", ("link_downed",), "p", period=1.0),
    )
    inventory = site.inventories["a"]
    frame = Frame(inventory.id, 1, 0.0, np.array([5.0, 14.0]), None, np.array([1.0, 3.0, 4.0]))
    site.fleet.frame("a", frame, site.now)
    view = site.tick()
    assert view.value("link_downed")[site.row("a", "p")] == 4.0
    frame = Frame(inventory.id, 2, 0.0, np.array([15.0, 14.0]), np.array([1], np.uint32), np.array([3.0]))
    site.fleet.frame("a", frame, site.now)
    assert site.tick(1.0).value("link_downed")[site.row("a", "p")] == 4.0


names = st.lists(st.sampled_from([f"p{i}" for i in range(6)]), unique=True, max_size=6)
columns = st.lists(
    st.sampled_from(["symbol_errors", "link_downed", "xmit", "raw:x/y", "state"]), unique=True, max_size=5
)


@settings(max_examples=60)
@given(st.data())
def test_a_frame_over_the_wire_lands_where_its_names_say(data: st.DataObject) -> None:
    """Any shapes, any values, full then difference, while the table grows and inventories change."""
    fleet, want = Fleet(), {}
    for number in range(data.draw(st.integers(1, 4))):
        node = f"n{number % 2}"
        shape, used = [], {}
        for kind in data.draw(st.lists(st.sampled_from([Kind.PORT, Kind.GPU]), min_size=1, max_size=3)):
            cols = tuple(c for c in data.draw(columns) if c not in used.get(kind, set()))
            used[kind] = used.get(kind, set()) | set(cols)
            parts = tuple(Component(n) for n in data.draw(names))
            shape.append(Part(f"c{len(shape)}", kind, cols, parts, 1.0))
        inventory = Inventory(number, Identity(node, "b", node, "1", 0.0), tuple(shape))
        fleet.inventory(node, inventory, float(number))
        numbers = st.floats(allow_nan=True, allow_infinity=False, width=32)
        cells = data.draw(st.lists(numbers, min_size=inventory.size, max_size=inventory.size))
        later = data.draw(st.lists(numbers, min_size=inventory.size, max_size=inventory.size))
        first = Snapshot(inventory, 1, 0.0, [1.0] * len(shape), array("d", cells))
        second = Snapshot(inventory, 2, 0.0, [2.0] * len(shape), array("d", later))
        assert fleet.frame(node, decode(encode_full(first)), float(number))
        delta = decode(encode_delta(second, first.values, first.taken))
        assert fleet.frame(node, delta, float(number))
        fleet.advance(float(number))
        want = {key: value for key, value in want.items() if key[1] != node}
        at = 0
        for piece in shape:
            for component in piece.components:
                for column in piece.columns:
                    want[piece.kind, node, component.name, column] = later[at]
                    at += 1
    for kind in (Kind.PORT, Kind.GPU):
        table = fleet.tables[kind]
        view = View(table, 9.0)
        for column in table.columns:
            for row, component in enumerate(table.ids):
                expected = want.get((kind, component.node, component.name, column), math.nan)
                found = view.value(column)[row]
                assert found == expected or (math.isnan(found) and math.isnan(expected)), (component, column)


def test_growing_keeps_every_value() -> None:
    site = Site()
    for i in range(150):
        site.inventory(f"n{i}", port_part("infiniband", ERRORS, "p0", "p1"))
        site.send(f"n{i}", {("p1", "symbol_errors"): float(i)}, 1.0)
    view = site.tick()
    assert [view.value("symbol_errors")[site.row(f"n{i}", "p1")] for i in range(150)] == [float(i) for i in range(150)]


def test_a_table_grows_once_for_an_inventory_and_not_far_beyond_it() -> None:
    site = Site()
    table = site.fleet.tables[Kind.PORT]
    for node, rows in (("a", 500), ("b", 6000)):
        version = table.version
        site.inventory(node, port_part("c", ("xmit",), *(f"p{n}" for n in range(rows))))
        assert table.version == version + 1
        assert table.n <= table.capacity <= 1.2 * table.n
    version = table.version
    site.inventory("b", port_part("c", ("xmit",), *(f"q{n}" for n in range(6000))))
    assert table.version == version, "rows of what left are used again"


def test_history_stays_when_the_inventory_changes() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p", "q"))
    site.send("a", {("p", "symbol_errors"): 5.0}, 10.0)
    site.tick()
    site.inventory("a", port_part("infiniband", (*ERRORS, "rcv_errors"), "new", "p"))
    site.now += 10
    site.send("a", {("p", "symbol_errors"): 9.0}, 20.0)
    view = site.tick()
    row = site.row("a", "p")
    assert view.delta("symbol_errors")[row] == 4.0
    assert view.dt("symbol_errors")[row] == 10.0
    gone = site.row("a", "q")
    assert not view.present[gone]
    assert view.table.gone[gone] == site.now - 10
    assert math.isnan(view.value("symbol_errors")[gone])


def test_the_node_s_clock_makes_rates_and_the_server_s_clock_makes_age() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {}, 1000.0)
    site.tick()
    site.now -= 3600  # the server's clock steps back
    site.send("a", {("p", "symbol_errors"): 3.0}, 1010.0)
    view = site.tick()
    assert view.dt("symbol_errors")[0] == 10.0
    assert view.delta("symbol_errors")[0] == 3.0
    assert view.age("symbol_errors")[0] == 0.0
    assert site.tick(31.0).fresh("symbol_errors")[0] is np.False_


def test_reboot_is_a_new_baseline() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {("p", "link_downed"): 9.0}, 5000.0)
    site.tick()
    site.now += 300
    site.inventory("a", port_part("infiniband", ERRORS, "p"), boot="boot-2", started=2.0)
    site.send("a", {("p", "link_downed"): 2.0}, 20.0)
    view = site.tick()
    assert math.isnan(view.rise("link_downed")[0])
    assert view.table.begun[0] == site.now
    site.send("a", {("p", "link_downed"): 3.0}, 30.0)
    assert site.tick(10.0).delta("link_downed")[0] == 1.0


def test_agent_restart_is_no_new_baseline() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {("p", "link_downed"): 9.0}, 5000.0)
    site.tick()
    site.inventory("a", port_part("infiniband", ERRORS, "p"), started=2.0)
    site.send("a", {("p", "link_downed"): 10.0}, 5010.0)
    assert site.tick(10.0).delta("link_downed")[0] == 1.0


def test_another_card_in_the_slot_is_a_new_baseline() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p", node_guid="1"))
    site.send("a", {("p", "symbol_errors"): 9.0}, 10.0)
    site.tick()
    site.inventory("a", port_part("infiniband", ERRORS, "p", node_guid="2"))
    site.send("a", {("p", "symbol_errors"): 500.0}, 20.0)
    assert math.isnan(site.tick(10.0).rise("symbol_errors")[0])


def test_all_counters_fallen_is_a_new_epoch_and_one_fallen_is_a_reset() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p", "q"))
    site.send("a", {("p", "symbol_errors"): 9.0, ("p", "link_downed"): 4.0}, 10.0, default=8.0)
    site.tick()
    site.send("a", {("q", "symbol_errors"): 2.0, ("q", "link_downed"): 8.0}, 20.0, default=1.0)
    view = site.tick(10.0)
    p, q = site.row("a", "p"), site.row("a", "q")
    assert view.marks("link_downed")[p] == Mark.EPOCH
    assert math.isnan(view.rise("link_downed")[p])
    assert view.marks("symbol_errors")[q] == Mark.RESET
    assert view.rise("symbol_errors")[q] == 2.0
    assert math.isnan(view.delta("symbol_errors")[q])
    assert view.table.reset[p] == view.table.reset[q] == site.now


def test_a_failed_read_in_between_loses_no_count() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {("p", "link_downed"): 1.0}, 10.0)
    site.tick()
    site.send("a", {("p", "link_downed"): math.nan}, 20.0)
    view = site.tick(10.0)
    assert view.marks("link_downed")[0] == Mark.LOST
    site.send("a", {("p", "link_downed"): 3.0}, 30.0)
    view = site.tick(10.0)
    assert view.rise("link_downed")[0] == 2.0
    assert math.isnan(view.delta("link_downed")[0])


def test_a_frame_that_does_not_fit_costs_only_itself() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {}, 10.0)
    one = np.array([1.0])
    assert not site.fleet.frame("a", Frame(99, 1, 0.0, one, None, np.zeros(2)), site.now)
    assert not site.fleet.frame("stranger", Frame(1, 1, 0.0, one, None, np.zeros(2)), site.now)
    with pytest.raises(ValueError, match=r"^a: frame 1 has 3 values, its inventory 2"):
        site.fleet.frame("a", Frame(1, 1, 0.0, one, None, np.zeros(3)), site.now)
    with pytest.raises(ValueError, match=r"^a: frame 1 has 2 part times, its inventory 1"):
        site.fleet.frame("a", Frame(1, 1, 0.0, np.ones(2), None, np.zeros(2)), site.now)
    with pytest.raises(ValueError, match=r"^a: frame 1 does not fit"):
        site.fleet.frame("a", Frame(1, 1, 0.0, one, np.array([7], np.uint32), one), site.now)


def test_a_forgotten_node_leaves_nothing_and_its_rows_are_used_again() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"))
    site.send("a", {("p", "link_downed"): 7.0}, 10.0)
    site.tick()
    generation = int(site.fleet.tables[Kind.PORT].generation[0])
    site.fleet.forget("a")
    site.fleet.forget("a")
    assert site.fleet.tables[Kind.PORT].row(ComponentId(Kind.PORT, "a", "p")) is None
    site.inventory("b", port_part("infiniband", ERRORS, "x"))
    view = site.tick()
    assert site.row("b", "x") == 0
    assert view.n == 1
    assert math.isnan(view.value("link_downed")[0])
    assert view.table.generation[0] > generation
    site.send("b", {("x", "link_downed"): 9.0}, 10.0)
    assert math.isnan(site.tick(1.0).rise("link_downed")[0])


def test_the_same_hardware_under_a_new_name_keeps_its_row() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "mlx5_0/1", node_guid="g", port="1"))
    site.send("a", {("mlx5_0/1", "link_downed"): 3.0}, 10.0)
    before = site.tick().table.changes
    site.inventory("a", port_part("infiniband", ERRORS, "rocep1s0/1", node_guid="g", port="1"))
    site.send("a", {("rocep1s0/1", "link_downed"): 4.0}, 20.0)
    view = site.tick(10.0)
    assert view.n == 1
    assert view.rise("link_downed")[site.row("a", "rocep1s0/1")] == 1.0
    assert view.table.changes > before, "what was worked out from the names is worked out again"


def test_a_node_is_known_before_its_first_frame() -> None:
    site = Site()
    site.fleet.presence("a", Presence.UNREACHABLE, "no route to host", site.now)
    node = site.fleet.nodes["a"]
    assert (node.presence, node.detail) == (Presence.UNREACHABLE, "no route to host")
    assert site.fleet.tables[Kind.NODE].row(ComponentId(Kind.NODE, "a", "")) == node.row


def test_a_collector_switched_off_is_no_vanished_hardware() -> None:
    site = Site()
    both = port_part("infiniband", ERRORS, "p"), port_part("ethernet", ("carrier",), "eth0")
    site.inventory("a", *both)
    site.send("a", {}, 10.0)
    site.tick()
    site.inventory("a", both[1], started=2.0)
    table = site.fleet.tables[Kind.PORT]
    assert not table.present[site.row("a", "p")]
    assert math.isnan(table.gone[site.row("a", "p")])
