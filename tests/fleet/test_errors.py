"""Bits, errors, onset and hard errors of links against a telling poll by poll."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fabricmon.fleet.errors import CLASS_LEAST, SOURCES
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.window import BITS, CAPPED, ERRORS, Window
from tests.rules.bench_of_ports import NDR, POLL, Ports

HARD = ("link_error_recoveries", "local_link_integrity_errors")


class Told:
    """One port: S <- max(0, S + x ln(l1/l0) - (l1 - l0)) with l0 = 0.01 and l1 = 1 error a poll."""

    def __init__(self) -> None:
        self.bits = self.errors = self.capped = self.onset = self.usual = 0.0
        self.hard: list[bool] = []

    def poll(self, seconds: float, errors: float, hard: bool) -> None:
        polls, capped = seconds / 10.0, min(errors, 3.0)
        self.bits += 8 * NDR * seconds
        self.errors += errors
        self.capped += capped
        self.onset = min(max(self.onset + capped * math.log(1 / 0.01) - 0.99 * polls, 0.0), 41.2)
        self.usual += min(1.0, seconds / 21_600.0) * (capped / polls - self.usual)
        self.hard.append(hard)


@pytest.mark.parametrize("seed", range(4))
def test_errors_of_ports_that_are_up(seed: int) -> None:
    rng, ports = random.Random(seed), Ports(2, 4)
    ports.polls(8)
    errors = ports.view().tracks.errors
    at = {port: ports.row(*port) for port in ports.port}
    told = {port: Told() for port in at}
    before = {port: (errors.short.at(BITS, row), errors.long.at(BITS, row)) for port, row in at.items()}
    for _ in range(40):
        seconds = rng.choice((10.0, 10.0, 9.0, 12.0))
        for number, (port, counters) in enumerate(ports.port.items()):
            damaged = rng.choice((0, 0, 0, 1, 2, 50)) if number > 2 else 0
            packets = rng.choice((0, damaged, damaged + 3)) if number > 3 else 0
            hard = rng.choice((*HARD, "", "", "", "")) if number > 1 else ""
            counters["symbol_errors"] += damaged
            counters["rcv_errors"] += packets
            if hard:
                counters[hard] += 1  # the second stops at 15
            told[port].poll(seconds, max(damaged, packets), bool(hard))
        ports.poll(seconds)
        for port, one in told.items():
            row = at[port]
            assert errors.onset[row] == pytest.approx(one.onset, abs=1e-9)
            assert errors.usual[row] == pytest.approx(one.usual)
            assert errors.hard[row] == sum(hard << age for age, hard in enumerate(reversed(one.hard[-5:])))
            for window, start in zip((errors.short, errors.long), before[port], strict=True):
                assert window.at(BITS, row) - start == pytest.approx(one.bits)
                assert (window.at(ERRORS, row), window.at(CAPPED, row)) == (one.errors, one.capped)
    assert not errors.blind[: len(at)].any()
    assert set(errors.rate[: len(at)].tolist()) == {8 * NDR}


def test_training_and_a_link_that_is_down_are_no_evidence() -> None:
    """Nothing counts while it is down and in the 30 s after it came up."""
    ports = Ports(1, 2)
    ports.polls(12)
    errors, row = ports.view().tracks.errors, ports.row(0, 0)
    bits = errors.short.at(BITS, row)
    ports.down(0, 0)
    ports.polls(3)
    ports.up(0, 0)
    counted = []
    for _ in range(6):
        ports.port[0, 0]["symbol_errors"] += 5
        ports.poll()
        counted.append(errors.short.at(ERRORS, row))
    assert counted == [0.0, 0.0, 0.0, 5.0, 10.0, 15.0]
    assert errors.short.at(BITS, row) - bits == pytest.approx(3 * 8 * NDR * POLL)


@pytest.mark.parametrize("group", SOURCES, ids=lambda group: group[0])
def test_counters_of_the_same_damage_count_once(group: tuple[str, ...]) -> None:
    """Of an Ethernet port too: what its PHY, its error correction or its MAC could not repair."""
    rest = ("link_downed", "xmit", "rcv")
    ports = Ports(1, 2, "Ethernet", counts=(*group, *rest))
    ports.polls(12)
    errors, row = ports.view().tracks.errors, ports.row(0, 0)
    for column in group:
        ports.port[0, 0][column] += 7
    ports.poll()
    assert errors.short.at(ERRORS, row) == 7.0
    assert errors.short.at(ERRORS, ports.row(0, 1)) == 0.0


def test_a_saturated_counter_is_blind_until_it_is_cleared() -> None:
    ports = Ports(1, 2)
    ports.polls(8)
    errors, row = ports.view().tracks.errors, ports.row(0, 1)
    for value, blind in ((65534.0, False), (65535.0, True), (65535.0, True), (0.0, False), (3.0, False)):
        ports.port[0, 1]["symbol_errors"] = value
        ports.poll()
        assert (bool(errors.blind[row]), bool(errors.blind[ports.row(0, 0)])) == (blind, False), value


@pytest.mark.parametrize("values", [(30_000.0, 65_535.0), (65_535.0, 65_535.0)])
def test_the_rise_to_the_top_of_a_counter_counts(values: tuple[float, float]) -> None:
    """A link that errs much fills 16 bits within one poll or two; what follows is unknown, which ends no symptom."""
    ports = Ports(1, 2)
    ports.polls(8)
    errors, row = ports.view().tracks.errors, ports.row(0, 1)
    for value in (*values, 65_535.0):
        ports.port[0, 1]["symbol_errors"] = value
        ports.poll()
    assert errors.short.at(ERRORS, row) == 65_535.0
    ports.polls(70)
    changes = [change.opened for change in ports.changes if change.symptom.rule == "link_errors"]
    assert changes == [True]


def test_hard_errors_count_until_their_counter_is_full() -> None:
    ports = Ports(1, 2)
    ports.polls(8)
    for value in (8.0, 15.0, 15.0):
        ports.port[0, 1]["local_link_integrity_errors"] = value
        ports.poll()
    assert ports.view().tracks.errors.hard[ports.row(0, 1)] == 0b110


def test_the_background_of_links_of_one_rate_is_three_quarters_of_them() -> None:
    """Learned every ten minutes from at least 16 ports, never below the least."""
    ports = Ports(1, CLASS_LEAST + CLASS_LEAST - 1)
    for nic in range(CLASS_LEAST, 2 * CLASS_LEAST - 1):
        ports.port[0, nic]["rate"] = NDR / 2
    ports.polls(8)
    errors = ports.view().tracks.errors
    rows = [ports.row(0, nic) for nic in range(2 * CLASS_LEAST - 1)]
    usual = np.arange(1, len(rows) + 1) / 10.0
    errors.usual[rows] = usual
    ports.polls(61)
    learned = errors.background[rows].tolist()
    shrunk = errors.usual[rows] / usual
    assert (shrunk < 1.0).all()  # ten minutes without errors
    few = TrackSettings().background
    assert learned[CLASS_LEAST:] == [few] * (CLASS_LEAST - 1)
    assert learned[:CLASS_LEAST] == [learned[0]] * CLASS_LEAST
    quantile = float(np.quantile(usual[:CLASS_LEAST], 0.75))
    assert quantile * shrunk.min() * 0.99 < learned[0] <= quantile


def test_a_window_covers_one_to_two_horizons() -> None:
    window, rows = Window(100.0, 4), np.arange(2)
    kept, now = [], 1000.0
    for step in (0.0, 30.0, 69.0, 1.0, 50.0, 50.0, 99.0, 1.0, 199.0, 10.0, 200.0, 5.0, -6.0, 20.0):
        now += step
        window.turn(now)
        window.add(rows, ERRORS, np.array([1.0, 2.0]))
        kept.append(window.at(ERRORS, 0))
        assert window.sum(ERRORS, 2).tolist() == [window.at(ERRORS, 0), 2 * window.at(ERRORS, 0)]
        assert window.some(ERRORS, rows).tolist() == window.sum(ERRORS, 2).tolist()
    # it turns at 1100, 1200 and 1300, at 1499 (a second short of two horizons), at 1709 (more: nothing is left) and
    # when the clock steps back
    assert kept == [1, 2, 3, 4, 5, 3, 4, 3, 2, 3, 1, 2, 3, 4]
