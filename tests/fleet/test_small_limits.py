"""Small bounds of the fleet's memory, met exactly: rings that go round, times that just count, halves of counters."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fabricmon.fleet import link
from fabricmon.fleet.downs import DEPTH, MOST, Downs
from fabricmon.fleet.fleet import EXPECTED_FOR
from fabricmon.fleet.membership import GONE_TIME
from fabricmon.model import Component, Kind, Part
from tests.fleet.site import Site, port_part

NAN = math.nan

# --- downs of a row


def add(downs: Downs, now: float, *counts: float, row: int = 1, excused: bool = False, episode: float = 60.0) -> None:
    """One tick in which each source reports so many downs of a row."""
    given = np.array([[count] for count in (*counts, 0.0, 0.0)[:3]])
    downs.add(np.array([row]), given, np.array([now]), np.array([excused]), now, episode)


def test_the_newest_downs_stay_in_their_order() -> None:
    downs = Downs(3)
    for number in range(DEPTH + 5):
        add(downs, 100.0 * number, float(number + 1))
    assert downs.of_row(1) == [(100.0 * number, number + 1) for number in range(5, DEPTH + 5)]
    assert downs.of_row(0) == downs.of_row(2) == []


def test_a_row_that_was_not_full_has_its_downs_only() -> None:
    downs = Downs(2)
    add(downs, 1000.0, 2.0)
    add(downs, 2000.0, 1.0)
    assert downs.of_row(1) == [(1000.0, 2), (2000.0, 1)]
    assert (downs.last[0], downs.last[1]) == (pytest.approx(NAN, nan_ok=True), 2000.0)


def test_the_greatest_count_of_an_episode_counts_however_late_its_source_reports() -> None:
    downs = Downs(2)
    add(downs, 1000.0, 1.0, 0.0)
    add(downs, 1060.0, 0.0, 3.0)  # exactly within the episode
    add(downs, 1100.0, 0.0, 0.0, 2.0)
    assert downs.of_row(1) == [(1000.0, 1), (1060.0, 2)]
    add(downs, 1160.1, 0.0, 1.0)  # a new one
    assert downs.of_row(1)[-1] == (1160.1, 1)


def test_excused_downs_are_counted_apart_and_end_no_episode_early() -> None:
    downs = Downs(2)
    add(downs, 1000.0, 2.0, excused=True)
    assert (downs.of_row(1), downs.excused.tolist(), downs.last[1]) == ([], [0, 2], 1000.0)
    add(downs, 1030.0, 0.0, 3.0)
    assert downs.of_row(1) == [(1030.0, 1)], "two of the three were excused"


def test_a_counter_that_jumps_counts_up_to_a_number() -> None:
    downs = Downs(2)
    add(downs, 1000.0, 1e12)
    add(downs, 1001.0, 1e12)
    assert downs.of_row(1) == [(1000.0, MOST)]


# --- which components exist


def test_what_a_component_that_is_not_known_counts_as() -> None:
    """A node of which nothing came since the start counts as there for a while."""
    site = Site()
    fleet, begun = site.fleet, site.now
    fleet.expected_from = begun - 1000.0
    for since, now, there in (
        (begun, begun + EXPECTED_FOR - 0.1, True),
        (begun, begun + EXPECTED_FOR, False),
        (begun - 5000.0, begun - 1000.0 + EXPECTED_FOR - 0.1, True),
        (begun - 5000.0, begun - 1000.0 + EXPECTED_FOR, False),
    ):
        assert fleet.exists("gone", "mlx5_0/1", since, now) is there, (since, now)


def test_a_component_that_left_exists_for_a_while() -> None:
    site = Site()
    site.inventory("a", port_part("x", ("state",), "mlx5_0/1"))
    site.tick()
    since, exists = site.now, site.fleet.exists
    assert exists("a", "mlx5_0/1", since, since + 10 * GONE_TIME), "it is in the inventory"
    assert exists("a", "", since, since + 10 * GONE_TIME), "the node itself"
    assert exists("a", "mlx5_9/1", since, since + GONE_TIME - 0.1)
    assert not exists("a", "mlx5_9/1", since, since + GONE_TIME)
    assert exists("a", "mlx5_9/1", since + 50.0, since + GONE_TIME), "known since then"


# --- states of links


def state_of(infiniband: bool, state: float, phys: float, carrier: float, oper: float, admin: float) -> int:
    """docs/methods.md#link-state, told for one port."""
    by_state = {1.0: link.DOWN, 2.0: link.INIT, 3.0: link.INIT, 4.0: link.UP, 5.0: link.UP}
    found = by_state.get(state, link.UNKNOWN)
    if found == link.INIT and phys == phys and phys != 5.0:
        found = link.DOWN
    if infiniband:
        return link.ORDERED if found == link.DOWN and phys == 3.0 else found
    if admin == 0.0:
        return link.ORDERED
    if carrier == 0.0:
        return link.DOWN
    if state == state and 0 <= state < 7:
        return found
    by_operstate = {1.0: link.DOWN, 2.0: link.DOWN, 3.0: link.DOWN, 6.0: link.UP}
    return link.UP if carrier == 1.0 else by_operstate.get(oper, link.UNKNOWN)


def test_the_state_of_a_link_from_every_combination_of_its_sources() -> None:
    states, phys = (NAN, -1.0, *map(float, range(9))), (NAN, 2.0, 3.0, 5.0)
    choices = (states, phys, (NAN, 0.0, 1.0), (NAN, *map(float, range(8))), (NAN, 0.0))
    every = list(itertools.product(*choices))
    site = Site()
    names = [f"p{n}" for n in range(len(every))]
    site.inventory("a", Part("x", Kind.PORT, link.COLUMNS, tuple(Component(name) for name in names), 10.0))
    cells = {
        (name, column): value
        for name, values in zip(names, every, strict=True)
        for column, value in zip(link.COLUMNS, values, strict=True)
    }
    site.send("a", cells, 5.0)
    table = site.fleet.tables[Kind.PORT]
    rows = [site.row("a", name) for name in names]
    for infiniband in (True, False):
        found = link.classify(table, np.full(table.n, infiniband))[rows].tolist()
        told = [state_of(infiniband, *values) for values in every]
        wrong = [(values, a, b) for values, a, b in zip(every, found, told, strict=True) if a != b]
        assert wrong == []
