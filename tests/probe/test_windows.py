"""Windows of probes: what counts as lost and late, times by the kernel's stamps, and windows that do not count."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricmon.probe.packet import (
    ANSWER_SIZE,
    FIRST,
    LARGEST,
    SECOND,
    SIZE,
    answer,
    answered,
    asked,
    question,
)
from fabricmon.probe.windows import TIMEOUT, WATERMARK, WINDOW, KernelTimes, ProbeWindows, quantile

MS = 1_000_000
EPOCH = 1_700_000_000 * 10**9


def probe(windows, cookie, at, *, rtt=0.1, held=5.0, own=2.0, flow=1, hardware=False, until="second"):
    """One probe sent at `at` s; times in ms."""
    t1 = EPOCH + round(at * 1e9)
    assert windows.sent(cookie, flow, t1, at)
    t2 = t1 + round(own * MS / 2)
    t5 = t2 + round((rtt + held) * MS)
    skew = 7 * 10**15 if hardware else 0  # the adapter's clock has another epoch
    windows.left(cookie, KernelTimes(t2, t2 + skew if hardware else 0))
    if until != "nothing":
        windows.first(cookie, KernelTimes(t5, t5 + skew if hardware else 0), t5 + round(own * MS / 2), 26 << 2)
        if until == "second":
            windows.second(cookie, held / 1e3)


def closed(windows, until=WINDOW + WATERMARK):
    (one,) = windows.close(until)
    return one


@pytest.mark.parametrize("hardware", [False, True])
def test_the_round_trip_is_the_networks_alone(hardware):
    windows = ProbeWindows(0.0)
    for n in range(100):
        probe(windows, b"%08d" % n, n / 20, rtt=0.1 + n / 1000, held=5.0 + n, own=2.0, hardware=hardware)
    flow = closed(windows).flows[1]
    assert (flow.sent, flow.lost, flow.late, flow.dscp, flow.clock) == (
        100, 0, 0, 26, "adapter" if hardware else "kernel",
    )
    assert flow.rtt == pytest.approx((0.149e-3, 0.198e-3, 0.199e-3), abs=2e-9)
    assert flow.own == pytest.approx(2e-3, abs=1e-8)
    assert flow.peer == pytest.approx(103e-3)


def test_lost_late_and_half_answered_are_three_things():
    windows = ProbeWindows(0.0)
    probe(windows, b"lost", 1.0, until="nothing")
    probe(windows, b"late", 1.0, rtt=1e3 * TIMEOUT + 1)
    probe(windows, b"half", 1.0, until="first")
    probe(windows, b"good", 1.0)
    flow = closed(windows).flows[1]
    assert (flow.sent, flow.lost, flow.late) == (4, 1, 1)
    assert flow.rtt[2] == pytest.approx(TIMEOUT + 1e-3)  # without the second answer there is no round trip


def test_a_probe_that_the_kernel_refused_was_not_sent():
    windows = ProbeWindows(0.0)
    windows.sent(b"a", 1, EPOCH, 1.0)
    windows.unsent(b"a")
    assert closed(windows).flows == {}


def test_no_stamp_no_time_and_the_loss_is_known():
    windows = ProbeWindows(0.0)
    windows.sent(b"a", 1, EPOCH, 1.0)
    windows.first(b"a", KernelTimes(), EPOCH + MS, 0)
    windows.second(b"a", 1e-4)
    flow = closed(windows).flows[1]
    assert (flow.sent, flow.lost, flow.late) == (1, 0, 0)
    assert math.isnan(flow.rtt[0])


def test_one_stamp_of_each_clock_gives_no_time():
    windows = ProbeWindows(0.0)
    windows.sent(b"a", 1, EPOCH, 1.0)
    windows.left(b"a", KernelTimes(hardware=10**9))
    windows.first(b"a", KernelTimes(software=EPOCH), EPOCH + MS, 0)
    assert math.isnan(closed(windows).flows[1].rtt[0])


@pytest.mark.parametrize(("lag", "void"), [(TIMEOUT * 0.9, False), (TIMEOUT * 1.1, True)])
def test_own_lag_beyond_the_time_out_voids_the_window(lag, void):
    windows = ProbeWindows(0.0)
    probe(windows, b"a", 4.0, until="nothing")
    windows.lagged(lag, 6.0)
    assert bool(closed(windows).void) is void


def test_a_stop_over_several_windows_voids_them_all_and_those_that_waited():
    windows = ProbeWindows(0.0)
    for n in range(5):
        probe(windows, b"%d" % n, n * WINDOW + 9.0, until="nothing")
    windows.lagged(2 * WINDOW, 3 * WINDOW + 1.0)  # asleep from 11 to 31 s: the window to 10 s waited for answers
    found = {window.number: bool(window.void) for window in windows.close(5 * WINDOW + WATERMARK)}
    assert found == {0: True, 1: True, 2: True, 3: True, 4: False}


def test_an_answer_after_the_watermark_changes_nothing():
    windows = ProbeWindows(0.0)
    probe(windows, b"a", 1.0, until="nothing")
    assert closed(windows).flows[1].lost == 1
    windows.first(b"a", KernelTimes(EPOCH), EPOCH, 0)
    windows.second(b"a", 1.0)
    assert windows.close(3 * WINDOW)[-1].flows == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=60))
def test_every_probe_is_in_one_window_once(probes):
    windows = ProbeWindows(0.0)
    for n, (at, back) in enumerate(sorted(probes)):
        probe(windows, b"%d" % n, at, until="second" if back else "nothing")
    found = [flow for window in windows.close(100.0) for flow in window.flows.values()]
    assert sum(flow.sent for flow in found) == len(probes)
    assert sum(flow.lost for flow in found) == sum(not back for _, back in probes)
    assert windows.close(100.0) == []


@given(st.lists(st.floats(0, 1), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_a_value_that_the_share_does_not_exceed(values, share):
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_packets_are_read_back_and_answers_do_not_amplify():
    nonce, cookie = b"n" * 16, b"c" * 8
    for size in (SIZE, 1472, LARGEST):
        sent = question(nonce, cookie, size)
        assert len(sent) == size
        assert asked(sent, [nonce]) == cookie
        assert asked(sent, [b"m" * 16]) is None
        assert asked(sent[: SIZE - 1], [nonce]) is None
    assert 2 * (28 + ANSWER_SIZE) <= 28 + SIZE
    assert answered(answer(FIRST, 104, cookie)) == (FIRST, 104, cookie, 0.0)
    assert answered(answer(SECOND, 104, cookie, 1.5e-6)) == (SECOND, 104, cookie, pytest.approx(1.5e-6))


@given(st.binary(max_size=100))
def test_any_bytes_are_a_packet_or_nothing(data):
    assert asked(data, [b"n" * 16]) is None
    found = answered(data)
    assert found is None or found.kind in (FIRST, SECOND)
