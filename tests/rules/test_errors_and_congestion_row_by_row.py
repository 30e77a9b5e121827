"""link_errors and congestion against plain tellings of their limits, with measurements at and beside each limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.fleet import ber, link
from fabricmon.fleet.slots import SLOT
from fabricmon.fleet.window import BITS, CAPPED, ERRORS
from fabricmon.model import Severity
from fabricmon.rules import RULES
from fabricmon.rules.congestion import AFTER, CongestionParams
from fabricmon.rules.link_errors import LinkErrorsParams
from tests.rules.test_row_by_row import Rows, mean_of_others

NAN = math.nan
LANES = ((100e9, 1e-15), (89e9, 1e-14), (45e9, 1e-14), (25e9, 1e-14), (19e9, 1e-13))
ERRORS_RULE, CONGESTION = (next(rule for rule in RULES if rule.name == name) for name in ("link_errors", "congestion"))


def lower(errors: float, bits: float) -> float:
    found = float(ber.lower(np.array([errors]), np.array([bits]))[0])
    return 0.0 if math.isnan(found) else found


@pytest.mark.parametrize("seed", range(8))
def test_bit_errors_are_beyond_a_limit_by_their_bounds(seed: int) -> None:
    rows, params = Rows(seed), LinkErrorsParams()
    errors, every = rows.tracks.errors, slice(0, rows.n)
    lanes = rows.some(*LANES)
    counts = {}
    for name, window in (("short", errors.short), ("long", errors.long)):
        window.began = rows.now
        window._young[:], window._old[:] = 0.0, 0.0
        bits = rows.some(1e13, 1e14, 1e15, 0.0)
        found = [
            rows.rng.choice((0.0, 0.0, 1.0, 30.0, bits[row] * lanes[row][1] * 10.0, bits[row] * lanes[row][1] * 1e5))
            for row in range(rows.n)
        ]
        capped = [min(one, 3.0) if rows.rng.random() < 0.5 else one for one in found]
        for quantity, amounts in ((BITS, bits), (ERRORS, found), (CAPPED, capped)):
            window.add(every, quantity, np.array(amounts))
        counts[name] = list(zip(bits, found, capped, strict=True))
    onset, hard = rows.some(0.0, 10.2, 10.3, 20.5, 20.6, 30.0), rows.some(0, 0, 0, 0b1, 0b101, 0b10101, 0b11110)
    blind = rows.some(False, False, True)
    errors.onset[every], errors.hard[every], errors.blind[every] = onset, hard, blind
    errors.rate[every] = [4 * speed for speed, _ in lanes]
    found = ERRORS_RULE.test(rows.view, params)
    assert found.severity is not None
    for row in range(rows.n):
        (bits, errs, capped), (long_bits, long_errs, long_capped) = counts["short"][row], counts["long"][row]
        alarm, worst = 10.0 * lanes[row][1], 1000.0 * lanes[row][1]
        clean = bits * alarm >= float(ber.upper_count(np.array([errs]))[0])
        low, steady = lower(errs, bits), lower(capped, bits)
        if not clean:
            low, steady = max(low, lower(long_errs, long_bits)), max(steady, lower(long_capped, long_bits))
        polls = bin(hard[row]).count("1")
        over = steady > alarm or (onset[row] >= 20.6 and low > alarm)
        fire = over or polls >= 3
        clear = not fire and clean and onset[row] < 10.3 and polls == 0
        known = rows.present[row] and rows.up[row] and (fire or (not blind[row] and bits > 0))
        assert (bool(found.fire[row]), bool(found.clear[row]), bool(found.known[row])) == (fire, clear, known), row
        if fire:
            rank = Severity.CRITICAL.rank if polls >= 3 or low > worst else Severity.WARNING.rank
            assert (found.severity[row], found.value[row]) == (rank, pytest.approx(low)), row


class Waits:
    """Ports of `Rows` with random waits: 60 slots of 10 s each, the newest first."""

    def __init__(self, seed: int) -> None:
        self.rows = rows = Rows(seed)
        self.pressure = pressure = rows.tracks.pressure
        every, ten = slice(0, rows.n), np.full(rows.n, SLOT)
        self.slots = []
        for _ in range(rows.n):
            base = [rows.rng.choice((0.05, 0.16, 0.16, 0.2))] * 60
            newest = [rows.rng.choice((0.05, 0.16, 0.26, 0.3, 0.3)) for _ in range(3)]
            if rows.rng.random() < 0.2:
                base[rows.rng.randrange(9, 60)] = 0.0
            self.slots.append([newest[at // 3] if at < 9 else one for at, one in enumerate(base)])
        for at in range(59, -1, -1):
            amounts = np.array([one[at] for one in self.slots]) * SLOT
            pressure.stalled.add(every, ten, (amounts,), rows.now)
        pressure.closed = np.arange(rows.n)
        self.busy = rows.some(True, True, True, False)
        self.worked, self.pressed = rows.ago(0.0, AFTER - 1, AFTER, NAN), rows.ago(0.0, AFTER - 1, AFTER, NAN)
        self.scale = rows.some(1.0, 1.0, 0.5)
        self.usual, self.whole = rows.some(0.02, 0.05, 0.14, 0.16, 0.3), rows.some(True, True, False)
        pressure.busy[every], pressure.worked[every], pressure.pressed[every] = self.busy, self.worked, self.pressed
        pressure.scale[every], pressure.estimated[every] = self.scale, False
        pressure.usual.mean[every], pressure.usual._slots[every] = self.usual, np.where(self.whole, 359, 100)
        self.stale = rows.some(False, False, False, True)
        pressure.stalled.until[every] = np.where(self.stale, rows.now - 1, rows.now)

    def windows(self, row: int) -> list[float]:
        one = self.slots[row]
        return [sum(one[at : at + 3]) / 3 for at in range(0, 60, 3)]

    def expect(self, row: int, scale: float, compared: bool) -> tuple[bool, bool, bool, str]:
        windows = [one / scale for one in self.windows(row)]
        share = windows[0]
        lately = self.rows.now - self.worked[row] < AFTER
        working = self.busy[row] or (share > 0 and lately)
        fire = share > 0.15 and working and (min(windows[:3]) > 0.25 or min(windows) > 0.15)
        if fire and compared:
            recent, peers = self.windows(row)[0], self.of_peers(row)
            newest = self.slots[row][:9]
            earlier = 359 if self.whole[row] else 100
            before = max(0.0, self.usual[row] * earlier - sum(newest)) / (earlier - 9)
            fire = recent >= 0.05 and recent >= 3 * peers and not recent < 3 * before
        lasting = fire and not compared and self.whole[row] and self.usual[row] / scale > 0.15
        known = self.rows.present[row] and self.rows.up[row] and not self.stale[row]
        known = known and (working or self.rows.now - self.pressed[row] < AFTER)
        return fire, share < 0.1 and not fire, known, "warning" if lasting else "info"

    def of_peers(self, row: int) -> float:
        """Mean of the other busy ports of the host, where it has at least two; else of all."""
        recent, n = [self.windows(r)[0] for r in range(self.rows.n)], self.rows.n
        here = [recent[r] for r in range(n) if r != row and self.busy[r] and self.rows.node[r] == self.rows.node[row]]
        return sum(here) / len(here) if len(here) >= 2 else mean_of_others(recent, self.busy, [0] * n, row)


def check(waits: Waits, params: CongestionParams, scale: list[float], compared: list[bool]) -> None:
    found = CONGESTION.test(waits.rows.view, params)
    assert found.severity is not None
    words = list(Severity)
    for row in range(waits.rows.n):
        fire, clear, known, severity = waits.expect(row, scale[row], compared[row])
        assert (bool(found.fire[row]), bool(found.clear[row]), bool(found.known[row])) == (fire, clear, known), row
        assert found.value[row] == pytest.approx(waits.windows(row)[0] / scale[row], rel=1e-5)
        if fire:
            assert words[found.severity[row]] == severity, row


@pytest.mark.parametrize("seed", range(6))
def test_measured_waits_are_congestion_by_three_windows_or_by_ten_minutes(seed: int) -> None:
    waits = Waits(seed)
    check(waits, CongestionParams(), waits.scale, [False] * waits.rows.n)


@pytest.mark.parametrize("seed", range(6))
def test_estimated_waits_must_stand_out_from_peers_and_from_what_is_usual(seed: int) -> None:
    waits = Waits(seed)
    waits.pressure.estimated[: waits.rows.n] = True
    for row in range(waits.rows.n):  # most ports are calm, so that some stand out
        if row % 5:
            waits.slots[row] = [0.01] * 60
    every, ten = slice(0, waits.rows.n), np.full(waits.rows.n, SLOT)
    for at in range(59, -1, -1):
        waits.pressure.stalled.add(every, ten, (np.array([one[at] for one in waits.slots]) * SLOT,), waits.rows.now)
    waits.pressure.stalled.until[every] = np.where(waits.stale, waits.rows.now - 1, waits.rows.now)
    check(waits, CongestionParams(), waits.scale, [True] * waits.rows.n)


def test_a_known_tick_makes_a_measurement() -> None:
    """At a tick of 8 bytes of line time, 50e9 / 8 ticks a second are all of the time; each stands for 1 us at most."""
    waits = Waits(3)
    n = waits.rows.n
    waits.pressure.estimated[:n] = True
    line = 4 * 25e6 / 8  # bytes per second
    waits.pressure.line = np.full(n, line)
    check(waits, CongestionParams(tick=8.0), [line / 8.0 * 1e-6] * n, [False] * n)


def test_between_two_slots_nothing_new_fires() -> None:
    waits = Waits(1)
    before = CONGESTION.test(waits.rows.view, CongestionParams()).fire
    assert before.any()
    waits.pressure.closed = np.flatnonzero(before)[:1]
    assert np.flatnonzero(CONGESTION.test(waits.rows.view, CongestionParams()).fire).tolist() == [
        int(waits.pressure.closed[0])
    ]
    waits.rows.tracks.link[: waits.rows.n] = link.DOWN
    assert not CONGESTION.test(waits.rows.view, CongestionParams()).known.any()
