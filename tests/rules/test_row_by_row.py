"""Rules against plain tellings of their limits, row by row, with measurements at and beside each limit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fabricmon.fleet import link
from fabricmon.fleet.losses import IDLE
from fabricmon.fleet.peers import WINDOWS
from fabricmon.fleet.view import View
from fabricmon.model import Kind
from fabricmon.rules import RULES, link_flapping
from fabricmon.rules.link_flapping import LinkFlappingParams
from fabricmon.rules.packet_loss import RECENT, PacketLossParams
from fabricmon.rules.pfc_storm import EVENT, PfcStormParams
from fabricmon.rules.slow_receiver import SlowReceiverParams
from fabricmon.rules.straggler import StragglerParams
from fabricmon.units import Duration
from tests.rules.bench_of_ports import Ports

NAN = math.nan
HOSTS, NICS = 6, 4
seeds = pytest.mark.parametrize("seed", range(6))


class Rows:
    """Ports of a few hosts in one rail a number, of which some are absent, down or not read lately."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        ports = Ports(HOSTS, NICS)
        ports.polls(14)
        self.view: View = ports.view()
        self.now, self.n = self.view.now, self.view.n
        self.tracks = self.view.tracks
        self.present = self.some(True, True, True, False)
        self.up = self.some(True, True, True, True, False)
        self.view.table.present[: self.n] = self.present
        self.tracks.link[: self.n] = np.where(self.up, link.UP, link.DOWN)
        self.rail = self.view.group("rail").tolist()
        self.node = self.view.node.tolist()

    def some(self, *of: Any) -> list[Any]:
        return [self.rng.choice(of) for _ in range(self.n)]

    def ago(self, *seconds: float) -> list[float]:
        return [self.now - one for one in self.some(*seconds)]

    def test(self, rule: str, params: Any) -> list[tuple[bool, bool, bool, float]]:
        """(fire, clear, known, value) of each row."""
        found = next(r for r in RULES if r.name == rule).test(self.view, params)
        return list(zip(*(a.tolist() for a in (found.fire, found.clear, found.known, found.value)), strict=True))


def agree(found: list[tuple[bool, bool, bool, float]], told: Callable[[int], tuple[bool, bool, bool, float]]) -> None:
    for row, one in enumerate(found):
        *verdict, value = told(row)
        assert [bool(word) for word in one[:3]] == [bool(word) for word in verdict], row
        assert one[3] == pytest.approx(value, rel=1e-6, nan_ok=True), row


@seeds
def test_a_straggler_is_low_in_most_windows_unless_most_ports_of_its_host_are(seed: int) -> None:
    rows, params = Rows(seed), StragglerParams()
    peers = rows.tracks.peers
    low, seen = rows.some(0, 2, 3, 5, 6, 9, 10, 12), rows.some(WINDOWS, WINDOWS, WINDOWS, WINDOWS - 1)
    evaluated, in_job = rows.ago(0.0, 0.0, 600.0, 601.0, NAN), rows.some(True, False)
    read, share = rows.some(True, True, False), rows.some(0.25, 0.5)
    peers.low[: rows.n], peers.seen[: rows.n], peers.evaluated[: rows.n] = low, seen, evaluated
    peers.in_job[: rows.n], peers.share[: rows.n], peers.median[: rows.n] = in_job, share, 0.5
    rows.tracks.pressure.traffic.until[: rows.n] = [rows.now - (not one) for one in read]
    idle = [rows.now - one > 600.0 for one in evaluated]
    bad = [one >= 10 and not rests for one, rests in zip(low, idle, strict=True)]

    def whole(node: int) -> bool:
        works = [r for r in range(rows.n) if rows.node[r] == node and seen[r] == WINDOWS and rows.present[r]]
        return len(works) > 1 and 2 * sum(low[r] >= 6 for r in works) > len(works)

    def told(r: int) -> tuple[bool, bool, bool, float]:
        fire = bad[r] and (in_job[r] or not whole(rows.node[r]))
        lately = seen[r] == WINDOWS and rows.now - evaluated[r] <= 20.0
        known = rows.present[r] and read[r] and (lately or idle[r])
        return fire, not fire and (idle[r] or low[r] <= 2), known, share[r] / 0.5

    agree(rows.test("straggler", params), told)


