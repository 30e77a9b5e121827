"""What is kept of the last hours: what moved, gaps as gaps, and no more than there is room for."""

import math

import numpy as np
import pytest

from fabricmon.fleet import closeup, trail
from fabricmon.fleet.closeup import Closeup
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.trail import Trail
from fabricmon.fleet.utilisation import utilisation
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Presence

NOW = 1_790_000_100.0  # the begin of a slot of either
COLUMNS = ("symbol_errors", "rcv_errors", "xmit", "rcv", "state", "rate", "module_temperature")
NAMES = ("mlx5_0/1", "mlx5_1/1")
PORT = ComponentId(Kind.PORT, "a", "mlx5_0/1")


class Node:
    """One node with two ports, read every ten seconds by its own clock."""

    def __init__(self):
        self.fleet = Fleet()
        parts = (Part("infiniband", Kind.PORT, COLUMNS, tuple(Component(n) for n in NAMES), 10.0),)
        self.inventory = Inventory(1, Identity("a", "boot", "a", "1", 0.0), parts)
        self.fleet.presence("a", Presence.LIVE, "", NOW)
        self.fleet.inventory("a", self.inventory, NOW)
        self.values = {"symbol_errors": 7.0, "rcv_errors": 0.0, "xmit": 0.0, "rcv": 0.0, "state": 4.0, "rate": 5e10,
                       "module_temperature": 50.0}  # fmt: skip
        self.seq = 0
        self.taken = 0.0

    def read(self, now, **changes):
        self.values |= changes
        self.seq += 1
        self.taken = now - NOW + 1000.0
        row = [self.values[c] for c in COLUMNS]
        frame = Frame(1, self.seq, now, np.array([self.taken]), None, np.array(row * len(NAMES)))
        assert self.fleet.frame("a", frame, now)
        self.fleet.advance(now)

    @property
    def table(self):
        return self.fleet.tables[Kind.PORT]


@pytest.fixture
def node():
    return Node()


def points(kept, node, name):
    found, quiet = kept.series_of(PORT, node.table)
    return next((dict(s.points) for s in found if s.name == name), None), quiet


def follow(kept, node, now, **changes):
    node.read(now, **changes)
    kept.update([PORT], node.fleet.tables, now)


def test_what_moved_has_points_and_the_rest_is_named(node):
    kept = Closeup()
    for step in range(6):
        follow(kept, node, NOW + 15.0 * step, symbol_errors=7.0 + (30.0 if step >= 4 else 0.0), xmit=3e9 * step)
    errors, quiet = points(kept, node, "symbol_errors")
    assert errors == {NOW + 15.0 * s: 2.0 if s == 4 else 0.0 for s in range(1, 6)}
    assert quiet == ["module_temperature", "rate", "rcv", "rcv_errors", "state"]
    assert list(points(kept, node, "xmit")[0].values()) == [pytest.approx(2e8)] * 5


def test_a_gauge_is_shown_unchanged(node):
    kept = Closeup()
    for step, warm in enumerate((50.0, 50.0, 61.0)):
        follow(kept, node, NOW + 15.0 * step, module_temperature=warm)
    assert points(kept, node, "module_temperature")[0] == {NOW + 15.0: 50.0, NOW + 30.0: 61.0}


def test_a_time_without_readings_is_a_gap_and_what_came_after_it_has_no_rate(node):
    kept = Closeup()
    for step in (0, 1, 2, 20, 21, 22):
        follow(kept, node, NOW + 15.0 * step, xmit=1e9 * step)
        if step == 2:
            for silent in range(3, 20):
                kept.update([PORT], node.fleet.tables, NOW + 15.0 * silent)
    assert sorted((at - NOW) / 15.0 for at in points(kept, node, "xmit")[0]) == [1, 2, 21, 22]


def test_a_reading_that_failed_is_no_zero(node):
    kept = Closeup()
    for step, value in enumerate((0.0, 1.0, math.nan, 5.0, 6.0)):
        follow(kept, node, NOW + 15.0 * step, rcv_errors=value)
    assert NOW + 30.0 not in points(kept, node, "rcv_errors")[0]


def test_a_reset_and_a_counter_at_its_top_have_no_rate(node):
    kept = Closeup()
    for step, value in enumerate((10.0, 20.0, 5.0, 8.0, 65535.0)):
        follow(kept, node, NOW + 15.0 * step, symbol_errors=value)
    assert sorted((at - NOW) / 15.0 for at in points(kept, node, "symbol_errors")[0]) == [1, 3]


