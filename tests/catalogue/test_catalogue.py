"""The catalogue names each counter once, and every name is one Prometheus takes."""

from __future__ import annotations

import re
from collections import Counter as Tally

import pytest

from fabricmon.catalogue import CATALOGUE, COUNTERS, RAW, Growth, column_of, counter_at, metric_of

_UNITS = ("bytes", "seconds", "bytes_per_second", "lanes", "celsius", "volts", "amperes", "watts", "ratio",
          "transfers_per_second", "")


def test_names_and_keys_are_unique() -> None:
    assert [n for n, k in Tally(c.name for c in COUNTERS).items() if k > 1] == []
    assert [n for n, k in Tally((c.metric, c.labels) for c in COUNTERS).items() if k > 1] == []
    keys = Tally((c.source, key) for c in COUNTERS for key in c.keys)
    assert {k for k, n in keys.items() if n > 1} == {("port", "rate")}  # rate and width are one line of one file


def test_the_series_of_a_family_are_alike_and_all_others_are_alone() -> None:
    families: dict[str, set[object]] = {}
    for c in COUNTERS:
        alike = (c.kind, c.unit, c.growth, c.bits, c.help, tuple(name for name, _ in c.labels))
        families.setdefault(c.metric, set()).add(alike)
        assert c.family or not c.labels, c.name
        assert c.labels or c.family in ("", c.name.removeprefix(f"{c.kind}_")), c.name
    assert [name for name, kinds in families.items() if len(kinds) > 1] == []


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_metric_names_follow_the_conventions(counter) -> None:
    assert re.fullmatch(r"fabricmon_[a-z]+(_[a-z0-9]+)+", counter.metric)
    assert counter.metric.endswith("_total") == counter.growth.counts
    assert counter.unit in _UNITS
    assert counter.unit in counter.metric
    assert counter.metric.count("_total") == int(counter.growth.counts)
    assert counter.help
    assert not counter.help.endswith(".")
    for word in ("gbps", "_mb", "_ms", "percent", "_words"):
        assert word not in counter.metric


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda c: c.name)
def test_widths(counter) -> None:
    if counter.growth.counts:
        assert counter.bits in (4, 8, 16, 32, 64)
    if counter.growth is Growth.SATURATES:
        assert counter.top == 2**counter.bits - 1


def test_words_become_bytes() -> None:
    counter = counter_at("counters", "port_xmit_data")
    assert counter is not None
    assert (counter.metric, counter.scale) == ("fabricmon_port_xmit_bytes_total", 4.0)


@pytest.mark.parametrize(
    ("source", "key", "name"),
    [
        ("hw_counters", "np_cnp_sent", "cnp_sent"),
        ("hw_counters", "tx_cnp_pkts", "cnp_sent"),
        ("hw_counters", "cnpSent", "cnp_sent"),
        ("hw_counters", "local_ack_timeout_err", "ack_timeout"),
        ("hw_counters", "to_retransmits", "ack_timeout"),
        ("hw_counters", "retrans_timeout_events", "ack_timeout"),
        ("hw_counters", "requester_timeout", "ack_timeout"),
        ("hw_counters", "resp_rx_outouf_seq", "out_of_sequence_rx"),
        ("hw_counters", "vport_out_of_buffer", "out_of_buffer"),
        ("hw_counters", "tcpRetransSegs", "retrans_packets"),
        ("device_hw_counters", "keep_alive_rcvd", "device_keep_alives"),
        ("counters_ext", "port_xmit_data_64", "xmit"),
        ("counters", "unicast_xmit_packets", "unicast_xmit_packets"),
        ("hw_counters", "made_by_firmware", "raw:hw_counters/made_by_firmware"),
    ],
)
def test_every_drivers_name_leads_to_one_concept(source: str, key: str, name: str) -> None:
    assert column_of(source, key) == name


def test_mlx5_queue_counters_wrap_at_32_bits() -> None:
    for key in ("out_of_sequence", "rx_write_requests", "local_ack_timeout_err", "req_transport_retries_exceeded"):
        counter = counter_at("hw_counters", key)
        assert counter is not None
        assert (counter.bits, counter.growth) == (32, Growth.WRAPS)


def test_gauges_are_no_counters() -> None:
    for key in ("active_qps", "watermark_mrs", "num_qps_congested", "current_rate", "db_fifo_register"):
        counter = counter_at("hw_counters", key)
        assert counter is not None
        assert counter.type == "gauge"


def test_unknown_files_share_one_bounded_family() -> None:
    found = metric_of(f"{RAW}hw_counters/some/odd name")
    assert found.name == "fabricmon_port_raw"
    assert found.labels == (("directory", "hw_counters"), ("file", "some/odd name"))
    assert found.name not in {c.metric for c in COUNTERS}


def test_help_names_the_source() -> None:
    assert "symbol_error" in metric_of("symbol_errors").help
    with pytest.raises(KeyError):
        metric_of("no_such_column")
    assert set(CATALOGUE) == {c.name for c in COUNTERS}
