"""congestion: shares of time in which ports wait, over real counters, windows and judges."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.rules.bench_of_pressure import Pressed, quiet

SOME = [(0, 0), (1, 0)]


def test_a_third_of_the_time_is_congestion_after_three_windows_and_ends_after_two_calm_minutes() -> None:
    ports = Pressed()
    ports.rate(SOME, pfc_rx_pause_prio3=0.35)
    assert ports.until("congestion", 20) == 9
    assert ports.open("congestion") == set(SOME)
    (first, *_) = ports.evidence("congestion", 0, 0)
    assert "35%, 35%, 35%" in first.text
    assert ports.rule_states.by_rule["congestion"].open[ports.row(0, 0)].symptom.severity == "info"
    ports.rate(SOME, pfc_rx_pause_prio3=0.0)
    ports.polls(13)
    assert ports.open("congestion") == set(SOME)
    ports.polls(3)
    assert quiet(ports)


def test_medium_waiting_needs_ten_minutes_and_low_waiting_never_counts() -> None:
    ports = Pressed()
    ports.rate([(0, 0)], pfc_rx_pause_prio3=0.18)
    ports.rate([(1, 0)], pfc_rx_pause_prio3=0.14)
    assert ports.until("congestion", 59) is None
    ports.polls(3)
    assert ports.open("congestion") == {(0, 0)}
    ports.polls(60)
    assert ports.open("congestion") == {(0, 0)}


def test_bursts_of_a_collective_are_none() -> None:
    ports = Pressed(hosts=1, nics=2, poll=2.0)
    for second in range(0, 1200, 2):
        ports.rate(ports.rates, pfc_rx_pause_prio3=0.5 if second % 8 == 0 else 0.0)
        ports.poll()
        assert quiet(ports)
    assert ports.view().tracks.pressure.usual.mean[ports.row(0, 0)] == pytest.approx(0.125, abs=0.01)


def test_the_worst_priority_counts_and_not_the_sum() -> None:
    ports = Pressed()
    ports.rate(SOME, pfc_rx_pause_prio3=0.2, pfc_rx_pause_prio4=0.2)
    ports.polls(30)
    assert quiet(ports)
    ports.rate(SOME, pfc_rx_pause_prio4=0.4)
    assert ports.until("congestion", 12) is not None


def test_an_idle_port_is_not_known_and_one_that_falls_idle_still_ends() -> None:
    ports = Pressed()
    ports.work([(5, 0)], 0.0)
    ports.polls(100)
    assert not ports.known("congestion", 5, 0)
    assert ports.known("congestion", 4, 0)
    ports.rate(SOME, pfc_rx_pause_prio3=0.5)
    ports.polls(12)
    assert ports.open("congestion") == set(SOME)
    ports.work(SOME, 0.0)
    ports.rate(SOME, pfc_rx_pause_prio3=0.0)
    ports.polls(16)
    assert quiet(ports)


def test_a_port_that_is_paused_all_the_time_is_not_idle() -> None:
    ports = Pressed()
    ports.work(SOME, 0.0)
    ports.rate(SOME, pfc_rx_pause_prio3=1.0)
    ports.polls(12)
    assert ports.open("congestion") == set(SOME)


def test_a_seldom_read_adapter_says_the_same() -> None:
    ports = Pressed(poll=120.0)
    ports.rate(SOME, pfc_rx_pause_prio3=0.35)
    ports.polls(2)
    assert ports.open("congestion") == set(SOME)


def test_an_hour_of_it_is_a_warning() -> None:
    ports = Pressed(hosts=1, nics=1, poll=20.0)
    ports.rate([(0, 0)], pfc_rx_pause_prio3=0.4)
    ports.polls(60)
    assert ports.rule_states.by_rule["congestion"].open[ports.row(0, 0)].symptom.severity == "info"
    ports.polls(125)
    assert ports.rule_states.by_rule["congestion"].open[ports.row(0, 0)].symptom.severity == "warning"


@pytest.mark.parametrize("tick", [1e-6, 2e-8], ids=["1 us", "20 ns"])
def test_ticks_of_unknown_length_are_compared(tick: float) -> None:
    """One rail waits and the others of the same hosts do not; the same ticks on all rails tell nothing."""
    ports = Pressed(layer="InfiniBand")
    ports.rate(ports.rates, xmit_wait_ticks=0.001 / tick)
    ports.polls(30)
    rail = [(host, 2) for host in range(6)]
    ports.rate(rail, xmit_wait_ticks=0.35 / tick)
    ports.polls(11)
    assert ports.open("congestion") == set(rail)
    texts = " ".join(e.text for e in ports.evidence("congestion", 0, 2))
    assert "estimate " in texts
    everywhere = Pressed(layer="InfiniBand")
    everywhere.rate(everywhere.rates, xmit_wait_ticks=0.12 / tick)
    everywhere.polls(60)
    assert quiet(everywhere)


def test_what_two_ports_wait_longer_than_all_others_of_their_make_is_the_longest_wait() -> None:
    ports = Pressed(layer="InfiniBand")
    ports.rate(ports.rates, xmit_wait_ticks=0.05 / 1e-6)
    ports.polls(30)
    ports.rate(SOME, xmit_wait_ticks=0.9 / 1e-6)  # the third greatest is the scale
    ports.polls(11)
    assert ports.open("congestion") == set(SOME)
    first, estimate, *_ = (e.text for e in ports.evidence("congestion", 0, 0))
    assert " 100%, " in first
    shares = [int(share) for share in re.findall(r"(\d+)%", first + estimate)]
    assert max(shares) == 100
    assert shares[-1] < 20, "what its peers wait, of that"


def test_ticks_of_known_length_are_measured() -> None:
    ports = Pressed(layer="InfiniBand", params={"congestion": {"tick": 8.0}})
    ports.rate(ports.rates, xmit_wait_ticks=0.35 * 50e9 / 8)
    ports.polls(1)  # 32 bits of such ticks are full within a second: what is not known is no congestion
    ports.polls(20)
    assert quiet(ports)
    ports = Pressed(layer="InfiniBand", params={"congestion": {"tick": 50_000.0}})
    ports.rate(ports.rates, xmit_wait_ticks=0.35 * 50e9 / 50_000)
    ports.polls(11)
    assert len(ports.open("congestion")) == 32


def test_pause_frames_alone_are_an_upper_bound_that_must_stand_out() -> None:
    most = 50e9 / (65_535 * 512 / 8)  # frames a second that can pause a port all the time
    ports = Pressed(layer="frames")
    ports.rate(ports.rates, pfc_rx_frames_prio3=0.01 * most)
    ports.polls(20)
    ports.rate([(3, 1)], pfc_rx_frames_prio3=0.5 * most)
    ports.polls(11)
    assert ports.open("congestion") == {(3, 1)}


def test_a_gap_in_the_readings_ends_what_was_known() -> None:
    ports = Pressed()
    ports.rate(SOME, pfc_rx_pause_prio3=0.35)
    ports.polls(7)
    ports.poll(300.0)
    ports.polls(7)
    assert quiet(ports)
    ports.polls(3)
    assert ports.open("congestion") == set(SOME)


def test_slots_hold_the_time_whatever_the_pace() -> None:
    for poll in (1.0, 4.0, 10.0, 30.0):
        ports = Pressed(hosts=1, nics=1, poll=poll)
        ports.rate([(0, 0)], pfc_rx_pause_prio3=0.5)
        for _ in range(int(120 / poll)):
            ports.poll()
        stalled = ports.view().tracks.pressure.stalled
        row = np.array([ports.row(0, 0)])
        assert np.allclose(stalled.history(0, row, 9), 0.5, atol=1e-3), poll


BASE, MORE = 0.1e6, 0.5e6  # ticks of a microsecond, in a second


class AlwaysWaiting(Pressed):
    """Ports that wait since before the first reading, as much as any of their make: 100 % of the estimate."""

    def poll(self, seconds: float | None = None) -> None:
        for rates in self.rates.values():
            rates.setdefault("xmit_wait_ticks", BASE)
        super().poll(seconds)


def test_ports_that_always_wait_a_little_and_begin_to_wait_more_are_a_warning_of_their_group() -> None:
    ports = AlwaysWaiting(layer="InfiniBand")
    ports.polls(30)
    assert not ports.firing()
    ports.rate([(host, 1) for host in range(6)], xmit_wait_ticks=MORE)
    ports.polls(12)
    ((kind, component, severity),) = ports.firing("warning")
    assert (kind, component.partition("(")[0], severity) == ("fault_domain", "rail", "warning")


def test_ports_of_a_host_below_the_congested_leaf_are_not_what_its_others_are_compared_with() -> None:
    ports = Pressed(layer="InfiniBand", below={host: host // 2 for host in range(8)})
    ports.rate(ports.rates, xmit_wait_ticks=BASE)
    ports.polls(30)
    crowded = [(host, nic) for host in (0, 1) for nic in range(3)]
    ports.rate(crowded, xmit_wait_ticks=MORE)
    ports.polls(12)
    assert ports.open("congestion") == set(crowded)
    assert [component for _, component, _ in ports.firing("warning")] == ["leaf(leaf-0)"]
