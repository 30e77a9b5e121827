"""incast: one receiver that takes all its line carries while its senders are slowed down."""

from __future__ import annotations

from tests.rules.bench_of_pressure import RATE, Pressed, quiet

RECEIVER = (7, 0)
SENDERS = [(host, 0) for host in range(6)]


def fan_in(ports: Pressed, *, full: float = 0.97, marked: float = 0.08) -> None:
    packets = full * RATE / 4096
    ports.rate([RECEIVER], phy_rx=full * RATE, rdma_rx_packets=packets, ecn_marked_rx=marked * packets)
    ports.rate(SENDERS, cnp_handled=2000.0)
    ports.work(SENDERS, 0.16)


def test_the_receiver_is_named_and_its_senders_are_counted() -> None:
    ports = Pressed()
    fan_in(ports)
    took = ports.until("incast", 12)
    assert took is not None
    assert ports.open("incast") == {RECEIVER}
    assert not ports.open("slow_receiver")
    symptom = ports.rule_states.by_rule["incast"].open[ports.row(*RECEIVER)].symptom
    assert symptom.severity == "warning"
    assert symptom.info["senders"] == "6"
    text = " ".join(e.text for e in symptom.evidence)
    assert "97% of its line rate" in text
    assert "8.0% of the received packets" in text


def test_it_ends_and_waiting_counts_where_no_notifications_are_reported() -> None:
    ports = Pressed()
    fan_in(ports, marked=0.0)
    ports.rate(SENDERS, cnp_handled=0.0, pfc_rx_pause_prio3=0.08)
    ports.polls(10)
    assert ports.open("incast") == {RECEIVER}
    ports.work(ports.rates, 0.3)
    ports.rate(SENDERS, pfc_rx_pause_prio3=0.0)
    ports.polls(25)
    assert quiet(ports)


def test_a_fabric_that_is_used_well_is_no_incast() -> None:
    """An all-to-all at line rate: everybody receives alike, everybody is slowed down now and then."""
    ports = Pressed()
    ports.work(ports.rates, 0.95)
    ports.rate(ports.rates, cnp_handled=500.0)
    ports.polls(40)
    assert quiet(ports)


def test_among_loaded_peers_a_port_that_becomes_full_alone_as_others_are_slowed_down_is_overrun() -> None:
    ports = Pressed()
    ports.work(ports.rates, 0.68)
    ports.polls(40)
    ports.rate([RECEIVER], phy_rx=0.97 * RATE)
    ports.rate(SENDERS, cnp_handled=2000.0)
    assert ports.until("incast", 12) is not None
    assert ports.open("incast") == {RECEIVER}


def test_a_port_that_was_as_full_before_or_fills_with_its_peers_is_not_overrun() -> None:
    ports = Pressed()
    ports.work(ports.rates, 0.68)
    ports.rate([RECEIVER], phy_rx=0.97 * RATE)
    ports.polls(40)
    ports.rate(SENDERS, cnp_handled=2000.0)
    ports.polls(20)
    assert quiet(ports)
    ports = Pressed()
    ports.work(ports.rates, 0.68)
    ports.polls(40)
    ports.work(ports.rates, 0.93)
    ports.rate(SENDERS, cnp_handled=2000.0)
    ports.polls(20)
    assert quiet(ports)


def test_few_senders_or_a_receiver_that_pauses_are_no_incast() -> None:
    ports = Pressed()
    fan_in(ports)
    ports.rate(SENDERS[:3], cnp_handled=0.0)
    ports.polls(12)
    assert quiet(ports)
    ports = Pressed()
    fan_in(ports)
    ports.rate([RECEIVER], pfc_tx_pause_prio3=0.2)
    ports.polls(12)
    assert not ports.open("incast")


def test_storage_is_meant_to_be_written_to() -> None:
    ports = Pressed(roles={0: "storage"})
    fan_in(ports)
    ports.polls(20)
    assert quiet(ports)


def test_marked_share_without_a_count_of_packets_takes_the_largest_packet() -> None:
    ports = Pressed()
    fan_in(ports, full=0.8)
    ports.rate([RECEIVER], rdma_rx_packets=float("nan"), ecn_marked_rx=0.09 * 0.8 * RATE / 4096)
    ports.polls(10)
    assert ports.open("incast") == {RECEIVER}
