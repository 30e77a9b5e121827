"""credits_withheld: who receives too slowly on InfiniBand, by its traffic and the waits of ports near it."""

from __future__ import annotations

import pytest

from tests.rules.bench_of_pressure import RATE, WORK, Pressed

ONE, SENDERS = [(0, 1)], [(1, 1), (2, 1), (3, 1)]
WAIT = 0.4e6  # ticks of a microsecond, in a second


def fabric(**more: object) -> Pressed:
    ports = Pressed(layer="InfiniBand", **more)  # type: ignore[arg-type]
    ports.rate(ports.rates, xmit_wait_ticks=0.001e6)
    ports.polls(12)
    return ports


def receive(ports: Pressed, rows: list[tuple[int, int]], share: float) -> None:
    ports.rate(rows, rcv=share * WORK * RATE)


def withheld(share: float) -> tuple[Pressed, int]:
    """A fabric in which ONE receives a share of its work while its senders wait, and the polls until it is found."""
    ports = fabric()
    receive(ports, ONE, share)
    ports.rate(SENDERS, xmit_wait_ticks=WAIT)
    took = ports.until("credits_withheld", 12)
    assert took is not None
    return ports, took


def test_a_port_that_receives_less_while_its_rail_waits_is_the_slow_receiver_and_the_waits_are_its_effect() -> None:
    ports, took = withheld(0.1)
    assert took <= 9  # three windows of 30 s
    ports.polls(12)
    assert ports.open("credits_withheld") == set(ONE)
    assert ports.open("congestion") == set(SENDERS)
    assert ports.firing() == [("slow_receiver", "nic(host-000/mlx5_1)", "warning")]
    texts = " ".join(e.text for e in ports.evidence("credits_withheld", 0, 1))
    assert "Rx 4.0% of its line rate" in texts
    assert "3 other ports of its rail or leaf wait" in texts
    receive(ports, ONE, 1.0)
    ports.rate(SENDERS, xmit_wait_ticks=0.001e6)
    ports.polls(18)
    assert ports.open("credits_withheld") == set(ONE)  # until its senders have recovered
    ports.polls(6)
    assert not ports.firing()


def test_a_port_that_keeps_two_fifths_is_found_and_stays_although_the_server_has_seen_it_for_minutes_only() -> None:
    ports, took = withheld(0.4)
    assert 9 <= took <= 10  # the mean of 90 s
    ports.polls(60)
    assert ports.open("credits_withheld") == set(ONE), "what fell is not usual after minutes"


def test_less_traffic_without_waiting_senders_is_a_sender_that_sends_less() -> None:
    ports = fabric()
    receive(ports, ONE, 0.0)
    ports.polls(20)
    ports.rate(SENDERS[:1], xmit_wait_ticks=WAIT)  # one port waits often, for reasons of its own
    ports.polls(20)
    ports.rate([(host, 2) for host in range(1, 5)], xmit_wait_ticks=WAIT)  # another rail
    ports.polls(20)
    assert not ports.open("credits_withheld")


def test_a_short_wait_is_none() -> None:
    ports = fabric()
    receive(ports, ONE, 0.1)
    ports.rate(SENDERS, xmit_wait_ticks=WAIT)
    ports.polls(3)
    ports.rate(SENDERS, xmit_wait_ticks=0.001e6)
    ports.polls(12)
    assert not ports.open("credits_withheld")


@pytest.mark.parametrize("change", ["waits itself", "half", "sends less, too", "host", "rail"])
def test_a_port_that_fell_for_another_reason_is_no_slow_receiver(change: str) -> None:
    ports = fabric()
    receive(ports, ONE, 0.1)
    ports.rate(SENDERS, xmit_wait_ticks=WAIT)
    match change:
        case "waits itself":
            ports.rate(ONE, xmit_wait_ticks=WAIT)
        case "half":  # one of two equal senders stopped
            receive(ports, ONE, 0.5)
        case "sends less, too":
            ports.work(ONE, 0.1 * WORK)
        case "host":
            receive(ports, [(0, nic) for nic in range(4)], 0.1)
        case "rail":
            receive(ports, [(4, 1)], 0.1)
    ports.polls(24)
    assert not ports.open("credits_withheld")


def test_a_port_that_sends_more_than_usual_receives_no_less() -> None:
    ports = fabric()
    ports.rate(ONE, xmit=0.02 * RATE)
    ports.polls(60)
    ports.rate(ONE, xmit=0.9 * RATE)
    ports.rate(SENDERS, xmit_wait_ticks=WAIT)
    ports.polls(12)
    assert not ports.open("credits_withheld")


def test_storage_ports_change_between_reads_and_writes() -> None:
    ports = fabric(roles={1: "storage"})
    receive(ports, ONE, 0.1)
    ports.rate(SENDERS, xmit_wait_ticks=WAIT)
    ports.polls(24)
    assert not ports.open("credits_withheld")


def test_a_port_that_counts_the_pause_it_sends_is_judged_by_that() -> None:
    ports = Pressed()
    ports.polls(12)
    ports.rate(ONE, phy_rx=0.1 * WORK * RATE)
    ports.rate(SENDERS, pfc_rx_pause_prio3=0.4)
    ports.polls(24)
    assert not ports.open("credits_withheld")
    assert not ports.open("slow_receiver")
