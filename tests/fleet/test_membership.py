"""Rows of a node as its inventories change: what is kept, renamed, dropped, begun anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.fleet.membership import GONE_ROWS, is_removed, serial
from fabricmon.frame import Frame
from fabricmon.model import Component, Kind, Part
from tests.fleet.site import Site, port_part

ERRORS = ("symbol_errors", "link_downed")


def one(name: str, **labels: str) -> Part:
    return port_part("infiniband", ERRORS, name, **labels)


def table_of(site: Site):
    return site.fleet.tables[Kind.PORT]


def names(site: Site) -> list[str]:
    return sorted(component.name for component in table_of(site).ids if component.node)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, ""),
        ({"device": "mlx5_0", "port": "1"}, ""),
        ({"port_guid": "p", "node_guid": "n", "uuid": "u", "port": "2"}, "p/2"),
        ({"node_guid": "n", "uuid": "u", "link": "7"}, "n/7"),
        ({"port_guid": "", "uuid": "u"}, "u/"),
    ],
)
def test_hardware_has_the_finest_name_that_it_reports(labels: dict[str, str], found: str) -> None:
    assert serial(labels) == found


@pytest.mark.parametrize(
    ("name", "labels", "removed", "is_it"),
    [
        ("mlx5_3/1", {}, {"mlx5_3"}, True),
        ("mlx5_3/1", {}, {"mlx5_3/1"}, True),
        ("mlx5_31/1", {}, {"mlx5_3"}, False),
        ("0000:11:00.0", {"owner": "mlx5_3"}, {"mlx5_3"}, True),
        ("p", {"pci": "0000:11:00.0"}, {"0000:11:00.0"}, True),
        ("p", {"netdev": "eth3"}, {"eth4", "eth3"}, True),
        ("p", {"device": "mlx5_3"}, {"mlx5_3"}, True),
        ("p", {"rail": "mlx5_3"}, {"mlx5_3"}, False),
        ("p", {}, set(), False),
    ],
)
def test_what_counts_as_removed_on_purpose(name: str, labels: dict[str, str], removed: set[str], is_it: bool) -> None:
    assert is_removed(name, labels, frozenset(removed)) is is_it


def test_devices_removed_on_purpose_leave_at_once_and_the_rest_stays_as_gone() -> None:
    site = Site()
    node = Part("node", Kind.NODE, ("node_hcas_found",), (Component("", {"removed": "mlx5_1, mlx5_2"}),), 10.0)
    site.inventory("a", port_part("infiniband", ERRORS, "mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1"), node)
    assert len(names(site)) == 4  # what is listed and there is shown
    site.inventory("a", port_part("infiniband", ERRORS, "mlx5_0/1", "mlx5_2/1"), node)
    assert names(site) == ["mlx5_0/1", "mlx5_2/1", "mlx5_3/1"]
    assert [bool(table_of(site).present[site.row("a", n)]) for n in names(site)] == [True, True, False]


def test_a_row_that_left_and_came_back_begins_anew_and_one_that_stayed_does_not() -> None:
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p", "q"))
    site.send("a", {}, 10.0, default=5.0)
    site.tick(10.0)
    site.inventory("a", one("p"))
    site.tick(10.0)
    p, q = site.row("a", "p"), site.row("a", "q")
    left = site.now - 10.0
    assert (table_of(site).left[q], table_of(site).gone[q]) == (left, left)
    begun = table_of(site).begun[p]
    site.inventory("a", port_part("infiniband", ERRORS, "p", "q"))
    site.send("a", {}, 30.0, default=9.0)
    view = site.tick(10.0)
    assert (site.row("a", "p"), site.row("a", "q")) == (p, q)
    assert (view.rise("symbol_errors")[p], math.isnan(view.rise("symbol_errors")[q])) == (4.0, True)
    assert table_of(site).begun[p] != begun  # hardware that comes back begins a time of grace for the whole node
    assert table_of(site).reset[q] == site.now - 10.0
    assert table_of(site).present[q]
    assert math.isnan(table_of(site).gone[q])


@pytest.mark.parametrize(
    ("before", "after", "anew"),
    [
        ({"firmware": "1"}, {"firmware": "2"}, True),
        ({"firmware": "1"}, {"firmware": "1"}, False),
        ({"firmware": "1"}, {}, False),
        ({}, {"firmware": "1"}, False),
        ({"uuid": "u"}, {"uuid": "v"}, True),
        ({"port_guid": "1", "firmware": "1"}, {"port_guid": "2", "firmware": "1"}, True),
        ({"rail": "1"}, {"rail": "2"}, False),
    ],
)
def test_other_hardware_or_firmware_is_a_new_epoch(before: dict[str, str], after: dict[str, str], anew: bool) -> None:
    site = Site()
    site.inventory("a", one("p", **before))
    site.send("a", {}, 10.0, default=5.0)
    site.tick(10.0)
    site.inventory("a", one("p", **after))
    site.send("a", {}, 20.0, default=7.0)
    rise = site.tick(10.0).rise("symbol_errors")[0]
    assert math.isnan(rise) if anew else rise == 2.0
    assert table_of(site).labels[0] == after


@pytest.mark.parametrize("keeps", ["port", "link"])
def test_hardware_under_another_name_is_found_by_its_port_too(keeps: str) -> None:
    """Two ports of one adapter swap the adapter's name, not theirs."""
    site = Site()
    old, new = ([
        Part("infiniband", Kind.PORT, ERRORS, (Component(f"{device}/{n}", {"node_guid": "g", keeps: str(n)}),), 10.0)
        for n in (1, 2)
    ] for device in ("mlx5_0", "rocep1"))  # fmt: skip
    site.inventory("a", *old)
    rows = [site.row("a", "mlx5_0/1"), site.row("a", "mlx5_0/2")]
    site.inventory("a", *new)
    assert [site.row("a", "rocep1/1"), site.row("a", "rocep1/2")] == rows
    assert names(site) == ["rocep1/1", "rocep1/2"]


