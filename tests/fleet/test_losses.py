"""Windows of packet loss, row by row, against a plain telling of docs/methods.md#packet-loss."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.fleet.losses import (
    CEILING,
    IDLE,
    LEAST_SIGNS,
    MEMORY,
    MTU,
    SLOWEST,
    STARTING,
    USUAL_TIMEOUTS,
    WINDOW,
    Limits,
)
from fabricmon.model import Component, Kind, Part
from tests.fleet.site import Site, port_part

NAN = math.nan
LOST = (("seq_nak_rx", "ack_timeout", "implied_nak"), ("retrans_packets",))
SENT = (("rdma_tx_packets", 1.0), ("xmit_packets", 1.0), ("rdma_tx_bytes", 1 / MTU))
MAKES: tuple[tuple[tuple[str, ...], tuple[str, ...], float], ...] = (
    (("seq_nak_rx", "ack_timeout"), ("rdma_tx_packets",), 10.0),
    (("retrans_packets",), ("rdma_tx_bytes",), 10.0),
    (("seq_nak_rx", "retrans_packets"), ("xmit_packets", "rdma_tx_bytes"), 10.0),
    (("implied_nak",), ("xmit_packets",), SLOWEST),
    (("implied_nak",), ("xmit_packets",), SLOWEST + 1),
)
"""Loss counters, packet counters and the seconds between reads of the latter, by make of adapter."""


@dataclass
class Host:
    """One port. `windows`: (lost, sent, timers), the newest first."""

    lost: tuple[str, ...]
    sent: tuple[str, ...]
    period: float
    count: dict[str, float] = field(default_factory=dict)
    opened: float = 0.0
    fired: float = 0.0
    before: float = NAN
    mark: dict[str, float] | None = None
    windows: list[tuple[float, float, float]] = field(default_factory=list)
    ended: float = NAN
    lapsed: float = NAN
    mean: float = 0.0

    def reads(self, rises: Mapping[str, float], now: float) -> None:
        """One reading of all counters by which they rose, a negative rise: it began anew at 0."""
        lost = [name for group in LOST for name in group if name in self.lost]
        if any(name in LOST[0] for name in lost):
            lost = [name for name in lost if name in LOST[0]]
        for name in (*self.lost, *self.sent):
            rise = rises.get(name, 0.0)
            self.count[name] = self.count[name] + rise if rise >= 0 else 0.0
            if name in lost and rise > 0:
                self.opened += rise
                self.fired += rise if name == "ack_timeout" else 0.0
        self.end_of_window(now)

    def end_of_window(self, now: float) -> None:
        before, self.mark = self.mark, dict(self.count)
        if before is None or self.period > SLOWEST:
            return
        source, packets = next((name, packets) for name, packets in SENT if name in self.sent)
        rose = [n for n, _ in SENT if n in self.sent and self.count[n] >= before[n]]
        if rose:
            source, packets = rose[0], dict(SENT)[rose[0]]
            sent = (self.count[source] - before[source]) * packets
        else:
            sent = NAN
        lost, timers, self.opened, self.fired = self.opened, self.fired, 0.0, 0.0
        former, self.before = self.before, sent
        sent = max(sent, lost) if sent == sent else NAN
        begins = not former >= STARTING * sent
        answered = any(name in LOST[0] for name in self.lost) and lost > timers
        only_waits = lost >= sent and former == former and not answered
        if sent > 0 and (not begins or only_waits):
            self.windows = [(lost, sent, timers), *self.windows[:2]]
            weight = min(now - self.ended, 6 * WINDOW) / MEMORY if self.ended == self.ended else WINDOW / MEMORY
            self.mean += weight * (min(lost / sent, CEILING) - self.mean)
            self.ended, self.lapsed = now, NAN

    def lapses(self, now: float) -> None:
        if self.windows and now - self.ended > IDLE:
            lossy = any(lost > 0 for lost, _, _ in self.windows)
            self.windows, self.lapsed = [], now if lossy else NAN


SECONDS = (10.0, 10.0, 10.0, 10.0, 20.0, 60.0, 310.0)
RISES = {name: (0.0, 0.0, 0.0, 1.0, 2.0, 7.0, 500.0) for group in LOST for name in group}
RISES |= {name: (0.0, 10.0, 100.0, 500.0, 5e3, 5e3, 1e6, 4.096e6, -1.0) for name, _ in SENT}


@pytest.mark.parametrize("seed", range(8))
def test_a_window_holds_what_was_lost_and_sent_since_the_one_before(seed: int) -> None:
    rng = random.Random(seed)
    happens = [(rng.choice(SECONDS), [{name: rng.choice(by) for name, by in RISES.items()} for _ in MAKES])
               for _ in range(40)]  # fmt: skip
    site, hosts, taken = Site(), [Host(*make) for make in MAKES], 100.0
    for number, host in enumerate(hosts):
        port = (Component("p/1", {"device": "p", "role": "compute"}),)
        parts = (Part("rdma", Kind.PORT, host.lost, port, 10.0), Part("wire", Kind.PORT, host.sent, port, host.period))
        host.count = dict.fromkeys((*host.lost, *host.sent), 1000.0)
        site.inventory(f"h{number}", *parts)
    for step, (after, moves) in enumerate([(0.0, [{}] * 5), *happens]):
        taken += after
        site.now += after
        for number, (host, rise) in enumerate(zip(hosts, moves, strict=True)):
            if step:
                host.reads(rise, site.now)
            else:
                host.mark = dict(host.count)
            host.lapses(site.now)
            site.send(f"h{number}", {("p/1", name): count for name, count in host.count.items()}, taken)
        losses = site.tick().tracks.losses
        for number, host in enumerate(hosts):
            row = site.row(f"h{number}", "p/1")
            shown = [tuple(kept[window, row] for kept in (losses.lost, losses.sent, losses.timeouts))
                     for window in range(3)]  # fmt: skip
            known = [window for window in shown if not math.isnan(window[0])]
            assert known == [pytest.approx(window, rel=1e-6) for window in host.windows], (number, step)
            assert (losses.ended[row], losses.lapsed[row]) == pytest.approx((host.ended, host.lapsed), nan_ok=True)
            assert losses._mean[row] == pytest.approx(host.mean, rel=1e-4, abs=1e-15)
            lost, sent = (sum(window[at] for window in host.windows) for at in (0, 1))
            share = losses.ratio(np.array([row]))[0]
            assert share == pytest.approx(lost / sent, rel=1e-5) if sent else math.isnan(share)


# --- which windows are bad


def tail(count: int, mean: float) -> float:
    """P(X >= count) of a Poisson variable, term by term."""
    term = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    total, number = term, count
    while term > total * 1e-15:
        number += 1
        term *= mean / number
        total += term
    return min(total, 1.0)


def discovered(tails: Sequence[tuple[int, float]], tests: int, rate: float) -> set[int]:
    """Benjamini and Hochberg: rows of the smallest tails, up to the last that is below its line."""
    ordered = sorted(tails, key=lambda one: one[1])
    last = max((at for at, (_, p) in enumerate(ordered, 1) if p <= at * rate / tests), default=0)
    return {row for row, _ in ordered[:last]}


windows = st.lists(
    st.tuples(
        st.sampled_from((0.0, 2.0, 3.0, 4.0, 10.0, 50.0)),  # lost
        st.sampled_from((1e2, 3e5, 4e5, 1e6, 1e9)),  # sent
        st.sampled_from((0.0, 0.0, 4.0, 5.0, 6.0)),  # timers
        st.sampled_from((0.0, 0.0, 1e-6, 1e-5)),  # usual share
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=80)
@given(windows, st.sampled_from((Limits(), Limits(least=4.0, weak=1e-6), Limits(timeouts=6.0, elevated=2.0))))
def test_a_window_is_bad_by_its_share_or_its_timers_beyond_what_is_usual(shown: list, limits: Limits) -> None:
    site = Site()
    for row in range(len(shown)):
        site.inventory(f"h{row}", Part("rdma", Kind.PORT, ("seq_nak_rx",), (Component("p/1"),), 10.0))
    losses = site.tick().tracks.losses
    lossy, stalled = [], []
    for number, (lost, sent, timers, usual) in enumerate(shown):
        row = site.row(f"h{number}", "p/1")
        losses.lost[1, row], losses.sent[1, row], losses.timeouts[1, row], losses.usual[row] = lost, sent, timers, usual
        most = max(limits.usual, usual)
        if lost >= limits.least and lost >= max(limits.weak, limits.elevated * most) * sent * (1 - 1e-9):
            lossy.append((row, tail(int(lost), most * sent)))
        if timers >= limits.timeouts:
            stalled.append((row, tail(int(timers), USUAL_TIMEOUTS)))
    bad = {row for found in (lossy, stalled) for row in discovered(found, len(shown), limits.rate)}
    found = losses.bad(limits, len(shown))
    assert {row for row in range(len(shown)) if found[row]} == bad
    assert set(found.tolist()) <= {0, 0b010}
    assert losses.bad(limits, len(shown)).tolist() == found.tolist()
    other = losses.bad(Limits(least=1e9, timeouts=1e9), len(shown))
    assert not other.any()


def test_what_most_ports_of_a_role_lose_is_usual_for_all_of_it_once_there_are_enough() -> None:
    """16 compute ports of which 12 lose a little, 15 storage ports of which all do."""
    site, taken = Site(), 0.0
    hosts = [(role, n) for role, many in (("compute", 16), ("storage", 15)) for n in range(many)]
    for role, n in hosts:
        port = (Component("p/1", {"device": "p", "role": role}),)
        site.inventory(f"{role}-{n}", Part("rdma", Kind.PORT, ("seq_nak_rx", "rdma_tx_packets"), port, 10.0))
    lost = {(role, n): float(n >= 4 or role == "storage") for role, n in hosts}
    for poll in range(26):
        for role, n in hosts:
            cells = {("p/1", "seq_nak_rx"): 9 * poll * lost[role, n], ("p/1", "rdma_tx_packets"): 1e6 * (poll + 1)}
            site.send(f"{role}-{n}", cells, taken)
        losses = site.tick(10.0).tracks.losses
        taken += 10.0
    rows = {key: site.row(f"{key[0]}-{key[1]}", "p/1") for key in hosts}
    usual = {key: float(losses.usual[row]) for key, row in rows.items()}
    assert {usual[key] for key in hosts if key[0] == "storage"} == {0.0}
    learned = {usual[key] for key in hosts if key[0] == "compute"}
    mean = 0.0
    for _ in range(22):  # two polls until traffic counts; the last turn that learns is the 24th
        mean += WINDOW / MEMORY * (9e-6 - mean)
    assert min(learned) == max(learned) == pytest.approx(mean, rel=0.1)


def test_packets_to_a_port_were_lost_where_three_requests_arrived_twice_of_late() -> None:
    site, sent = Site(), 0.0
    site.inventory("n", port_part("c", ("duplicate_request", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    told: list[bool] = []
    for count, wait in (
        (0, 10.0), (0, 10.0), (2, 10.0), (LEAST_SIGNS, 10.0), (LEAST_SIGNS, IDLE), (LEAST_SIGNS + 2, 10.0)
    ):
        site.now, sent = site.now + wait, sent + 1e4
        cells = {"duplicate_request": count, "seq_nak_rx": 0.0, "rdma_tx_packets": sent}
        site.send("n", {("p/1", name): value for name, value in cells.items()}, site.now)
        told.extend(site.tick().losses.lost_towards(1, site.now).tolist())
    assert told == [False, False, False, True, True, False]  # the last: older than IDLE does not count any more


def test_a_few_requests_of_very_many_that_arrive_twice_are_no_loss() -> None:
    """Ten times what is usual is 1e-6 of the packets."""
    site, sent, count, told = Site(), 0.0, 0.0, list[bool]()
    site.inventory("n", port_part("c", ("duplicate_request", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    for twice in (0, 0, 0, 4, 4, 5000):
        site.now, sent, count = site.now + WINDOW, sent + 1e8, count + twice
        cells = {"duplicate_request": count, "seq_nak_rx": 0.0, "rdma_tx_packets": sent}
        site.send("n", {("p/1", name): value for name, value in cells.items()}, site.now)
        told.extend(site.tick().losses.lost_towards(1, site.now).tolist())
    assert told == [False, False, False, False, False, True]


@pytest.mark.parametrize(("windows", "lost"), [(1, False), (2, True), (3, True)])
def test_a_burst_of_requests_that_arrive_twice_is_no_loss(windows: int, lost: bool) -> None:
    """Connections that are set up make one, at ports that work as well."""
    site, sent, count = Site(), 0.0, 0.0
    site.inventory("n", port_part("c", ("duplicate_request", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    for poll in range(10):
        site.now, sent, count = site.now + WINDOW, sent + 1e6, count + (400 if 4 <= poll < 4 + windows else 0)
        cells = {"duplicate_request": count, "seq_nak_rx": 0.0, "rdma_tx_packets": sent}
        site.send("n", {("p/1", name): value for name, value in cells.items()}, site.now)
        losses = site.tick().losses
    assert losses.lost_towards(1, site.now).tolist() == [lost]


@pytest.mark.parametrize("late", [0, 4000])
def test_what_is_usual_for_hours_is_no_loss_and_hides_none(late: int) -> None:
    """At one of eight ports a few packets are late in each window, 2e-7 of them: they do not add up. A loss in two
    windows is seen all the same."""
    site, hosts, mine = Site(), list("abcdefgh"), 0.0
    for host in hosts:
        site.inventory(host, port_part("c", ("out_of_sequence_rx", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    for poll in range(200):
        site.now, mine = site.now + WINDOW, mine + 2 + (late if poll >= 198 else 0)
        for host in hosts:
            cells = {"seq_nak_rx": 0.0, "rdma_tx_packets": 1e7 * (poll + 1)}
            cells["out_of_sequence_rx"] = mine if host == "a" else 0.0
            site.send(host, {("p/1", name): value for name, value in cells.items()}, site.now)
        losses = site.tick().losses
    assert losses.lost_towards(len(hosts), site.now)[site.row("a", "p/1")] == bool(late)


def test_a_port_to_which_few_packets_are_lost_for_long_stays_one() -> None:
    """Less than half of IDLE apart, for half an hour; and traffic that stopped is no error."""
    site, hosts, sent, count, found = Site(), list("abcdefgh"), 0.0, 0.0, list[bool]()
    for host in hosts:
        site.inventory(host, port_part("c", ("out_of_sequence_rx", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    for poll in range(240):
        site.now, sent, count = site.now + WINDOW, sent + (1e3 if poll < 180 else 0), count + (poll % 14 == 5)
        for host in hosts:
            cells = {"out_of_sequence_rx": count if host == "a" else 0, "seq_nak_rx": 0.0, "rdma_tx_packets": sent}
            site.send(host, {("p/1", name): value for name, value in cells.items()}, site.now)
        found.append(bool(site.tick().losses.lost_towards(len(hosts), site.now)[site.row("a", "p/1")]))
    assert found.index(True) in range(33, 36), "the third of them"
    assert all(found[36:180])
    assert not found[-1]


def test_packets_out_of_sequence_are_a_loss_only_where_most_ports_receive_fewer() -> None:
    """Adaptive routing makes them at all ports alike."""
    for everywhere in (0.0, 40.0):
        site, hosts = Site(), [f"n{number}" for number in range(8)]
        for host in hosts:
            site.inventory(host, port_part("c", ("out_of_sequence_rx", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
        for poll in range(5):
            site.now += WINDOW
            for host in hosts:
                late = poll * (4000.0 if host == "n3" else everywhere)
                cells = {"out_of_sequence_rx": late, "seq_nak_rx": 0.0, "rdma_tx_packets": 1e6 * (poll + 1)}
                site.send(host, {("p/1", name): value for name, value in cells.items()}, site.now)
            losses = site.tick().losses
        found = losses.lost_towards(len(hosts), site.now)
        assert np.flatnonzero(found).tolist() == [site.row("n3", "p/1")]


def test_requests_that_arrive_twice_while_traffic_begins_are_no_loss() -> None:
    """A job that sets up its connections sends requests again; the same later is a loss."""
    site, sent, count, told = Site(), 0.0, 0.0, list[bool]()
    site.inventory("n", port_part("c", ("duplicate_request", "seq_nak_rx", "rdma_tx_packets"), "p/1"))
    for more, twice in ((1e3, 0), (1e3, 0), (1e6, 50), (1e6, 0), (1e6, 50), (1e6, 50)):
        site.now, sent, count = site.now + WINDOW, sent + more, count + twice
        cells = {"duplicate_request": count, "seq_nak_rx": 0.0, "rdma_tx_packets": sent}
        site.send("n", {("p/1", name): value for name, value in cells.items()}, site.now)
        told.extend(site.tick().losses.lost_towards(1, site.now).tolist())
    assert told == [False, False, False, False, False, True]  # the last is the second window with a loss


def test_what_timers_found_is_a_part_of_what_was_lost() -> None:
    site, sent = Site(), 0.0
    site.inventory("n", port_part("c", ("seq_nak_rx", "ack_timeout", "rdma_tx_packets"), "p/1"))
    for poll in range(4):
        sent += 1e6
        cells = {"seq_nak_rx": 30.0 * poll, "ack_timeout": 10.0 * poll, "rdma_tx_packets": sent}
        site.send("n", {("p/1", name): value for name, value in cells.items()}, site.now)
        losses = site.tick(WINDOW).tracks.losses
    row = np.array([site.row("n", "p/1")])
    assert losses.ratio(row)[0] == pytest.approx(4e-5, rel=0.01)
    assert losses.timed_out(row)[0] == pytest.approx(1e-5, rel=0.01)


@pytest.mark.parametrize(
    ("counter", "counts"), [("ack_timeout", True), ("seq_nak_rx", False), ("retrans_packets", True)]
)
def test_an_idle_port_waits_for_a_peer_that_answers_nothing(counter: str, counts: bool) -> None:
    """NAKs are answers: connections are set up. What a driver without NAKs sends again may be either."""
    site = Site()
    site.inventory("n", port_part("c", (counter, "rdma_tx_packets"), "p/1"))
    for poll in range(4):
        cells = {("p/1", counter): 20.0 * poll, ("p/1", "rdma_tx_packets"): 1e6}
        site.send("n", cells, site.now)
        losses = site.tick(WINDOW).tracks.losses
    assert bool(losses.bad(Limits(), 1)[0]) == counts