def test_old_points_go(node, monkeypatch):
    monkeypatch.setattr(closeup, "KEPT", 8)
    kept = Closeup()
    for step in range(30):
        follow(kept, node, NOW + 15.0 * step, xmit=1e9 * step)
    assert sorted((at - NOW) / 15.0 for at in points(kept, node, "xmit")[0]) == list(range(22, 30))


def test_there_is_no_more_than_there_is_room_for(node, monkeypatch):
    monkeypatch.setattr(closeup, "MAX_SERIES", 1)
    monkeypatch.setattr(closeup, "MAX_FOLLOWED", 1)
    kept = Closeup()
    other = ComponentId(Kind.PORT, "a", "mlx5_1/1")
    for step in range(4):
        node.read(NOW + 15.0 * step, xmit=1e9 * step, rcv=1e9 * step)
        kept.update([PORT, other], node.fleet.tables, NOW + 15.0 * step)
    assert (kept.followed, kept.series) == (1, 1)
    kept.update([other], node.fleet.tables, NOW + 60.0)
    assert (kept.followed, kept.series) == (1, 0)


def test_a_component_in_another_row_begins_anew_and_keeps_the_room_it_had(node):
    kept = Closeup()
    for step in range(4):
        follow(kept, node, NOW + 15.0 * step, xmit=1e9 * step)
    before = kept.series
    node.table.generation[node.table.row(PORT)] += 1
    for step in range(4, 8):
        follow(kept, node, NOW + 15.0 * step, xmit=1e9 * step)
    assert (kept.followed, kept.series) == (1, before)
    assert sorted((at - NOW) / 15.0 for at in points(kept, node, "xmit")[0]) == [5, 6, 7]


def test_what_was_asked_for_is_followed_for_a_while(node):
    kept = Closeup()
    kept.follow(PORT, NOW)
    kept.update([], node.fleet.tables, NOW)
    assert kept.followed == 1
    kept.update([], node.fleet.tables, NOW + closeup.ASKED_FOR + 1)
    assert kept.followed == 0


def test_only_the_last_asked_for_are_kept(monkeypatch, node):
    kept = Closeup()
    for number in range(closeup.MAX_ASKED + 10):
        kept.follow(ComponentId(Kind.PORT, "a", f"x{number}"), NOW)
    kept.update([], node.fleet.tables, NOW)
    assert kept.followed == 0  # none of them exists
    assert len(kept._asked) == closeup.MAX_ASKED


# --- every port


def trailed(node, kept, seconds, **rates):
    """Read every ten seconds, with counters that rise so much a second."""
    for at in range(0, seconds, 10):
        now = NOW + at
        node.read(now, **{name: rate * (at + 10) for name, rate in rates.items()})
        kept.update(utilisation(View(node.table, now)), now)


def test_every_port_has_its_mean_load_and_its_errors(node):
    kept = Trail()
    trailed(node, kept, 900, xmit=1e10, rcv=2.5e10, symbol_errors=0.5)
    found = kept.series_of(node.table, node.table.row(PORT))
    assert [round(v, 3) for _, v in found["transmit_ratio"]] == [0.2, 0.2, 0.2]
    assert [round(v, 3) for _, v in found["receive_ratio"]] == [0.5, 0.5, 0.5]
    assert [v for _, v in found["errors"]] == [pytest.approx(120.0), pytest.approx(150.0), pytest.approx(150.0)]


def test_a_slot_without_readings_is_absent(node):
    kept = Trail()
    trailed(node, kept, 300, xmit=1e10)
    now = NOW + 1500.0
    node.read(now, xmit=1.0e13)
    kept.update(utilisation(View(node.table, now)), now)
    points = kept.series_of(node.table, 0)["transmit_ratio"]
    slots = [int(at // trail.SLOT) - int(NOW // trail.SLOT) for at, _ in points]
    assert slots == [0]


def test_a_row_that_stands_for_something_else_begins_anew(node):
    kept = Trail()
    trailed(node, kept, 300, xmit=1e10)
    node.table.generation[0] += 1
    assert kept.series_of(node.table, 0) == {}
    now = NOW + 360.0
    kept.update(utilisation(View(node.table, now)), now)
    assert "errors" not in kept.series_of(node.table, 0)


def test_what_it_takes_is_what_is_written(node):
    kept = Trail()
    trailed(node, kept, 120, xmit=1e10)
    assert kept.nbytes == 2 * len(trail.NAMES) * trail.KEPT * 4
