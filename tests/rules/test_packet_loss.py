"""packet_loss and flow_loss by counters: what is a loss, and what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fleet.ber import log_tail
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.losses import discoveries
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part
from fabricmon.rules import flow_loss, packet_loss

COLUMNS = ("xmit_packets", "seq_nak_rx", "ack_timeout", "implied_nak", "out_of_sequence_rx")
PACKETS = 5e7  # a window of a busy 400 Gb/s port


class Hosts:
    """Hosts of one port each, read every ten seconds."""

    def __init__(self, hosts: int = 50, kind: Kind = Kind.PORT, columns: tuple[str, ...] = COLUMNS) -> None:
        self.fleet, self.now, self.kind, self.columns = Fleet(), 1_000_000.0, kind, columns
        self.names = [f"host-{n:03d}" for n in range(hosts)]
        self.count = {name: dict.fromkeys(columns, 1e6) for name in self.names}
        row = Component("mlx5_0/1", {"link_layer": "InfiniBand", "role": "compute"})
        for name in self.names:
            part = Part("infiniband", kind, columns, (row,), 10.0)
            self.fleet.inventory(name, Inventory(1, Identity(name, "b", name, "1", 0.0), (part,)), self.now)

    def poll(self, packets: float = PACKETS, **more: dict[str, float]) -> None:
        """Ten seconds: every port sends; `more`: column -> what it rises by on which host."""
        self.now += 10.0
        for name in self.names:
            self.count[name][self.columns[0]] += packets
        for column, rises in more.items():
            for name, rise in rises.items():
                self.count[name][column] += rise
        for name in self.names:
            values = np.array([self.count[name][c] for c in self.columns])
            self.fleet.frame(name, Frame(1, 1, self.now, np.array([self.now - 9e5]), None, values), self.now)
        self.fleet.advance(self.now)

    def lossy(self) -> list[str]:
        table = self.fleet.tables[self.kind]
        outcome = packet_loss.test(View(table, self.now), packet_loss.PacketLossParams())
        return [table.ids[row].node for row in np.flatnonzero(outcome.fire & outcome.known)]

    def view(self) -> View:
        return View(self.fleet.tables[self.kind], self.now)


def settled(**kind: object) -> Hosts:
    hosts = Hosts(**kind)  # type: ignore[arg-type]
    for _ in range(4):
        hosts.poll()
    return hosts


def test_a_loss_is_reported_in_its_second_window_and_ends_when_all_windows_are_clean() -> None:
    hosts = settled()
    hosts.poll(seq_nak_rx={"host-007": 1000.0})
    assert hosts.lossy() == []
    hosts.poll(seq_nak_rx={"host-007": 1000.0})
    assert hosts.lossy() == ["host-007"]
    for _ in range(3):
        hosts.poll()
    outcome = packet_loss.test(hosts.view(), packet_loss.PacketLossParams())
    assert outcome.clear[7]
    assert outcome.known[7]


def test_the_grade_follows_the_share_of_packets() -> None:
    hosts = settled()
    for _ in range(3):
        hosts.poll(seq_nak_rx={"host-001": 1e-4 * PACKETS, "host-002": 1e-2 * PACKETS})
    assert hosts.lossy() == ["host-001", "host-002"]
    params = packet_loss.PacketLossParams()
    assert [packet_loss.info(hosts.view(), row, params)["grade"] for row in (1, 2)] == ["weak", "strong"]
    strong = params.strong
    assert [packet_loss.grade(share, params) for share in (strong * 0.999, strong)] == ["weak", "strong"]
    text = packet_loss.evidence(hosts.view(), 2, params)[0]
    assert text.text.startswith("1% of packets lost: ")
    assert text.value == pytest.approx(0.01, rel=0.01)


def test_reordering_by_adaptive_routing_is_no_loss() -> None:
    hosts = settled()
    for _ in range(4):
        hosts.poll(out_of_sequence_rx=dict.fromkeys(hosts.names, 1e6))
    assert hosts.lossy() == []


def test_retransmits_while_a_job_starts_are_no_loss() -> None:
    """S24: 10 to 50 a port, four times an hour; the first window may catch a fraction of a second of traffic only."""
    hosts = Hosts()
    for _ in range(4):
        for _ in range(3):
            hosts.poll(packets=0.0)
        hosts.poll(packets=1e5, seq_nak_rx=dict.fromkeys(hosts.names, 30.0))
        assert hosts.lossy() == []
        for _ in range(4):
            hosts.poll(seq_nak_rx=dict.fromkeys(hosts.names, 10.0))
            assert hosts.lossy() == []


def test_timers_that_fire_are_a_loss_whatever_share_of_the_packets_they_are() -> None:
    hosts = settled()
    for _ in range(2):
        hosts.poll(ack_timeout={"host-003": 9.0, "host-004": 1.0})
    assert hosts.lossy() == ["host-003"]


def test_an_idle_port_is_unknown_and_old_losses_lapse() -> None:
    hosts = settled()
    for _ in range(3):
        hosts.poll(seq_nak_rx={"host-007": 1000.0})
    for _ in range(20):
        hosts.poll(packets=0.0)
    assert not packet_loss.test(hosts.view(), packet_loss.PacketLossParams()).known[3]
    for _ in range(15):
        hosts.poll(packets=0.0)
    outcome = packet_loss.test(hosts.view(), packet_loss.PacketLossParams())
    assert outcome.known[7]
    assert not outcome.known[3], "it never lost any, and shows nothing since"
    assert outcome.clear[7]
    assert not outcome.fire[7]


def test_a_counter_reset_is_no_loss() -> None:
    hosts = settled()
    for name in hosts.names[:5]:
        hosts.count[name]["seq_nak_rx"] = 500_000.0
    hosts.poll()
    hosts.poll()
    assert hosts.lossy() == []


def test_what_all_ports_of_a_role_lose_for_hours_is_usual() -> None:
    hosts = settled(hosts=17)
    for _ in range(1500):
        hosts.poll(seq_nak_rx=dict.fromkeys(hosts.names, 5e-6 * PACKETS))
    usual = float(hosts.view().losses.usual[0])
    assert 5e-7 < usual < 5e-6
    for _ in range(3):
        hosts.poll(seq_nak_rx={"host-001": 1.2e-5 * PACKETS, "host-002": 1e-3 * PACKETS})
    assert hosts.lossy() == ["host-002"]


def test_flows_are_judged_each_by_itself() -> None:
    hosts = settled(kind=Kind.FLOW, columns=("flow_packets", "flow_lost"))
    for _ in range(2):
        hosts.poll(flow_lost={"host-007": 1000.0})
    outcome = flow_loss.RULE.test(hosts.view(), packet_loss.PacketLossParams())
    assert np.flatnonzero(outcome.fire).tolist() == [7]


@given(st.integers(3, 400), st.floats(1e-6, 200))
def test_the_tail_is_that_of_a_poisson_variable(count: int, mean: float) -> None:
    """Against the sum of its terms from `count` on, by logarithms."""
    if mean >= count:
        assert log_tail(np.array([float(count)]), np.array([mean]))[0] == 0.0
        return
    from math import lgamma

    terms = np.array([-mean + k * np.log(mean) - lgamma(k + 1) for k in range(count, count + 2000)])
    top = terms.max()
    expected = top + np.log(np.exp(terms - top).sum())
    found = log_tail(np.array([float(count)]), np.array([mean]))[0]
    assert found == pytest.approx(min(expected, 0.0), abs=1e-5, rel=1e-5)


@given(st.lists(st.floats(1e-12, 1.0), max_size=60), st.integers(0, 1000))
def test_false_discoveries_are_bounded_as_benjamini_and_hochberg_do(p: list[float], more: int) -> None:
    tests, rate = len(p) + more, 0.01
    found = discoveries(np.log(np.array(p, float)), tests, rate)
    ranked = sorted(p)
    passed = [k for k in range(1, len(p) + 1) if ranked[k - 1] <= k / tests * rate]
    assert int(found.sum()) == (max(passed) if passed else 0)
    if found.any():
        assert max(np.array(p)[found]) <= min(np.array(p)[~found], default=np.inf)