@seeds
def test_a_loss_is_two_bad_windows_and_one_is_neither(seed: int) -> None:
    """150 lost of a million packets is far beyond what is usual."""
    rows, params = Rows(seed), PacketLossParams(windows=rows_needed(seed))
    losses = rows.tracks.losses
    bad = [[rows.rng.random() < 0.4 for _ in range(3)] for _ in range(rows.n)]
    ended, lapsed = rows.ago(0.0, RECENT, RECENT + 1, NAN), rows.ago(IDLE, IDLE + 1, NAN, NAN)
    for row, windows in enumerate(bad):
        losses.lost[:, row] = [150.0 if one else 0.0 for one in windows]
    losses.sent[:, : rows.n], losses.timeouts[:, : rows.n] = 1e6, 0.0
    losses.ended[: rows.n], losses.lapsed[: rows.n] = ended, lapsed
    losses.turns += 1

    def told(r: int) -> tuple[bool, bool, bool, float]:
        count = sum(bad[r])
        fire, clear = count >= params.windows, count == 0
        known = (rows.now - ended[r] <= RECENT and (fire or clear)) or rows.now - lapsed[r] <= IDLE
        return fire, clear, rows.present[r] and known, count * 150.0 / 3e6

    agree(rows.test("packet_loss", params), told)


def rows_needed(seed: int) -> int:
    return 1 + seed % 3


def mean_of_others(values: list[float], among: list[bool], groups: list[int], row: int) -> float:
    others = [v for r, v in enumerate(values) if r != row and among[r] and groups[r] == groups[row]]
    return sum(others) / len(others) if len(others) >= 4 else NAN


@seeds
def test_a_receiver_is_slow_if_it_pauses_in_two_windows_and_is_not_loaded_or_lacks_buffers(seed: int) -> None:
    rows = Rows(seed)
    params = SlowReceiverParams(pausing=0.25, calm=0.125, missed=8.0, full=0.875, above=1.25)
    pressure, every, ten = rows.tracks.pressure, slice(0, rows.n), np.full(rows.n, 10.0)
    pausing = [rows.some(0.0, 0.125, 0.25, 0.25, 0.375, NAN) for _ in range(3)]
    missed = [rows.some(0.0, 3.0, 4.0, 7.0, 8.0, 9.0) for _ in range(3)]
    receives = rows.some(0.5, 0.5, 0.625, 0.875, 1.0)
    for window in range(2, -1, -1):
        for _ in range(3):
            pressure.missed.add(every, ten, (np.array(missed[window]) * 10.0,), rows.now)
        pressure.pausing.add(every, ten, (np.array(pausing[window]) * 10.0,), rows.now)
        pressure.traffic.add(every, ten, (np.array(receives) * 10.0, np.zeros(rows.n)), rows.now)
    busy = rows.some(True, True, True, True, False)
    pressure.busy[: rows.n] = busy
    stale = rows.some(False, False, True)
    for slots in (pressure.pausing, pressure.missed):
        slots.until[: rows.n] = [rows.now - one for one in stale]

    def told(r: int) -> tuple[bool, bool, bool, float]:
        mine, lacks = [one[r] for one in pausing], [one[r] for one in missed]
        known = [one for one in mine if one == one]
        recent = sum(known) / len(known) if known else NAN
        loaded = receives[r] > 0.875 or receives[r] > 1.25 * mean_of_others(receives, busy, rows.rail, r)
        # two windows at the limit make the mean two thirds of it: a lower mean is not looked at
        looked = recent >= 0.25 * 2 / 3 or lacks[0] >= 8.0 * 2 / 3
        slow = sum(one >= 0.25 for one in mine) >= 2 and not loaded
        fire = looked and (slow or sum(one >= 8.0 for one in lacks) >= 2)
        calm = not recent >= 0.125 and not lacks[0] >= 4.0
        return fire, calm and not fire, rows.present[r] and rows.up[r] and not stale[r], recent

    agree(rows.test("slow_receiver", params), told)


@seeds
def test_a_storm_is_a_pausing_port_with_victims_on_its_rail(seed: int) -> None:
    rows = Rows(seed)
    params = PfcStormParams(pausing=0.75, calm=0.125, waiting=0.25, victims=1 + seed % 3)
    pressure, every, ten = rows.tracks.pressure, slice(0, rows.n), np.full(rows.n, 10.0)
    pausing = [rows.some(0.0, 0.0625, 0.125, 0.5, 0.75, 0.875, NAN) for _ in range(3)]
    waits, scale = rows.some(0.0, 0.125, 0.25, 0.5), rows.some(1.0, 1.0, 0.5)
    for window in range(2, -1, -1):
        pressure.pausing.add(every, ten, (np.array(pausing[window]) * 10.0,), rows.now)
        pressure.stalled.add(every, ten, (np.array(waits) * 10.0,), rows.now)
    storm, late, unread = rows.ago(NAN, NAN, NAN, EVENT, EVENT + 1), rows.some(0, 0, 1), rows.some(0, 0, 1)
    pressure.storm[: rows.n], pressure.scale[: rows.n] = storm, scale
    pressure.pausing.until[: rows.n] = [rows.now - one for one in late]
    pressure.stalled.until[: rows.n] = [rows.now - one for one in unread]
    latest = pausing[0]
    victim = [
        waits[r] >= 0.25 * scale[r] and rows.present[r] and not latest[r] >= 0.125 and not unread[r]
        for r in range(rows.n)
    ]

    def told(r: int) -> tuple[bool, bool, bool, float]:
        known = [one[r] for one in pausing if one[r] == one[r]]
        recent, counted = (sum(known) / len(known) if known else NAN), rows.now - storm[r] <= EVENT
        victims = sum(victim[o] for o in range(rows.n) if o != r and rows.rail[o] == rows.rail[r])
        fire = ((latest[r] >= 0.75 and not late[r]) or counted) and victims >= params.victims
        read = (latest[r] == latest[r] and not late[r]) or counted
        clear = not recent >= 0.125 and not counted and not fire
        return fire, clear, rows.present[r] and rows.up[r] and read, latest[r]

    agree(rows.test("pfc_storm", params), told)