def test_of_two_that_claim_the_same_hardware_only_one_gets_its_row() -> None:
    site = Site()
    site.inventory("a", one("old/1", node_guid="g", port="1"))
    row = site.row("a", "old/1")
    site.inventory("a", port_part("infiniband", ERRORS, "new/1", "twin/1", node_guid="g", port="1"))
    assert sorted(site.row("a", name) == row for name in ("new/1", "twin/1")) == [False, True]
    assert names(site) == ["new/1", "twin/1"]


def test_a_name_that_is_still_there_is_not_renamed() -> None:
    """The same serial number twice: the second component is a row of its own."""
    site = Site()
    site.inventory("a", one("p", uuid="u"))
    site.inventory("a", one("p", uuid="u"), one("q", uuid="u"))
    assert names(site) == ["p", "q"]
    assert table_of(site).present[[site.row("a", "p"), site.row("a", "q")]].all()


@pytest.mark.parametrize("left", [GONE_ROWS - 1, GONE_ROWS, GONE_ROWS + 1, GONE_ROWS + 5])
def test_the_oldest_of_too_many_rows_that_left_are_dropped(left: int) -> None:
    site = Site()
    every = [f"p{number:03}" for number in range(left)]
    for at, name in enumerate(every):
        site.inventory("a", port_part("infiniband", ERRORS, "stays", *every[at:]))
        assert table_of(site).present[site.row("a", name)]
        site.now += 1.0
    site.inventory("a", one("stays"))
    assert names(site) == sorted([*every[max(0, left - GONE_ROWS) :], "stays"])
    assert table_of(site).present[site.row("a", "stays")]


def test_of_equal_parts_the_first_delivers_a_cell() -> None:
    site = Site()
    site.inventory(
        "a",
        port_part("first", ("link_downed",), "p"),
        port_part("second", ("symbol_errors", "link_downed"), "q", "p"),
    )
    frame = Frame(1, 1, 0.0, np.array([5.0, 5.0]), None, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert site.fleet.frame("a", frame, site.now)
    view = site.tick()
    p, q = site.row("a", "p"), site.row("a", "q")
    assert view.value("link_downed")[[p, q]].tolist() == [1.0, 3.0]
    assert view.value("symbol_errors")[[p, q]].tolist() == [4.0, 2.0]
    shown = site.fleet.newest("a", site.now)
    assert shown is not None
    assert [math.isnan(value) for value in shown.values] == [False, False, False, False, True]


def test_a_column_that_no_part_delivers_any_more_is_unknown_on_that_node_only() -> None:
    site = Site()
    for node in ("a", "b"):
        site.inventory(node, port_part("infiniband", ERRORS, "p"))
        site.send(node, {}, 10.0, default=3.0)
    site.tick()
    site.inventory("a", port_part("infiniband", ("link_downed",), "p"))
    view = site.tick()
    a, b = site.row("a", "p"), site.row("b", "p")
    assert view.value("link_downed")[[a, b]].tolist() == [3.0, 3.0]
    assert [math.isnan(value) for value in view.value("symbol_errors")[[a, b]]] == [True, False]


def test_a_reading_is_as_old_as_the_part_that_supplies_it() -> None:
    """Two parts of one collector: each row has the time of its own."""
    site = Site()
    site.inventory("a", port_part("infiniband", ERRORS, "p"), port_part("infiniband", ERRORS, "q"))
    for taken in ((10.0, 10.0), (20.0, 10.0)):
        site.fleet.frame("a", Frame(1, 1, 0.0, np.array(taken), None, np.zeros(4)), site.now)
        view = site.tick(10.0)
    assert view.age("symbol_errors")[[site.row("a", "p"), site.row("a", "q")]].tolist() == [10.0, 20.0]
