"""What a symptom shows: each reading with its unit, limit and window, for and against it, number by number.

The numbers follow from what the counters did: 3 downs 20 s apart are 1000 x (1 + 2^(-20/900) + 2^(-40/900)) = 2954, a
mean over three windows of which two are at 10 % and one at 40 % is 20 %.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.model import Symptom
from tests.engine.test_scenarios_of_gpus_and_pcie import Nodes
from tests.rules.bench_of_ports import NDR, Ports
from tests.rules.bench_of_pressure import RATE, Pressed
from tests.rules.test_storage_path import Hosts as Storage


def ports(happens: Callable[[Ports], None], polls: int, layer: str = "InfiniBand") -> Callable[[], RuleStates]:
    def play() -> RuleStates:
        bench = Ports(layer=layer)
        bench.polls(14)
        happens(bench)
        bench.polls(polls)
        return bench.rule_states

    return play


def pressed(happens: Callable[[Pressed], None], polls: int, layer: str = "Ethernet") -> Callable[[], RuleStates]:
    def play() -> RuleStates:
        bench = Pressed(layer=layer)
        happens(bench)
        bench.polls(polls)
        return bench.rule_states

    return play


def flaps(bench: Ports, apart: float) -> None:
    for _ in range(3):
        bench.flap(0, 2)
        bench.poll(10.0)
        bench.poll(apart - 10.0)


def bit_errors(bench: Ports) -> None:
    for _ in range(12):
        bench.port[0, 1]["symbol_errors"] += 40
        bench.poll()


def gone(bench: Ports) -> None:
    bench.nics[0].remove(5)
    bench.enter(0)


def ethernet_down(bench: Ports) -> None:
    bench.down(0, 3)
    bench.port[0, 3] |= {"carrier": 0.0, "operstate": 2.0, "netdev_rate": math.nan}


def storm(bench: Pressed) -> None:
    bench.rate([(0, 1)], pfc_tx_pause_prio3=0.85, phy_rx=0.25 * RATE)
    bench.rate([(host, 1) for host in range(1, 6)], pfc_rx_pause_prio3=0.4)


def fan_in(bench: Pressed) -> None:
    packets = 0.97 * RATE / 4096
    bench.rate([(7, 0)], phy_rx=0.97 * RATE, rdma_rx_packets=packets, ecn_marked_rx=0.08 * packets)
    senders = [(host, 0) for host in range(6)]
    bench.rate(senders, cnp_handled=2000.0)
    bench.work(senders, 0.16)


def straggler(bench: Ports) -> None:
    for number in range(40):
        for (host, nic), port in bench.port.items():
            share = 0.3 if (host, nic) == (3, 2) and number > 5 else 0.5
            port["xmit"] += share * NDR * 10.0
            port["rcv"] += share * NDR * 10.0
        bench.poll(traffic=0.0)


def twelve(happens: Callable[[Ports], None]) -> Callable[[], RuleStates]:
    def play() -> RuleStates:
        bench = Ports(hosts=12, nics=4)
        bench.polls(4, traffic=0.0)
        happens(bench)
        return bench.rule_states

    return play


def of_node(happens: Callable[[Nodes], None], seconds: float) -> Callable[[], RuleStates]:
    def play() -> RuleStates:
        nodes = Nodes(hosts=1)
        happens(nodes)
        nodes.run(seconds)
        return nodes.engine.rule_states

    return play


def loses_links(nodes: Nodes) -> None:
    nodes.lose_links("host-000", 2, (4, 11))


def crc_errors(nodes: Nodes) -> None:
    nodes.rates["host-000", 5] = {"gpu_nvlink_crc_errors": 200.0}


def four_lanes(nodes: Nodes) -> None:
    nodes.nic["host-000", 3] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}


def storage() -> RuleStates:
    hosts = Storage()
    hosts.run(120, 0.0)
    hosts.run(900, 0.3)
    return hosts.rule_states


SCENES: dict[str, Callable[[], RuleStates]] = {
    "link down": ports(lambda b: b.down(0, 3), 2),
    "no subnet manager": ports(lambda b: b.port[0, 3].update(state=2.0, phys_state=5.0, sm_lid=0.0), 8),
    "interface down": ports(ethernet_down, 2, "Ethernet"),
    "three downs": ports(lambda b: flaps(b, 20.0), 1),
    "three downs in hours": ports(lambda b: flaps(b, 3720.0), 1),
    "half rate": ports(lambda b: b.port[0, 4].update(rate=NDR / 2, width=2.0), 14),
    "adapter gone": ports(gone, 4),
    "adapter errors": ports(lambda b: b.port[0, 5].update(unrecoverable_error=2.0), 2),
    "bit errors": ports(bit_errors, 0),
    "saturated": ports(lambda b: b.port[0, 1].update(symbol_errors=65535.0), 8),
    "unreadable": ports(lambda b: b.port[0, 2].update(rcv_errors=math.nan), 8),
    "slow receiver": pressed(lambda b: b.rate([(0, 1)], pfc_tx_pause_prio3=0.3, phy_rx=0.1 * RATE), 6),
    "no receive buffers": pressed(lambda b: b.rate([(0, 1)], out_of_buffer=50.0), 8, "InfiniBand"),
    "pause storm": pressed(storm, 1),
    "fan-in": pressed(fan_in, 12),
    "straggler": twelve(straggler),
    "two NVLinks": of_node(loses_links, 60),
    "NVLink errors": of_node(crc_errors, 180),
    "four lanes": of_node(four_lanes, 90),
    "storage": storage,
    "congestion": pressed(lambda b: b.rate([(0, 1)], pfc_rx_pause_prio3=0.35), 14),
}


def lines(symptom: Symptom) -> list[str]:
    """The symptom and its readings, one line each."""
    found = [f"{symptom.rule} {symptom.component} {symptom.severity.value} {symptom.info or ''}".strip()]
    for reading in symptom.evidence:
        compared = "" if reading.value is None else f" {reading.value:.4g}/{reading.limit:.4g}"
        assert reading.limit is None or reading.measure.startswith(symptom.rule)
        formula = re.sub(r" \(docs/methods.md#[\w-]+\)$", "", reading.formula)
        found.append(f"{'for' if reading.for_it else 'against'}:{compared} {reading.text} [{formula}]")
    return found


EXPECTED: dict[str, list[str]] = {
    "link down": [
        "link_down host-000/mlx5_3/1 warning",
        "for: 10/5 link down for 10 s, state 1 (down), phys_state 2 (polling) [not active for longer than 5 "
        "s]",
    ],
    "no subnet manager": [
        "link_down host-000/mlx5_3/1 warning {'waits_for': 'subnet manager'}",
        "for: 30/30 link initialising for 30 s, state 2 (init), phys_state 5 (link_up) [not active for "
        "longer than 30 s]",
        "for: the physical link is up, but no subnet manager has brought the port to ACTIVE; sm_lid is 0 "
        "(none assigned) []",
    ],
    "interface down": [
        "link_down host-000/mlx5_3/1 warning",
        "for: 10/5 link down for 10 s, state 1 (down), phys_state 2 (polling), operstate 2 (down), no "
        "carrier [not active for longer than 5 s]",
    ],
    "three downs": [
        "link_flapping host-000/mlx5_2/1 warning",
        "for: 2.954/2 3 downs (2023-11-14 22:15:50, 22:16:10, 22:16:30 UTC), weighted by age 3.0 "
        "[weight = P / 1000; P = 1000 a down, half-life 900 s; raise > 2000, clear < 750]",
    ],
    "three downs in hours": [
        "link_flapping host-000/mlx5_2/1 warning {'slow': 'true'}",
        "for: 3/3 3 separate episodes in 24 h [downs within 60 s are one episode; 3 in 24 h]",
        "for: 1.06/0.75 3 downs (2023-11-14 22:15:50, 23:17:50, 2023-11-15 00:19:50 UTC), weighted by age 1.1 "
        "[weight = P / 1000; P = 1000 a down, half-life 900 s; raise > 2000, clear < 750]",
    ],
    "half rate": [
        "link_degraded host-000/mlx5_4/1 warning",
        "for: 2.5e+10/5e+10 link runs at 200 Gb/s over 2 lanes; 400 Gb/s on most of its peers [negotiated "
        "rate below the configured or most common one]",
    ],
    "adapter gone": [
        "nic_fault host-000/mlx5_5/1 critical",
        "for: 7/8 mlx5_5 vanished at 2023-11-14 22:15:40 UTC: expected 8, found 7 [missing from the "
        "inventory of a reporting node for 20 s]",
    ],
    "adapter errors": [
        "nic_fault host-000/mlx5_5/1 critical",
        "for: 2/1 mlx5_5 counted 2 unrecoverable errors since 2023-11-14 22:15:50 UTC, "
        "the last at 2023-11-14 22:15:50 UTC [one in 300 s (firmware or AER fatal), or no traffic since the last]",
    ],
    "bit errors": [
        "link_errors host-000/mlx5_1/1 critical",
        "for: 1.22e-12/1e-14 120 errors in 2 min at 400 Gb/s (5.6e+13 bits), bit error ratio 1.2e-12 to 2.5e-12 "
        "[short window: lower bound chi2inv(1e-8, 2k)/2n > 10 x target 1e-15 is a warning, > 1000 x critical]",
        "for: errors began to rise clearly above the 0.01 errors per reading that are usual here "
        "[S = 38.5 nats, limit 20.6; S <- max(0, S + x ln(l1/l0) - (l1 - l0)), x at most 3 a poll]",
    ],
    "saturated": [
        "link_errors host-000/mlx5_1/1 warning",
        "for: 1.336e-09/1e-14 65,535 errors in 2 min at 400 Gb/s (4.8e+13 bits), bit error ratio 1.3e-09 to 1.4e-09 "
        "[short window: lower bound chi2inv(1e-8, 2k)/2n > 10 x target 1e-15 is a warning, > 1000 x critical]",
        "for: 65,535 errors in one reading took a counter to its top: whether they go on it cannot show "
        "[32768 or more]",
        "telemetry_quality host-000/mlx5_1/1 info {'problem': 'saturated'}",
        "for: 6.554e+04/6.554e+04 symbol_errors is saturated at 65535: a lower bound that cannot rise "
        "[16-bit counter that stops at all ones]",
    ],
    "unreadable": [
        "telemetry_quality host-000/mlx5_2/1 info {'problem': 'unreadable'}",
        "for: rcv_errors is no longer readable []",
    ],
    "slow receiver": [
        "slow_receiver host-000/mlx5_1/1 warning",
        "for: 0.3/0.1 PFC pause sent for 30%, 30%, 0% of the last windows of 10 s, newest "
        "first [>= 0.1 in 2 of 3 windows]",
        "for: 0.2/0.9 Rx 20% of its line rate, its peers 40% [slow only if below 90% and not above 1.1 times "
        "its peers]",
        "against: 0/10 0 packets a second without a receive buffer [>= 10 a second in 2 of 3 windows of 30 s]",
    ],
    "no receive buffers": [
        "slow_receiver host-000/mlx5_1/1 warning",
        "for: 0.4/0.9 Rx 40% of its line rate, its peers 40% [slow only if below 90% and not above 1.1 times "
        "its peers]",
        "for: 50/10 50 packets a second without a receive buffer [>= 10 a second in 2 of 3 windows of 30 s]",
    ],
    "pause storm": [
        "pfc_storm host-000/mlx5_1/1 critical",
        "for: 0.85/0.8 PFC pause sent for 85% of the last 10 s [>= 0.8 and 3 victims]",
        "for: 5/3 victims: 5 other ports of its rail cannot transmit (share of the last window): "
        "host-001/mlx5_1/1 40%, host-002/mlx5_1/1 40%, host-003/mlx5_1/1 40%, host-004/mlx5_1/1 40%, "
        "host-005/mlx5_1/1 40% [>= 3 ports that wait for 10% of the time]",
    ],
    "fan-in": [
        "incast host-007/mlx5_0/1 warning {'senders': '6'}",
        "for: 0.97/0.9 Rx 97% of its line rate, its peers 19% [>= 90% and 1.5 times its peers]",
        "for: 0.08/0.05 8.0% of the received packets are ECN-marked [> 5%]",
        "for: 6/4 6 senders of its rail are slowed down in the same window; the sender of each flow is not "
        "known [>= 4 senders]",
        "for: 0/0.02 PFC pause sent for 0% of the time []",
    ],
    "straggler": [
        "straggler host-003/mlx5_2/1 warning",
        "for: 0.3/0.5 30.0% of the line rate, 12 ports at work on rail 2 have a median of 50.0%, of which it "
        "usually has 99%; low in 12 of 12 windows of 10 s [|x - median| > 3.5 x max(1.4826 MAD, 2 %) and a gap "
        "above 8% in 10 of 12 windows]",
    ],
    "two NVLinks": [
        "nvlink_down host-000/gpu2 critical",
        "for: 16/18 16 of 18 NVLinks active; inactive: 4, 11 [fewer active links than expected for 5 s]",
    ],
    "NVLink errors": [
        "nvlink_degraded host-000/gpu5 warning",
        "for: 200/100 200 CRC errors a second on its NVLinks; link 0 has most errors so far [limit of DCGM's "
        "health module]",
        "against: 0/1 0 replays on its NVLinks in 10 s; link 0 has most errors so far [limit of DCGM's "
        "health module]",
        "against: 0/1 0 retrainings on its NVLinks in 10 s; link 0 has most errors so far [limit of DCGM's "
        "health module]",
    ],
    "four lanes": [
        "pcie_degraded host-000/0000:13:00.0 warning {'pci': '0000:13:00.0', 'device_class': 'nic'}",
        "for: 0.25/1 mlx5_3 runs at 4 of 16 lanes; the worst link on its path to the CPU has 25% of its "
        "possible width [PCIe link below the capability of both ends]",
        "against: 1/1 mlx5_3 runs at 32 of 32 GT/s [PCIe link below the capability of both ends]",
    ],
    "storage": [
        "congestion host-0/mlx5_1/1 info {'measure': 'measured'}",
        "for: 0.3/0.25 PFC-paused on its worst priority for 30%, 30%, 30% of the last windows "
        "of 30 s, newest first [3 windows of 30 s > 0.25, or all of 10 min > 0.15; ends below 0.1 for 120 s]",
        "against: 0.135/0.15 mean of its last hour of work: 14% []",
        "for: Tx 63%, Rx 0% of its line rate []",
        "congestion host-1/mlx5_1/1 info {'measure': 'measured'}",
        "for: 0.3/0.25 PFC-paused on its worst priority for 30%, 30%, 30% of the last windows "
        "of 30 s, newest first [3 windows of 30 s > 0.25, or all of 10 min > 0.15; ends below 0.1 for 120 s]",
        "against: 0.135/0.15 mean of its last hour of work: 14% []",
        "for: Tx 63%, Rx 0% of its line rate []",
        "congestion host-2/mlx5_1/1 info {'measure': 'measured'}",
        "for: 0.3/0.25 PFC-paused on its worst priority for 30%, 30%, 30% of the last windows "
        "of 30 s, newest first [3 windows of 30 s > 0.25, or all of 10 min > 0.15; ends below 0.1 for 120 s]",
        "against: 0.135/0.15 mean of its last hour of work: 14% []",
        "for: Tx 63%, Rx 0% of its line rate []",
        "storage_path host-0/mlx5_1/1 warning",
        "for: 0.3/0.15 30% of the time it could not transmit (no credits, PFC-paused) [mean of half a "
        "minute, for 600 s]",
        "against: 0/0.1 0% of the time it sent PFC pause [mean of half a minute, for 600 s]",
        "for: Tx 63%, Rx 0% of its line rate []",
        "storage_path host-1/mlx5_1/1 warning",
        "for: 0.3/0.15 30% of the time it could not transmit (no credits, PFC-paused) [mean of half a "
        "minute, for 600 s]",
        "against: 0/0.1 0% of the time it sent PFC pause [mean of half a minute, for 600 s]",
        "for: Tx 63%, Rx 0% of its line rate []",
        "storage_path host-2/mlx5_1/1 warning",
        "for: 0.3/0.15 30% of the time it could not transmit (no credits, PFC-paused) [mean of half a "
        "minute, for 600 s]",
        "against: 0/0.1 0% of the time it sent PFC pause [mean of half a minute, for 600 s]",
        "for: Tx 63%, Rx 0% of its line rate []",
    ],
    "congestion": [
        "congestion host-000/mlx5_1/1 info {'measure': 'measured'}",
        "for: 0.35/0.25 PFC-paused on its worst priority for 35%, 35%, 35% of the last windows "
        "of 30 s, newest first [3 windows of 30 s > 0.25, or all of 10 min > 0.15; ends below 0.1 for 120 s]",
        "for: 0.15/0.15 mean of its last hour of work: 15% []",
        "for: Tx 40%, Rx 40% of its line rate []",
        "for: 0 CNPs received a second []",
    ],
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_evidence_of(scene: str) -> None:
    states = SCENES[scene]()
    shown = [line for state in states.all for held in state.open.values() for line in lines(held.symptom)]
    assert shown == EXPECTED[scene]
