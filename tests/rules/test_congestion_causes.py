"""What the engine makes of ports that wait: the rail, the port that pauses, the receiver that is overrun."""

from __future__ import annotations

import pytest

from tests.rules.bench_of_pressure import RATE, Pressed


def test_most_active_ports_of_a_rail_are_one_verdict_on_the_rail() -> None:
    ports = Pressed(hosts=12)
    ports.work([(host, 1) for host in range(10, 12)], 0.0)  # idle: no witness for the rail or against it
    some = [(host, 1) for host in range(7)]
    ports.rate(some, pfc_rx_pause_prio3=0.35)
    for _ in range(12):
        ports.poll()
        assert {kind for kind, _, _ in ports.firing()} <= {"fault_domain"}
    assert ports.firing() == [("fault_domain", "rail(1)", "warning")]
    incident = ports.incident("rail(1)")
    assert incident.members.bad == 7
    assert incident.confidence == pytest.approx(2 / 3, rel=0.01)  # the load of a job shows the same
    assert "congested" in incident.title
    ports.rate(some, pfc_rx_pause_prio3=0.0)
    ports.polls(24)
    assert ports.firing() == []
    assert {i.kind for i in ports.told} == {"fault_domain"}


def test_a_minority_of_a_rail_is_noted_per_host_and_pages_nobody() -> None:
    ports = Pressed(hosts=12)
    ports.rate([(host, 1) for host in range(4)], pfc_rx_pause_prio3=0.35)
    ports.polls(30)
    assert ports.firing("warning") == []
    assert [kind for kind, _, _ in ports.firing()] == ["congestion"] * 4


def test_one_port_that_waits_for_an_hour_is_a_suspicion_of_its_own() -> None:
    ports = Pressed(hosts=2, nics=1, poll=20.0)
    ports.rate([(0, 0)], pfc_rx_pause_prio3=0.4)
    ports.polls(190)
    assert ports.firing("warning") == [("congestion", "nic(host-000/mlx5_0)", "warning")]


def test_a_pausing_adapter_with_a_narrow_pcie_link_is_one_incident_with_its_victims() -> None:
    ports = Pressed(hosts=16)
    ports.lanes[2, 1] = 4.0
    ports.rate([(2, 1)], pfc_tx_pause_prio3=0.85, phy_rx=0.25 * RATE)
    victims = [(host, 1) for host in range(4, 13)]
    ports.rate(victims, pfc_rx_pause_prio3=0.4)
    ports.polls(4)
    assert ports.firing() == [("pcie_degraded", "nic(host-002/mlx5_1)", "critical")]
    ports.polls(20)  # the victims' symptoms have opened meanwhile
    assert len(ports.open("congestion")) == 9
    assert ports.firing() == [("pcie_degraded", "nic(host-002/mlx5_1)", "critical")]
    incident = ports.incident("nic(host-002/mlx5_1)")
    assert incident.labels["victims"] == "9"
    assert "host-012/mlx5_1/1" in incident.evidence[-1].text
    ports.lanes[2, 1] = 16.0
    ports.rate([(2, 1)], pfc_tx_pause_prio3=0.0)
    ports.rate(victims, pfc_rx_pause_prio3=0.0)
    ports.polls(40)
    assert ports.firing() == []
    assert {i.component for i in ports.told} == {"nic(host-002/mlx5_1)"}


@pytest.mark.parametrize(
    ("share", "kind", "severity"), [(0.3, "slow_receiver", "warning"), (0.9, "pfc_storm", "critical")]
)
def test_a_pausing_adapter_of_unknown_reason_is_named_by_its_effect(share: float, kind: str, severity: str) -> None:
    ports = Pressed(hosts=16)
    ports.rate([(2, 1)], pfc_tx_pause_prio3=share, phy_rx=0.25 * RATE)
    ports.rate([(host, 1) for host in range(3, 15)], pfc_rx_pause_prio3=0.4)
    ports.polls(25)
    assert ports.firing() == [(kind, "nic(host-002/mlx5_1)", severity)]


def test_a_pausing_adapter_explains_nothing_that_began_before_it_or_elsewhere() -> None:
    ports = Pressed(hosts=12)
    wait = [host for host in range(12) if host % 3 != 2]  # neighbours alone would be a group of their own
    ports.rate([(host, 1) for host in wait], pfc_rx_pause_prio3=0.4)
    ports.polls(12)
    assert ports.firing() == [("fault_domain", "rail(1)", "warning")]
    ports.polls(10)
    ports.rate([(11, 1)], pfc_tx_pause_prio3=0.3, phy_rx=0.1 * RATE)
    ports.rate([(host, 2) for host in wait], pfc_rx_pause_prio3=0.4)
    ports.polls(12)
    assert ports.firing() == [
        ("fault_domain", "rail(1)", "warning"),
        ("fault_domain", "rail(2)", "warning"),
        ("slow_receiver", "nic(host-011/mlx5_1)", "warning"),
    ]


def test_an_incast_is_the_receivers_and_its_senders_are_its_victims() -> None:
    ports = Pressed(hosts=16)
    packets = 0.97 * RATE / 4096
    ports.rate([(15, 0)], phy_rx=0.97 * RATE, rdma_rx_packets=packets, ecn_marked_rx=0.08 * packets)
    senders = [(host, 0) for host in range(12)]
    ports.work(senders, 0.08)
    ports.rate(senders, cnp_handled=3000.0, pfc_rx_pause_prio3=0.3)
    ports.polls(25)
    assert ports.firing() == [("incast", "link(host-015/mlx5_0/1)", "warning")]
    incident = ports.incident("link(host-015/mlx5_0/1)")
    assert incident.candidates == ()  # an overrun link is not broken, and neither is what is at its ends
    assert incident.labels["senders"] == "12"
    assert incident.labels["victims"] == "12"


def test_storage_ports_say_nothing_of_compute_rails() -> None:
    ports = Pressed(hosts=12, nics=3, roles={2: "storage"})
    ports.rate([(host, 2) for host in range(12)], pfc_rx_pause_prio3=0.4)
    ports.polls(20)
    assert [i for i in ports.firing() if i[0] == "fault_domain"] == []


def test_bursts_on_all_ports_are_quiet() -> None:
    ports = Pressed(hosts=8, nics=4, layer="InfiniBand", poll=4.0)
    for second in range(0, 1200, 4):
        ports.rate(ports.rates, xmit_wait_ticks=2.4e5 if second % 8 == 0 else 0.0)
        ports.poll()
    assert ports.firing() == []
