"""credits_withheld: who receives too slowly on InfiniBand, by its traffic and the waits of ports near it."""

from __future__ import annotations

import pytest

from fabricmon.rules.credits_withheld import CreditsWithheldParams
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
    assert 7 <= took <= 10  # three windows of 30 s
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
        case "half":  # one of two equal senders stopped, while others waited before
            receive(ports, ONE, 1.0)
            ports.polls(4)
            receive(ports, ONE, 0.5)
        case "sends less, too":
            ports.work(ONE, 0.1 * WORK)
        case "host":
            receive(ports, [(0, nic) for nic in range(4)], 0.1)
        case "rail":
            receive(ports, [(4, 1)], 0.1)
    ports.polls(24)
    assert not ports.open("credits_withheld")


def with_its_senders(share: float, senders: int, before: int = 0, too: list[tuple[int, int]] | None = None) -> Pressed:
    """ONE receives a share of its work, `too` as well; some of SENDERS wait, since `before` polls before it. Ports that
    wait are evidence by the moment at which they began to only."""
    ports = fabric(hosts=24, nics=3, params={"credits_withheld": CreditsWithheldParams(waiting=24)})
    ports.rate(SENDERS[:senders], xmit_wait_ticks=WAIT)
    ports.polls(before)
    receive(ports, ONE + (too or []), share)
    ports.polls(12)
    return ports


@pytest.mark.parametrize(
    ("share", "senders", "before", "found"),
    [
        (0.1, 3, 0, True),
        (0.1, 2, 0, True),
        (0.1, 1, 0, False),
        (0.1, 3, 4, False),  # they waited before
        (0.6, 3, 0, True),
        (0.6, 2, 0, False),  # by chance, more often than once in a thousand
        (0.8, 3, 0, False),
    ],
)
def test_senders_are_known_by_the_moment_at_which_they_began_to_wait(
    share: float, senders: int, before: int, found: bool
) -> None:
    ports = with_its_senders(share, senders, before)
    assert ports.open("credits_withheld") == (set(ONE) if found else set())


def test_of_two_ports_that_fell_alike_at_that_moment_none_is_the_receiver() -> None:
    assert not with_its_senders(0.1, 3, too=[(5, 1)]).open("credits_withheld")


def test_the_evidence_says_how_many_began_to_wait_with_it() -> None:
    texts = " ".join(e.text for e in with_its_senders(0.1, 3).evidence("credits_withheld", 0, 1))
    assert "3 ports of its rail began to wait for credits in the seconds in which it began to receive less" in texts


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
