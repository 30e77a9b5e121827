"""What leaves the tables: rows and columns with their node, components that vanished after a time or by number."""

import numpy as np
import pytest

from fabricmon.fleet.facts import SPARE_WORDS
from fabricmon.fleet.membership import GONE_ROWS, GONE_TIME
from fabricmon.model import Component, Kind, Part
from tests.fleet.site import Site, port_part

STATE = ("state", "link_downed")
DAY = 86_400.0


@pytest.fixture
def site():
    return Site()


def ports(site):
    return site.fleet.tables[Kind.PORT]


def used(table):
    return sorted(component.name for component in table.ids if component.node)


def test_columns_leave_with_the_last_node_that_delivers_them(site):
    site.inventory("a", port_part("infiniband_state", STATE, "p1"))
    site.inventory("b", port_part("infiniband_state", STATE, "p1"), port_part("infiniband", ("symbol_errors",), "p1"))
    site.send("b", {("p1", "symbol_errors"): 7.0}, 1.0)
    site.tick()
    table = ports(site)
    assert table.columns.keys() == {*STATE, "symbol_errors"}
    before, at = len(table.by_supply), table.columns["symbol_errors"]
    site.fleet.forget("b")
    assert table.columns.keys() == set(STATE)
    assert (len(table.by_supply), table.read_times("symbol_errors")) == (before - 1, None)
    assert np.isnan(table.cells[at]).all()
    assert np.isnan(table.value("symbol_errors")).all()
    site.inventory("c", port_part("infiniband", ("rcv_errors",), "p1"))
    assert table.columns["rcv_errors"] == at  # its place is used again
    site.tick(1.0)


def test_a_new_inventory_leaves_no_column_of_the_one_before(site):
    for n in range(50):
        site.inventory("a", port_part(f"collector-{n}", (f"raw:x/{n}",), "p1"))
    assert ports(site).columns.keys() == {"raw:x/49"}
    assert len(ports(site).by_supply) == 1
    assert len(ports(site).cells) == 16


def test_who_supplies_a_column_is_exact_after_a_node_left(site):
    """A counter that two collectors deliver on one node only is read, on the others, when their own collector reads."""
    site.inventory("a", port_part("infiniband", ("symbol_errors",), "p1"))
    site.inventory("b", port_part("infiniband_errors", ("symbol_errors",), "p1"))
    table = ports(site)
    both = table.read_times("symbol_errors").sources
    site.send("a", {("p1", "symbol_errors"): 5.0}, 10.0)
    site.tick()
    site.fleet.forget("b")
    times = table.read_times("symbol_errors")
    assert (len(both), len(times.sources)) == (2, 1)
    assert times.seen[site.row("a", "p1")] == 10.0
    site.send("a", {("p1", "symbol_errors"): 8.0}, 20.0)
    site.tick(10.0)
    assert table.delta("symbol_errors")[site.row("a", "p1")] == 3.0


@pytest.mark.parametrize(("removed", "left"), [("", ["mlx5_0/1", "mlx5_1/1"]), ("mlx5_1", ["mlx5_0/1"]),
    ("0000:1b:00.0, gpu7", ["mlx5_0/1"]), ("mlx5_0", ["mlx5_0/1", "mlx5_1/1"])])  # fmt: skip
def test_an_absent_device_that_was_removed_on_purpose_keeps_no_row(site, removed, left):
    own = Part("inventory", Kind.NODE, (), (Component("", {"removed": removed}),))
    first, second = Component("mlx5_0/1", {"device": "mlx5_0"}), Component("mlx5_1/1", {"pci": "0000:1b:00.0"})
    site.inventory("a", own, Part("infiniband_state", Kind.PORT, STATE, (first, second)))
    site.inventory("a", own, Part("infiniband_state", Kind.PORT, STATE, (first,)))
    site.tick()
    assert used(ports(site)) == left
    assert site.fleet.exists("a", "mlx5_1/1", site.now, site.now) == (removed != "mlx5_1")


def test_a_column_without_a_name_lands_nowhere(site):
    site.inventory("a", port_part("infiniband_state", ("state", "", ""), "p1", "p2"))
    site.send("a", {("p1", "state"): 4.0, ("p2", "state"): 1.0, ("p1", ""): 9.0, ("p2", ""): 9.0}, 1.0)
    view = site.tick()
    assert [float(view.value("state")[site.row("a", name)]) for name in ("p1", "p2")] == [4.0, 1.0]
    assert ports(site).columns.keys() == {"state"}
    newest = site.fleet.newest("a", site.now)
    assert newest.values[[0, 3]].tolist() == [4.0, 1.0]
    assert np.isnan(newest.values[[1, 2, 4, 5]]).all()


def test_a_component_that_vanished_leaves_after_its_time(site):
    site.inventory("a", port_part("infiniband_state", STATE, "p1", "p2"))
    site.tick()
    site.inventory("a", port_part("infiniband_state", STATE, "p1"))
    site.tick(GONE_TIME - DAY)
    assert used(ports(site)) == ["p1", "p2"]
    site.tick(2 * DAY)
    assert used(ports(site)) == ["p1"]
    site.inventory("a", port_part("infiniband_state", STATE, "p1", "p2"))
    site.send("a", {}, 1.0)
    site.tick(1.0)
    assert used(ports(site)) == ["p1", "p2"]


def test_new_names_all_the_time_leave_the_newest_only(site):
    site.inventory("b", port_part("infiniband_state", STATE, *(f"p{n}" for n in range(300))))
    site.inventory("b", port_part("infiniband_state", STATE, "p0"))
    for n in range(100):
        site.tick(1.0)
        site.inventory("a", port_part("infiniband_state", STATE, *(f"n{n}_{i}" for i in range(100))))
        site.send("a", {}, float(n))
    gone = [c for c in ports(site).ids if c.node == "a"]
    assert len(gone) == 100 + GONE_ROWS
    assert {c.name.split("_")[0] for c in gone} == {"n96", "n97", "n98", "n99"}
    assert sum(c.node == "b" for c in ports(site).ids) == 1 + GONE_ROWS  # another node's names cost it nothing
    site.fleet.forget("a")
    site.fleet.forget("b")
    assert used(ports(site)) == []
    assert not ports(site).columns


def test_words_of_labels_that_left_are_forgotten(site):
    facts = ports(site).tracks.facts
    for n in range(2 * SPARE_WORDS):
        site.inventory("a", port_part("infiniband_state", STATE, "p1", role=f"role {n}", board=f"board {n}"))
        site.tick(1.0)
    assert len(facts.role_names) + facts.makes <= SPARE_WORDS + 16
    row = site.row("a", "p1")
    assert facts.role[row] == facts.role_names[f"role {2 * SPARE_WORDS - 1}"]
