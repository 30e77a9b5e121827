"""Peers against a plain telling of their method: medians by sorting, one port and one window at a time."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict

import numpy as np
import pytest

from fabricmon.fleet import link
from fabricmon.fleet.peers import EVERY, FORGOTTEN, LEAST, LEAST_HOSTS, RECENT, SWING, TURNS, WINDOWS, Peers
from fabricmon.fleet.tracks import Tracks
from fabricmon.model import Kind
from fabricmon.topology.domains import assign
from tests.rules.bench_of_ports import Ports

STEP = EVERY / TURNS
BEGINS = 10_000.0


class Rails:
    """Ports of `nics` rails whose shares are set by hand; `peers` is advanced alone."""

    def __init__(self, hosts: int = 24, nics: int = 2, roles: tuple[str, ...] = ("compute",)) -> None:
        own = {(h, n): {"role": roles[n % len(roles)]} for h in range(hosts) for n in range(nics)}
        self.bench = Ports(hosts, nics, own=own)
        self.bench.polls(2)
        self.table = self.bench.fleet.tables[Kind.PORT]
        assert isinstance(self.table.tracks, Tracks)
        self.tracks, self.n = self.table.tracks, self.table.n
        self.peers, self.now = Peers(self.table.capacity), BEGINS
        self.tracks.link[: self.n] = link.UP
        self.tracks.pressure.traffic.until[: self.n] = math.inf
        self.set([0.5] * self.n, [0.0] * self.n)

    def set(self, share: list[float], pausing: list[float]) -> None:
        self.tracks.pressure.traffic.latest[0, : self.n] = share
        self.tracks.pressure.traffic.latest[1, : self.n] = share
        self.tracks.pressure.pausing.latest[0, : self.n] = pausing

    def advance(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.peers.advance(self.table, self.tracks, self.tracks.pressure, self.now)

    def window(self) -> None:
        """One window: all turns, and the first of the next only with the next call."""
        for _ in range(TURNS):
            self.advance(STEP)

    def jobs(self, of: dict[tuple[str, str], int]) -> None:
        entries = list(zip(self.table.ids, self.table.labels, strict=True))
        self.table.domains = assign(None, entries, {})
        ids = np.full(self.n, -1, np.int32)
        for row, component in enumerate(self.table.ids):
            ids[row] = of.get((component.node, component.name), -1)
        self.table.domains.ids["job"] = ids


def lows(
    share: list[float], pausing: list[float], beside: list[float], recent: list[float], newest: list[float]
) -> list[bool]:
    """Which ports of one group at work are low; `beside`: what another port of their hosts carries at least, NaN
    without two others; `recent`: the average of share / median, `newest`: that of SWING windows."""
    usual, rests = statistics.median(share), statistics.median(pausing)
    spread = 1.4826 * statistics.median(abs(x - usual) for x in share)
    jitter = 1.4826 * statistics.median(abs(x - rests) for x in pausing)
    low = [usual - x > 3.5 * max(spread, 0.02 * usual) and x < 0.92 * usual for x in share]
    pauses = [p - rests > max(3.5 * jitter, 0.05) for p in pausing]
    slower = [False] * len(share)
    of_host = {at: x / other for at, (x, other) in enumerate(zip(share, beside, strict=True)) if other > 0}
    if len(of_host) >= LEAST_HOSTS:
        middle = statistics.median(of_host.values())
        apart = max(1.4826 * statistics.median(abs(x - middle) for x in of_host.values()), 0.02 * middle)
        for at, x in of_host.items() if apart <= 0.05 * middle else ():
            slower[at] = middle - x > 6.0 * apart and x < 0.75 * middle and newest[at] < 0.92
    mean = statistics.median(recent)
    around = max(1.4826 * statistics.median(abs(x - mean) for x in recent), 0.02 * mean)
    of_late = [mean - x > 6.0 * around and x < 0.75 * mean for x in recent]
    lately = [late and x < 0.92 for late, x in zip(of_late, newest, strict=True)]
    few = [found for found in (low, pauses, slower, lately) if sum(found) <= max(1.0, 0.1 * len(found))]
    return [any(found[at] for found in few) for at in range(len(share))]


@pytest.mark.parametrize("seed", range(4))
def test_windows_of_random_shares(seed: int) -> None:
    rng = random.Random(seed)
    rails = Rails(32, 3)
    rows = range(rails.n)
    groups = defaultdict(list)
    for row in rows:
        groups[rails.table.ids[row].name].append(row)
    seen: defaultdict[int, list[bool]] = defaultdict(list)
    usual = dict.fromkeys(rows, math.nan)
    recent: dict[int, float] = {}
    newest: dict[int, float] = {}
    rails.advance()
    for _ in range(WINDOWS + 1):  # as long as no past counts
        odd = [rng.random() < (0.9 if row in (3, 30) else 0.02) for row in rows]
        share = [rng.choice((0.4, 0.2, 0.005, 0.01) if one else (0.5, 0.5, 0.49, 0.47)) for one in odd]
        pausing = [rng.choice((0.06, 0.3) if rng.random() < 0.03 else (0.0, 0.04, math.nan)) for _ in rows]
        up, present, read = ([rng.random() < 0.95 for _ in rows] for _ in range(3))
        rails.set(share, pausing)
        rails.tracks.link[: rails.n] = np.where(up, link.UP, link.DOWN)
        rails.table.present[: rails.n] = present
        rails.tracks.pressure.traffic.until[: rails.n] = np.where(read, math.inf, 0.0)
        rails.window()
        shown = rails.tracks.pressure.traffic.latest[0].tolist(), rails.tracks.pressure.pausing.latest[0].tolist()
        busy = [r for r in rows if shown[0][r] >= 0.01 and up[r] and present[r] and read[r]]
        for members in groups.values():
            works = [r for r in members if shown[0][r] >= 0.01 and up[r] and present[r] and read[r]]
            if len(works) < LEAST:
                continue
            paused = [0.0 if math.isnan(shown[1][r]) else shown[1][r] for r in works]
            of = rails.table.node
            others = [[shown[0][r] for r in busy if r != row and of[r] == of[row]] for row in works]
            beside = [min(carried) if len(carried) > 1 else math.nan for carried in others]
            middle = statistics.median(shown[0][r] for r in works)
            for r in works:
                of_median = shown[0][r] / middle
                for mean, weight in ((recent, RECENT), (newest, 2 / (SWING + 1))):
                    before = mean[r] if len(seen[r]) > 1 else of_median  # without the window in which work began
                    mean[r] = before + (of_median - before) * weight
            late, new = [recent[r] for r in works], [newest[r] for r in works]
            for row, low in zip(works, lows([shown[0][r] for r in works], paused, beside, late, new), strict=True):
                seen[row].append(low)
                usual[row] = statistics.median(shown[0][r] for r in works)
                assert rails.peers.size[row] == len(works)
                assert rails.peers.share[row] == pytest.approx(shown[0][row])
        for row in rows:
            last = seen[row][-WINDOWS:]
            assert (rails.peers.low[row], rails.peers.seen[row]) == (sum(last), len(last)), row
            assert rails.peers.median[row] == pytest.approx(usual[row], rel=1e-6, nan_ok=True)
    assert max(rails.peers.low[: rails.n]) > 2


@pytest.mark.parametrize(("share", "low"), [(0.459, True), (0.4601, False), (0.47, False)])
def test_the_gap_is_eight_percent(share: float, low: bool) -> None:
    """Of many ports that agree the spread is taken as 2 %: 3.5 x 2 % is less than 8 %."""
    rails = Rails(nics=1)
    rails.set([share] + [0.5] * (rails.n - 1), [0.0] * rails.n)
    rails.advance()
    rails.window()
    assert rails.peers.low[: rails.n].tolist() == [int(low)] + [0] * (rails.n - 1)


def test_a_port_that_only_receives_is_not_at_work() -> None:
    """Others may send to the ports of a job that stands still."""
    rails = Rails(nics=1)
    rails.set([0.2] + [0.5] * (rails.n - 1), [0.0] * rails.n)
    rails.tracks.pressure.traffic.latest[0, 0] = 0.0
    rails.advance()
    rails.window()
    assert rails.peers.seen[: rails.n].tolist() == [0] + [1] * (rails.n - 1)
    assert not rails.peers.low[: rails.n].any()


def test_a_port_that_carries_what_it_did_is_not_low_where_its_peers_carry_more() -> None:
    rails = Rails(12, 1)
    amounts = [0.1 + 0.05 * at for at in range(12)]
    rails.set(amounts, [0.0] * 12)
    rails.advance()
    for _ in range(2 * WINDOWS):
        rails.window()
    rails.set([0.1, *(2 * amount for amount in amounts[1:])], [0.0] * 12)
    for _ in range(2 * WINDOWS):
        rails.window()
    assert rails.peers.of_own[0] < 0.7
    assert not rails.peers.low[0]


@pytest.mark.parametrize(
    ("falls", "with_host", "low"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_port_that_falls_while_its_host_does_not_is_low_where_others_do_other_work(
    falls: bool, with_host: bool, low: bool
) -> None:
    """Most hosts carry less than half of what the others do: a slow port of these carries more than the median."""
    hosts, nics = 48, 4
    rails = Rails(hosts, nics)
    pace = [0.3 if int(c.node[-3:]) % 5 else 0.8 for c in rails.table.ids[: rails.n]]
    rails.set(pace, [0.0] * rails.n)
    rails.advance()
    for _ in range(2 * WINDOWS):
        rails.window()
    mine = [row for row, c in enumerate(rails.table.ids[: rails.n]) if c.node.endswith("010")]
    fallen = mine if with_host else mine[1:2]
    rails.set([0.5 if falls and row in fallen else one for row, one in enumerate(pace)], [0.0] * rails.n)
    for _ in range(2 * WINDOWS):
        rails.window()
    assert (rails.peers.low_on_host[mine[1]] >= 10) == low
    assert not np.delete(rails.peers.low_on_host[: rails.n], mine[1]).any()


@pytest.mark.parametrize(("slow", "low"), [(False, False), (True, True)])
def test_a_port_that_has_the_part_of_its_host_that_it_had_is_not_low_where_others_begin_a_job(
    slow: bool, low: bool
) -> None:
    """The ports of each host differ; then a job makes those of most hosts alike; one of another has less than before
    or what it had."""
    hosts, nics = 48, 4
    rails = Rails(hosts, nics)
    where = [(int(c.node[-3:]), row % nics) for row, c in enumerate(rails.table.ids[: rails.n])]
    pace = [0.1 + 0.05 * ((host + 2 * nic) % 5) for host, nic in where]
    rails.set(pace, [0.0] * rails.n)
    rails.advance()
    for _ in range(2 * WINDOWS):
        rails.window()
    begun = [0.6 if host < 44 else one for (host, _), one in zip(where, pace, strict=True)]
    least = next(row for row, (host, _) in enumerate(where) if host > 43 and pace[row] == 0.1)
    begun[least] *= 0.5 if slow else 1.0
    rails.set(begun, [0.0] * rails.n)
    for _ in range(2 * WINDOWS):
        rails.window()
    assert (rails.peers.low_on_host[least] >= 10) == low
    assert not np.delete(rails.peers.low_on_host[: rails.n], least).any()


def test_a_window_in_which_work_begins_is_not_what_a_port_usually_carries() -> None:
    """Its other windows are low by turns, so that they hardly count."""
    rails = Rails(12, 1)
    pace = [0.5] * 11
    rails.set([0.9, *pace], [0.0] * 12)
    rails.advance()
    for at in range(5 * WINDOWS):
        rails.window()
        rails.set([0.38 if at % 3 else 0.47, *pace], [0.0] * 12)
    assert rails.peers.low[0] == 2 * WINDOWS // 3
    assert rails.peers.of_own[0] > 0.75


@pytest.mark.parametrize(("odd", "low"), [(1, 1), (2, 2), (3, 0)])
def test_more_than_a_tenth_of_a_group_are_no_stragglers(odd: int, low: int) -> None:
    rails = Rails(nics=1)
    rails.set([0.2] * odd + [0.5] * (rails.n - odd), [0.0] * rails.n)
    rails.advance()
    rails.window()
    assert rails.peers.low[: rails.n].sum() == low


@pytest.mark.parametrize(("hosts", "windows"), [(LEAST, 1), (LEAST - 1, 0)])
def test_a_group_has_eight_ports_at_work(hosts: int, windows: int) -> None:
    rails = Rails(hosts, 1)
    rails.advance()
    rails.window()
    assert rails.peers.seen[: rails.n].tolist() == [windows] * hosts


def test_storage_is_not_compared_and_a_port_of_no_role_is() -> None:
    rails = Rails(10, 3, ("compute", "storage", "unknown"))
    rails.advance()
    rails.window()
    compared = {rails.table.ids[row].name for row in np.flatnonzero(rails.peers.seen[: rails.n])}
    assert compared == {"mlx5_0/1", "mlx5_2/1"}


def test_ports_of_two_jobs_are_two_groups() -> None:
    """Each of the jobs is at its own pace: nobody is low; without the jobs half of the ports differ from the rest."""
    rails = Rails(20, 1)
    of = {(rails.table.ids[row].node, rails.table.ids[row].name): row % 2 for row in range(18)}
    rails.jobs(of)
    rails.set([0.2 if row % 2 else 0.5 for row in range(20)], [0.0] * 20)
    rails.tracks.pressure.traffic.latest[:2, 4] = 0.3
    rails.advance()
    rails.window()
    assert np.flatnonzero(rails.peers.low[:20]).tolist() == [4]
    assert rails.peers.size[:20].tolist() == [9] * 18 + [0] * 2  # two without a job are too few
    assert rails.peers.in_job[:20].tolist() == [True] * 18 + [False] * 2
    assert rails.peers.median[:18].tolist() == pytest.approx([0.5, 0.2] * 9)


def test_each_group_has_its_turn_once_in_ten_seconds_however_uneven_the_ticks() -> None:
    rails, rng, elapsed = Rails(8, 8), random.Random(5), 0.0
    rails.advance()
    while elapsed < 20 * EVERY:
        step = rng.choice((0.1, 0.25, 0.3, 1.0))
        elapsed += step
        rails.advance(step)
        behind = (elapsed - 1.0) // EVERY
        assert (rails.peers.seen[: rails.n] >= min(WINDOWS, behind)).all(), elapsed
        assert (rails.peers.seen[: rails.n] <= min(WINDOWS, elapsed // EVERY + 2)).all(), elapsed


def test_the_turns_of_one_window_are_spread_over_it() -> None:
    rails = Rails(8, 8)
    rails.advance()
    evaluated = []
    for _ in range(TURNS):
        evaluated.append(int(np.count_nonzero(rails.peers.seen[: rails.n])))
        rails.advance(STEP)
    assert evaluated == sorted(evaluated)
    assert evaluated[0] == 0 or evaluated[0] <= 8
    assert evaluated[TURNS // 2] in range(24, 41)
    assert evaluated[-1] == rails.n


@pytest.mark.parametrize(("pause", "seen"), [(FORGOTTEN - EVERY, 3), (FORGOTTEN + EVERY, 1)])
def test_what_was_seen_before_a_long_rest_belongs_to_another_job(pause: float, seen: int) -> None:
    rails = Rails(8, 1)
    rails.set([0.1] + [0.5] * 7, [0.0] * 8)
    rails.advance()
    for _ in range(2):
        rails.window()
    rails.set([0.5] * 8, [0.0] * 8)
    rails.advance(pause)
    rails.window()
    assert rails.peers.seen[:8].tolist() == [seen] * 8
    assert rails.peers.low[0] == (3 if seen > 1 else 0), "its averages are low for a window more"


@pytest.mark.parametrize("step", [-3600.0, 2 * EVERY, 86_400.0])
def test_a_clock_that_steps_begins_a_window(step: float) -> None:
    rails = Rails(8, 1)
    rails.advance()
    rails.window()
    rails.advance(step)
    before = rails.peers.seen[0]
    rails.window()
    assert rails.peers.seen[0] - before in (0, 1)
    assert rails.now - rails.peers.evaluated[0] < EVERY + STEP


def test_many_groups_in_one_turn_have_their_own_medians() -> None:
    """100 rails of 8 ports: more groups than turns; each has its own pace and its own straggler."""
    rails = Rails(8, 100)
    pace = [0.3 + 0.006 * int(component.name[5:].partition("/")[0]) for component in rails.table.ids]
    slow = {row for row in range(rails.n) if row % 101 == 0}
    rails.set([one * (0.5 if row in slow else 1.0) for row, one in enumerate(pace)], [0.0] * rails.n)
    rails.advance()
    rails.window()
    rails.window()
    assert set(np.flatnonzero(rails.peers.low[: rails.n]).tolist()) == slow
    assert set(rails.peers.low[sorted(slow)].tolist()) == {2}
    assert rails.peers.median[: rails.n].tolist() == pytest.approx(pace, rel=1e-5)


def uneven(windows: int) -> tuple[list[float], Rails]:
    """The shares of eight ports that differ by more than what one of them loses, and their rail after some windows."""
    pace = [0.2 + 0.04 * row for row in range(8)]
    rails = Rails(8, 1)
    rails.set(pace, [0.0] * 8)
    rails.advance()
    for _ in range(windows):
        rails.window()
    return pace, rails


@pytest.mark.parametrize(("before", "after", "low"), [(40, 19, 12), (1, 19, 0), (40, 10, 5)])
def test_a_port_that_changes_among_ports_that_differ_is_low(before: int, after: int, low: int) -> None:
    """The shares of the others spread more than the change of one, which it needs WINDOWS windows to be known by."""
    pace, rails = uneven(before)
    rails.set([0.6 * one if row == 5 else one for row, one in enumerate(pace)], [0.0] * 8)
    for _ in range(after):
        rails.window()
    assert rails.peers.low[:8].tolist() == [low if row == 5 else 0 for row in range(8)]
    assert rails.peers.own[5] == pytest.approx(pace[5] / statistics.median(pace), rel=0.06) or not low


def test_what_a_port_lost_is_no_part_of_what_is_usual_for_it_while_little_is_known() -> None:
    pace, rails = uneven(25)
    rails.set([0.68 * one if row == 2 else one for row, one in enumerate(pace)], [0.0] * 8)
    for _ in range(5 * WINDOWS):
        rails.window()
    assert rails.peers.low[2] == WINDOWS
    assert rails.peers.of_own[2] == pytest.approx(0.68, abs=0.02)


@pytest.mark.parametrize(("lasts", "found"), [(30, [5]), (5, [])])
def test_a_port_is_low_by_its_averages_also_where_a_window_reaches_what_its_peers_carry(
    lasts: int, found: list[int]
) -> None:
    """Loads go up and down within half a minute: of what a port lost one of three windows shows nothing. But what was
    short is over soon."""
    rails = Rails(24, 1)
    usual = np.linspace(0.35, 0.65, 24)
    usual[5] = 0.57
    for window in range(20 + lasts + 12):
        share = usual * (1.0 + 0.3 * np.sin(2 * np.pi * (window / 3 + np.arange(24) / 24)))
        share[5] *= 0.6 if 20 <= window < 20 + lasts else 1.0
        rails.set(share.tolist(), [0.0] * 24)
        rails.window()
        if window >= 20:
            assert (np.flatnonzero(rails.peers.low[:24] >= 10).tolist() in ([], found)), window
        if window == 19 + lasts:
            assert np.flatnonzero(rails.peers.low[:24] >= 10).tolist() == found


@pytest.mark.parametrize(("slow", "found"), [((1,), [(3, 1)]), ((0, 1, 2, 3), [])])
def test_a_port_that_loses_its_part_of_its_host_is_low_among_hosts_that_lost_work(
    slow: tuple[int, ...], found: list[tuple[int, int]]
) -> None:
    """The ports of a rail differ, and a sixth of the hosts have half of their work since others died: neither the rail
    nor what each carried before shows one that is slow, but the other adapters of its host do."""
    rails, random = Rails(32, 4), np.random.default_rng(6)
    share = random.uniform(0.3, 0.7, (32, 4))
    for _ in range(20):
        rails.set((share * random.normal(1, 0.02, share.shape)).reshape(-1).tolist(), [0.0] * 128)
        rails.window()
    share[10:16] *= 0.5
    share[3, list(slow)] *= 0.4
    for _ in range(30):
        rails.set((share * random.normal(1, 0.02, share.shape)).reshape(-1).tolist(), [0.0] * 128)
        rails.window()
    low = rails.peers.low[: rails.n].reshape(32, 4) >= 10
    assert [(host, nic) for host, nic in np.argwhere(low).tolist()] == found


def test_a_port_whose_host_lost_its_least_adapter_carries_what_it_did() -> None:
    """The others of its host carry more at least, once the one that carries little stands still: a leaf of its rail is
    under maintenance. A port that always carries less than the others of its rail has lost nothing by that."""
    rails, random = Rails(32, 4), np.random.default_rng(8)
    share = np.tile([0.6, 0.5, 0.5, 0.55], (32, 1)) * random.normal(1, 0.01, (32, 4))
    share[3] = [0.35, 0.1, 0.5, 0.55]
    for window in range(50):
        share[3, 1] = 0.1 if window < 20 else 0.0
        rails.set((share * random.normal(1, 0.01, share.shape)).reshape(-1).tolist(), [0.0] * 128)
        rails.window()
    assert not rails.peers.low_on_host[: rails.n].reshape(32, 4)[3, 0]


def test_a_window_in_which_the_work_pauses_is_none_in_which_a_port_carries_less() -> None:
    """A checkpoint: the windows before and after it are in part idle. What falls later began then."""
    rails = Rails(16, 1)
    for share in (0.5,) * 20 + (0.1,) + (0.0,) * 6 + (0.2,) + (0.5,) * 3:
        rails.set([share if row == 4 else 0.5 for row in range(16)], [0.0] * 16)
        rails.window()
    peers = rails.peers
    usual = float(peers.as_usual[4])
    assert usual == float(peers.evaluated[4])
    for _ in range(12):
        rails.set([0.2 if row == 4 else 0.5 for row in range(16)], [0.0] * 16)
        rails.window()
    assert float(peers.as_usual[4]) == usual


@pytest.mark.parametrize(("part", "low"), [(0.65, True), (0.8, False)])
def test_a_port_whose_windows_differ_as_its_peers_do_is_low_by_its_average(part: float, low: bool) -> None:
    """Work comes in pulses, of which a window has more or fewer."""
    rng, rails = random.Random(1), Rails(16, 1)
    rails.advance()
    for _ in range(4 * WINDOWS):
        pulses = [rng.choice((0.45, 0.5, 0.55)) for _ in range(16)]
        rails.set([part * one if row == 5 else one for row, one in enumerate(pulses)], [0.0] * 16)
        rails.window()
    assert (rails.peers.low[5] >= 10) == low
    assert rails.peers.low[[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]].max() < 10


def test_a_port_that_carries_what_it_did_is_not_low_by_its_average_where_most_carry_more() -> None:
    rails = Rails(16, 1)
    rails.advance()
    for _ in range(2 * WINDOWS):
        rails.window()
    for at in range(2 * WINDOWS):
        rails.set([0.5 if row == 5 else (0.64, 0.8, 0.96)[(row + at) % 3] for row in range(16)], [0.0] * 16)
        rails.window()
    assert rails.peers.low[5] < 10


@pytest.mark.parametrize(("slow", "found"), [((4, 5), [4, 5]), ((4, 6), [])])
def test_two_ports_of_one_adapter_are_one_of_few(slow: tuple[int, int], found: list[int]) -> None:
    rails = Rails(16, 1)
    rails.jobs({})
    domains = rails.table.domains
    assert domains is not None
    domains.ids["nic"] = np.arange(rails.n, dtype=np.int32) // 2
    rails.advance()
    rails.window()
    rails.set([0.2 if row in slow else 0.5 for row in range(16)], [0.0] * 16)
    rails.window()
    assert np.flatnonzero(rails.peers.low[:16]).tolist() == found


@pytest.mark.parametrize(("others", "low"), [((0.1, 0.1, 0.1), True), ((0.06, 0.1, 0.2), False)])
def test_a_port_is_not_compared_with_the_other_adapters_of_a_host_that_are_unlike(
    others: tuple[float, float, float], low: bool
) -> None:
    """A host without a job beside those of one: its adapters do different work."""
    rails = Rails(48, 4)
    mine = [row for row, c in enumerate(rails.table.ids[: rails.n]) if c.node.endswith("010")]
    share = [0.5] * rails.n
    for row, one in zip(mine, (0.03, *others), strict=True):
        share[row] = one
    rails.set(share, [0.0] * rails.n)
    rails.advance()
    for _ in range(2 * WINDOWS):
        rails.window()
    assert (rails.peers.low_on_host[mine[0]] >= 10) == low


def test_a_lasting_change_is_the_usual_share_after_hours() -> None:
    pace, rails = uneven(40)
    rails.set([0.7 * one if row == 5 else one for row, one in enumerate(pace)], [0.0] * 8)
    for _ in range(3 * 360):
        rails.window()
    assert rails.peers.low[5] == 0


def test_a_port_of_another_job_has_no_usual_share_yet() -> None:
    pace, rails = uneven(40)
    rails.jobs({(component.node, component.name): 0 for component in rails.table.ids[:8]})
    rails.set([0.6 * one if row == 5 else one for row, one in enumerate(pace)], [0.0] * 8)
    rails.window()
    rails.window()
    assert rails.peers.low[5] == 0


def test_windows_before_a_job_count_nothing_within_it() -> None:
    """Idle beside others at work, then one of a job that begins: it is as fast as its peers there."""
    rails = Rails(16, 1)
    rails.jobs({})
    rails.set([0.02 if row < 8 else 0.5 for row in range(16)], [0.0] * 16)
    rails.advance()
    for _ in range(WINDOWS + 1):
        rails.window()
    rails.set([0.02 if row < 1 else 0.5 for row in range(16)], [0.0] * 16)
    for _ in range(WINDOWS):
        rails.window()
    assert rails.peers.low[0] == WINDOWS
    rails.jobs({(component.node, component.name): 0 for component in rails.table.ids[:8]})
    rails.set([0.5] * 16, [0.0] * 16)
    rails.window()
    rails.window()
    assert (rails.peers.low[0], rails.peers.low_on_host[0]) == (0, 0)
    assert rails.peers.seen[0] < WINDOWS, "not known yet: it is neither slow nor well"
    assert rails.peers.seen[8] == WINDOWS, "of no job, as before"


@pytest.mark.parametrize(("strangers", "compared"), [(2, False), (7, True)])
def test_a_port_filed_on_the_rail_of_ports_with_another_name_is_compared_with_none(
    strangers: int, compared: bool
) -> None:
    """Of 26 ports two are filed wrongly; seven of 31 are too many for that: the rail has ports of two names."""
    rails = Rails(nics=4)
    rails.jobs({})
    rail, names = rails.table.domains.ids["rail"], [component.name for component in rails.table.ids]
    others = [row for row in range(rails.n) if names[row] == "mlx5_1/1"][:strangers]
    rail[others] = rail[names.index("mlx5_0/1")]
    for _ in range(2):
        rails.window()
    assert [bool(np.isfinite(rails.peers.evaluated[row])) for row in others] == [compared] * strangers
    assert np.isfinite(rails.peers.evaluated[names.index("mlx5_0/1")])


def test_a_host_that_numbers_its_ports_otherwise_is_compared() -> None:
    rails = Rails(nics=4)
    rails.jobs({})
    rail, ids = rails.table.domains.ids["rail"], rails.table.ids
    of = {ids[row].name: int(rail[row]) for row in range(rails.n)}
    mine = [row for row in range(rails.n) if ids[row].node == ids[0].node]
    rail[mine] = [of[f"mlx5_{(int(ids[row].name[5]) + 1) % 4}/1"] for row in mine]
    for _ in range(2):
        rails.window()
    assert np.isfinite(rails.peers.evaluated[mine]).all()