def penalty_of(downs: list[tuple[float, int]], now: float, params: LinkFlappingParams) -> tuple[float, int, float]:
    """Penalty, slow episodes and beginning, one down after the other."""
    penalty, before, episodes, began, first = 0.0, -math.inf, 0, NAN, NAN
    for at, count in downs:
        if now - at > params.window:
            continue
        penalty *= 0.5 ** ((at - before) / params.half_life) if penalty else 1.0
        began = at if penalty < params.clear_at else began
        penalty = min(penalty + 1000.0 * count, params.ceiling)
        if penalty > params.raise_at:
            episodes = 0
        elif at - before > params.apart:
            first = at if episodes == 0 else first
            episodes += 1
        before = at
    penalty *= 0.5 ** ((now - before) / params.half_life) if penalty else 1.0
    slow = episodes >= params.episodes and penalty <= params.raise_at
    return penalty, episodes, first if slow else began


def test_a_link_flaps_above_its_limit_and_is_calm_below_the_other_one() -> None:
    rows, params = Rows(0), LinkFlappingParams(raise_at=2000.0, clear_at=1000.0)
    downs, counts = rows.tracks.downs, (0, 1, 2, 3)
    for row, count in enumerate(counts):
        downs.at[0, row], downs.count[0, row], downs.head[row], downs.last[row] = rows.now, count, 1, rows.now
    found = rows.test("link_flapping", params)[: len(counts)]
    assert [value for *_, value in found] == [0.0, 1000.0, 2000.0, 3000.0]
    assert [fire for fire, *_ in found] == [False, False, False, True]
    assert [clear for _, clear, *_ in found] == [True, False, False, False]


@seeds
def test_the_penalty_of_a_link_is_that_of_its_downs_one_after_the_other(seed: int) -> None:
    rows, params = Rows(seed), LinkFlappingParams(window=Duration(40_000))
    downs, every = rows.tracks.downs, np.arange(rows.n)
    history: list[list[tuple[float, int]]] = [[] for _ in range(rows.n)]
    at = np.full(rows.n, rows.now - 50_000.0)
    for _ in range(12):
        at = at + [rows.rng.choice((30.0, 60.0, 61.0, 900.0, 7200.0)) for _ in range(rows.n)]
        count = np.array([rows.rng.choice((0, 1, 1, 2, 4)) for _ in range(rows.n)], float)
        some = every[(count > 0) & (at <= rows.now)]
        for row in some.tolist():
            downs.at[downs.head[row], row], downs.count[downs.head[row], row] = at[row], count[row]
            downs.head[row] = (downs.head[row] + 1) % 16
            downs.last[row] = at[row]
            history[row].append((float(at[row]), int(count[row])))
    found = link_flapping.score(rows.view, every, params)
    told = [penalty_of(one, rows.now, params) for one in history]
    lately = [rows.now - one[-1][0] <= params.window if one else False for one in history]
    for row, (penalty, episodes, began) in enumerate(told):
        assert found.penalty[row] == pytest.approx(penalty), row
        assert (found.episodes[row], found.began[row]) == (episodes, pytest.approx(began, nan_ok=True)), row
    outcome = next(r for r in RULES if r.name == "link_flapping").test(rows.view, params)
    for row, (penalty, episodes, began) in enumerate(told):
        penalty, slow = (penalty, episodes >= params.episodes) if lately[row] else (0.0, False)
        assert bool(outcome.fire[row]) is (penalty > params.raise_at or slow)
        assert bool(outcome.clear[row]) is (penalty < params.clear_at and not slow)
        assert outcome.value[row] == pytest.approx(penalty)
        assert outcome.since is not None
        assert outcome.since[row] == pytest.approx(began if lately[row] else NAN, nan_ok=True)
    assert outcome.known.tolist() == rows.present
    assert rows.view.table.kind is Kind.PORT
