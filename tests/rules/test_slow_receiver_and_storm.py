"""slow_receiver and pfc_storm: who pauses its switch, and whether others wait for it."""

from __future__ import annotations

import pytest

from tests.rules.bench_of_pressure import Pressed, quiet

ONE = [(0, 1)]


def test_a_port_that_pauses_and_receives_less_than_its_peers_is_slow() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.3, phy_rx=0.1 * 50e9)
    took = ports.until("slow_receiver", 10)
    assert took is not None
    assert took <= 3
    assert ports.open("slow_receiver") == set(ONE)
    text = ports.evidence("slow_receiver", 0, 1)[0].text
    assert "PFC pause sent" in text
    ports.polls(10)
    assert not ports.open("pfc_storm")
    ports.rate(ONE, pfc_tx_pause_prio3=0.0)
    ports.polls(18)
    assert ports.open("slow_receiver") == set(ONE)  # until its victims had time to recover
    ports.polls(6)
    assert quiet(ports)


def test_one_window_is_not_enough() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.5)
    ports.poll()
    ports.rate(ONE, pfc_tx_pause_prio3=0.0)
    ports.polls(20)
    assert quiet(ports)


@pytest.mark.parametrize("share", [0.95, 0.6])
def test_a_port_that_is_loaded_more_than_its_peers_is_not_slow(share: float) -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.3, phy_rx=share * 50e9)
    ports.polls(12)
    assert not ports.open("slow_receiver")


def test_missing_receive_buffers_tell_on_infiniband() -> None:
    ports = Pressed(layer="InfiniBand")
    ports.rate(ONE, out_of_buffer=50.0)
    ports.polls(8)
    assert ports.open("slow_receiver") == set(ONE)
    ports = Pressed(layer="InfiniBand")
    ports.rate(ONE, out_of_buffer=50.0)
    ports.polls(1)
    ports.rate(ONE, out_of_buffer=1.0)
    ports.polls(20)
    assert quiet(ports)


def test_a_storm_is_reported_at_the_first_window_if_others_wait() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.85, phy_rx=0.25 * 50e9)
    ports.rate([(host, 1) for host in range(1, 6)], pfc_rx_pause_prio3=0.4)
    assert ports.until("pfc_storm", 5) == 1
    (held,) = ports.rule_states.by_rule["pfc_storm"].open.values()
    assert held.symptom.severity == "critical"
    assert "5 other ports" in " ".join(e.text for e in held.symptom.evidence)
    assert "host-001/mlx5_1/1" in " ".join(e.text for e in held.symptom.evidence)
    ports.polls(4)
    assert ports.rule_states.yielded()["slow_receiver"][ports.row(0, 1)]


def test_pausing_that_holds_up_nobody_is_slow_and_no_storm() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.9)
    ports.rate([(1, 1), (2, 1)], pfc_rx_pause_prio3=0.4)
    ports.polls(8)
    assert not ports.open("pfc_storm")
    assert ports.open("slow_receiver") == set(ONE)


def test_ports_that_wait_on_another_rail_are_no_victims() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_tx_pause_prio3=0.9)
    ports.rate([(host, 3) for host in range(6)], pfc_rx_pause_prio3=0.4)
    ports.polls(8)
    assert not ports.open("pfc_storm")


def test_the_adapters_own_count_of_storms_is_enough() -> None:
    ports = Pressed()
    ports.rate(ONE, pfc_storm_warning=0.2)
    ports.rate([(host, 1) for host in range(1, 5)], pfc_rx_pause_prio3=0.4)
    assert ports.until("pfc_storm", 3) == 1
