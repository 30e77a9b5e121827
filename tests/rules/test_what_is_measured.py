"""What the rules stand on, port by port, against plain sums of random readings: errors, pressure, peers, losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.fleet.peers import LEAST, WINDOWS
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.window import BITS, CAPPED, ERRORS
from tests.rules.bench_of_ports import NDR, POLL, Ports
from tests.rules.bench_of_pressure import RATE, Pressed
from tests.rules.test_packet_loss import PACKETS, Hosts


def test_errors_are_counted_once_in_both_windows_capped_and_summed_up_by_the_onset_test() -> None:
    """Two counters of one damage: the greater counts. No port is down, so every interval counts."""
    rng, ports, settings = np.random.default_rng(11), Ports(hosts=1, nics=5), TrackSettings()
    ports.polls(14)
    row = [ports.row(0, nic) for nic in range(5)]
    errors = ports.view().tracks.errors
    assert not errors.short.sum(ERRORS, 5).any()
    bits_before = errors.short.at(BITS, row[0])
    assert bits_before == errors.long.at(BITS, row[0]) > 0
    onset, hard, total, capped = [0.0] * 5, [0] * 5, [0.0] * 5, [0.0] * 5
    usual = settings.background
    elevated = max(settings.elevated, settings.ratio * usual)
    polls = int(settings.short / POLL / 2)
    for _ in range(polls):
        found = []
        for nic in range(5):
            symbols, packets = (float(n) for n in rng.poisson(0.7 * nic, 2))
            recovered = bool(rng.random() < 0.2 * nic)
            ports.port[0, nic]["symbol_errors"] += symbols
            ports.port[0, nic]["rcv_errors"] += packets
            ports.port[0, nic]["link_error_recoveries"] += recovered
            found.append((max(symbols, packets), recovered))
        ports.poll()
        for nic, (count, recovered) in enumerate(found):
            total[nic] += count
            capped[nic] += min(count, settings.cap)
            gain = min(count, settings.cap) * math.log(elevated / usual)
            onset[nic] = min(max(onset[nic] - (elevated - usual) * POLL / settings.poll + gain, 0.0), settings.ceiling)
            hard[nic] = ((hard[nic] << 1) | recovered) & 0b11111
            at = row[nic]
            for window in (errors.short, errors.long):
                assert window.at(ERRORS, at) == total[nic]
                assert window.at(CAPPED, at) == capped[nic]
            assert errors.onset[at] == pytest.approx(onset[nic])
            assert errors.hard[at] == hard[nic]
            assert errors.rate[at] == 8 * NDR
    grown = errors.short.at(BITS, row[0]) - bits_before
    assert grown == pytest.approx(polls * POLL * 8 * NDR)


def test_the_short_window_forgets_and_the_long_one_keeps() -> None:
    ports, settings = Ports(hosts=1, nics=1), TrackSettings()
    ports.polls(14)
    errors = ports.view().tracks.errors
    ports.port[0, 0]["symbol_errors"] += 7
    ports.poll()
    ports.polls(int(2 * settings.short / POLL) + 1)
    assert (errors.short.at(ERRORS, 0), errors.long.at(ERRORS, 0)) == (0.0, 7.0)
    within = errors.short.at(BITS, 0) / (8 * NDR)
    assert settings.short <= within <= 2 * settings.short
    ports.polls(int(2 * settings.long / POLL) + 1)
    assert errors.long.at(ERRORS, 0) == 0.0
    assert settings.long <= errors.long.at(BITS, 0) / (8 * NDR) <= 2 * settings.long


def test_errors_of_a_link_that_trains_are_not_counted_and_a_full_counter_is_blind() -> None:
    ports = Ports(hosts=1, nics=2)
    ports.polls(14)
    errors = ports.view().tracks.errors
    ports.down(0, 0)
    ports.polls(2)
    ports.up(0, 0)
    ports.port[0, 0]["symbol_errors"] += 500
    ports.poll()
    assert errors.short.at(ERRORS, 0) == 0.0
    ports.polls(40)
    ports.port[0, 0]["symbol_errors"] += 3
    ports.poll()
    assert errors.short.at(ERRORS, 0) == 3.0
    assert not errors.blind[:2].any()
    ports.port[0, 1]["rcv_errors"] = 65535.0
    ports.polls(2)
    assert errors.blind[:2].tolist() == [False, True]


@pytest.mark.parametrize("layer", ["Ethernet", "InfiniBand"])
def test_shares_of_time_and_of_the_line_rate_are_those_of_the_counters(layer: str) -> None:
    rng, ports = np.random.default_rng(12), Pressed(hosts=3, nics=2, layer=layer)
    pressure = ports.view().tracks.pressure
    told: dict[tuple[int, int], list[dict[str, float]]] = {port: [] for port in ports.rates}
    for _ in range(30):
        for port in ports.rates:
            share = {name: float(rng.choice([0.0, 0.1, 0.5])) for name in ("in", "out", "held", "pausing")}
            packets = float(rng.choice([0.0, 1e5]))
            if layer == "Ethernet":
                ports.rate([port], phy_rx=share["in"] * RATE, phy_tx=share["out"] * RATE,
                           pfc_rx_pause_prio3=share["held"], pfc_rx_pause_prio4=share["held"] / 2,
                           pfc_tx_pause_prio3=share["pausing"], rdma_rx_packets=packets,
                           ecn_marked_rx=packets * 0.25, cnp_handled=7.0, out_of_buffer=3.0)  # fmt: skip
            else:
                ports.rate([port], rcv=share["in"] * RATE, xmit=share["out"] * RATE, out_of_buffer=3.0,
                           xmit_wait_ticks=share["held"] * 1e6)  # fmt: skip
            told[port].append(share | {"packets": packets})
        ports.poll()
        for port, shares in told.items():
            row, last = ports.row(*port), shares[-3:]
            if len(shares) < 3:
                continue

            def mean(name: str, last: list[dict[str, float]] = last) -> float:
                return sum(one[name] for one in last) / 3

            recent = pressure.traffic.recent[:, row]
            assert recent.tolist() == pytest.approx([mean("in"), mean("out")], abs=1e-5)
            assert pressure.stalled.recent[0, row] == pytest.approx(mean("held"), abs=1e-5)
            assert bool(pressure.busy[row]) is (max(last[-1]["in"], last[-1]["out"]) > 0)
            assert pressure.missed.recent[0, row] == pytest.approx(3.0, rel=1e-4)
            assert bool(pressure.estimated[row]) is (layer == "InfiniBand")
            if layer == "Ethernet":
                assert pressure.pausing.recent[0, row] == pytest.approx(mean("pausing"), abs=1e-5)
                marks = pressure.marked(np.array([row]))[0]
                assert marks == pytest.approx(0.25, rel=1e-3) if mean("packets") else math.isnan(marks)
                assert pressure.arrivals.recent[2, row] == pytest.approx(7.0, rel=1e-4)
                assert pressure.waits(row + 1)[row] == pytest.approx(mean("held"), abs=1e-5)
            assert pressure.line[row] == RATE
    worked = {port: max((at for at, one in enumerate(shares) if max(one["in"], one["out"]) > 0), default=None)
              for port, shares in told.items()}  # fmt: skip
    for port, at in worked.items():
        assert at is not None
        assert pressure.worked[ports.row(*port)] == ports.now - 10.0 * (29 - at)


def median(values: list[float]) -> float:
    return float(np.median(values))


def test_each_port_is_compared_with_the_ports_at_work_on_its_rail() -> None:
    """12 hosts, two rails; window by window the share, the median of those at work, and how many windows were low."""
    rng, ports = np.random.default_rng(13), Ports(hosts=12, nics=2)
    ports.polls(4, traffic=0.0)
    peers = ports.view().tracks.peers
    low: dict[tuple[int, int], list[bool]] = {port: [] for port in ports.port}
    seen: dict[tuple[int, int], float] = dict.fromkeys(ports.port, math.nan)
    for number in range(40):
        share = {port: float(0.5 + 0.02 * rng.standard_normal()) for port in ports.port}
        share[3, 0] = 0.5 if number % 4 else 0.2  # on average not low enough
        share[7, 1] = 0.44
        for host in range(9, 12):
            share[host, 1] = 0.001 if number > 20 else share[host, 1]
        for port, found in ports.port.items():
            found["xmit"] += share[port] * NDR * POLL
            found["rcv"] += 0.9 * share[port] * NDR * POLL
        ports.poll(traffic=0.0)
        for (host, nic), mine in share.items():
            row = ports.row(host, nic)
            if peers.evaluated[row] != ports.now or peers.evaluated[row] == seen[host, nic]:
                continue
            seen[host, nic] = ports.now
            at_work = [s for (_, rail), s in share.items() if rail == nic and s >= 0.01]
            assert len(at_work) >= LEAST
            usual = median(at_work)
            spread = 1.4826 * median([abs(s - usual) for s in at_work])
            slow = [s for s in at_work if usual - s > 3.5 * max(spread, 0.02 * usual) and s < 0.92 * usual]
            low[host, nic].append(mine in slow and len(slow) <= max(1.0, 0.1 * len(at_work)))
            assert peers.share[row] == pytest.approx(mine, rel=1e-4)
            assert peers.median[row] == pytest.approx(usual, rel=1e-4)
            assert peers.size[row] == len(at_work)
            assert peers.low[row] == sum(low[host, nic][-WINDOWS:])
            assert peers.seen[row] == min(len(low[host, nic]), WINDOWS)
            assert not peers.in_job[row]
    assert sum(low[3, 0]) > 7
    assert len(low[9, 1]) < len(low[0, 1])


def test_windows_of_losses_hold_what_was_lost_and_sent_of_each_host() -> None:
    rng, hosts = np.random.default_rng(14), Hosts(hosts=20)
    for _ in range(4):
        hosts.poll()
    history: dict[str, list[tuple[float, float]]] = {name: [] for name in hosts.names}
    for _ in range(12):
        lost = {name: float(rng.poisson(2.0)) for name in hosts.names[:10]}
        fired = {name: float(rng.poisson(1.0)) for name in hosts.names[5:15]}
        reordered = dict.fromkeys(hosts.names, 1000.0)
        hosts.poll(seq_nak_rx=lost, ack_timeout=fired, out_of_sequence_rx=reordered)
        losses, table = hosts.view().losses, hosts.fleet.tables[hosts.kind]
        for row, component in enumerate(table.ids):
            name = component.node
            history[name].append((lost.get(name, 0.0) + fired.get(name, 0.0), fired.get(name, 0.0)))
            newest = history[name][::-1][:3]
            for window, (count, timers) in enumerate(newest):
                assert losses.lost[window, row] == count, (name, window)
                assert losses.timeouts[window, row] == timers
                assert losses.sent[window, row] == pytest.approx(PACKETS, rel=1e-6)
            assert losses.ended[row] == hosts.now
            kept = sum(count for count, _ in newest) / (PACKETS * 3)
            if len(newest) == 3:
                assert losses.ratio(np.array([row]))[0] == pytest.approx(kept, rel=1e-4)
    for _ in range(40):
        hosts.poll(packets=0.0)
    losses = hosts.view().losses
    assert np.isnan(losses.lost[:, :20]).all()
    assert np.isfinite(losses.lapsed[:15]).all()
    assert np.isnan(losses.lapsed[15:20]).all(), "without losses there was nothing to set aside"
