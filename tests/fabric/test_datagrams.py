"""Datagrams from bytes: layouts, round trips, and what is no datagram."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.fabric import mad
from tests.fabric.played import PERFORMANCE, encode

ATTRIBUTES = (mad.NODE_INFO, mad.SWITCH_INFO, mad.PORT_INFO, *PERFORMANCE)


def frame(attribute: mad.Attribute, data: bytes, kind: int = mad.CLASS_PERF, status: int = 0) -> bytes:
    head = struct.pack(">BBBBHHQHHI", 1, kind, 1, 0x81, status, 0, 0x1122334400000007, attribute.id, 0, 3)
    return (head.ljust(64, b"\0") + data).ljust(256, b"\0")


def test_port_counters_lie_where_the_specification_puts_them() -> None:
    data = bytearray(192)
    data[1] = 12
    data[4:6] = b"\x12\x34"  # symbol errors
    data[6], data[7] = 0x56, 0x78  # recoveries, downs
    data[8:10], data[14:16] = b"\x9a\xbc", b"\x00\x09"  # receive errors, discards
    data[19] = 0xA5  # link integrity in the high half, buffer overruns in the low one
    data[20:22], data[22:24] = b"\x00\x11", b"\x00\x22"  # QP1 dropped, VL15 dropped
    data[24:28], data[40:44] = b"\xff\xff\xff\xff", b"\x00\x00\x01\x00"
    read = mad.decode(mad.PORT_COUNTERS, frame(mad.PORT_COUNTERS, bytes(data)))
    assert {k: v for k, v in read.items() if v} == {
        "port_select": 12, "symbol_error": 0x1234, "link_error_recovery": 0x56, "link_downed": 0x78,
        "port_rcv_errors": 0x9ABC, "port_xmit_discards": 9, "local_link_integrity_errors": 10,
        "excessive_buffer_overrun_errors": 5, "qp1_dropped": 0x11, "VL15_dropped": 0x22,
        "port_xmit_data": 2**32 - 1, "port_xmit_wait": 256,
    }  # fmt: skip


def test_node_info_and_port_info() -> None:
    data = struct.pack(">BBBBQQQHHIBBH", 1, 1, 2, 64, 0x10, 0x20, 0x30, 32, 0xD2F2, 0xA0, 7, 0, 0x2C9).ljust(64, b"\0")
    info = mad.decode(mad.NODE_INFO, frame(mad.NODE_INFO, data, mad.CLASS_SMP_LID))
    assert (info["node_type"], info["ports"], info["node_guid"], info["port_guid"]) == (mad.SWITCH, 64, 0x20, 0x30)
    assert (info["device"], info["local_port"], info["vendor"]) == (0xD2F2, 7, 0x2C9)
    port = bytearray(64)
    port[16:18], port[18:20] = b"\x01\x02", b"\x00\x05"
    port[31] = 2  # 4X
    port[32] = 0x04  # ACTIVE in the low half
    port[33] = 0x52  # LinkUp in the high half
    port[35], port[62] = 0x40, 0x80  # QDR, and NDR where the extended speeds are
    got = mad.decode(mad.PORT_INFO, frame(mad.PORT_INFO, bytes(port)))
    assert (got["lid"], got["sm_lid"], got["state"], got["phys_state"]) == (0x102, 5, 4, 5)
    assert mad.width_of(got["width_active"]) == 4
    assert mad.lane_speed(got["speed_active"], got["speed_ext_active"]) == 100.0


@pytest.mark.parametrize(
    ("codes", "gbps"),
    [((1, 0, 0), 2.5), ((2, 0, 0), 5), ((4, 0, 0), 10), ((4, 1, 0), 14), ((4, 2, 0), 25), ((4, 4, 0), 50),
     ((4, 8, 0), 100), ((4, 0, 1), 200), ((0, 0, 0), 0), ((15, 15, 3), 0)],
)  # fmt: skip
def test_lane_speeds(codes: tuple[int, int, int], gbps: float) -> None:
    assert mad.lane_speed(*codes) == gbps


@pytest.mark.parametrize(("code", "lanes"), [(1, 1), (2, 4), (4, 8), (8, 12), (16, 2), (0, 0), (3, 0)])
def test_widths(code: int, lanes: int) -> None:
    assert mad.width_of(code) == lanes


@given(st.sampled_from(ATTRIBUTES), st.data())
def test_what_is_encoded_is_decoded(attribute: mad.Attribute, data: st.DataObject) -> None:
    values = {f.name: data.draw(st.integers(0, 2**f.bits - 1)) for f in attribute.fields}
    assert mad.decode(attribute, frame(attribute, encode(attribute, values))) == values


@given(st.sampled_from(ATTRIBUTES), st.binary(max_size=256))
def test_any_bytes_are_decoded_or_refused(attribute: mad.Attribute, data: bytes) -> None:
    try:
        read = mad.decode(attribute, data)
    except mad.MadError:
        assert len(data) < mad.DATA + attribute.size
    else:
        assert all(0 <= read[f.name] < 2**f.bits for f in attribute.fields)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda a: a.name)
def test_fields_lie_apart_within_the_attribute(attribute: mad.Attribute) -> None:
    taken: set[int] = set()
    for f in attribute.fields:
        bits = set(range(f.offset, f.offset + f.bits))
        assert not bits & taken, f.name
        assert max(bits) < 8 * attribute.size
        taken |= bits


def test_a_directed_request() -> None:
    asked = mad.directed(b"\0\1\x29", mad.PORT_INFO, 5)
    assert len(asked) == mad.SIZE
    assert asked[:8] == bytes((1, 0x81, 1, 1, 0, 0, 0, 2))  # version, class, version, Get, status, pointer 0, 2 hops
    assert asked[16:18] == b"\x00\x15"
    assert asked[20:24] == b"\0\0\0\5"
    assert asked[32:36] == b"\xff\xff\xff\xff"  # both LIDs permissive
    assert asked[128:131] == b"\0\1\x29"
    assert not any(asked[131:])


@pytest.mark.parametrize("route", [b"", b"\1", b"\0" + bytes(64)])
def test_no_route(route: bytes) -> None:
    with pytest.raises(mad.MadError, match="route"):
        mad.directed(route, mad.NODE_INFO)


def test_a_performance_request_only_ever_gets() -> None:
    for attribute in PERFORMANCE:
        asked = mad.performance(attribute, 33)
        assert len(asked) == mad.SIZE
        assert asked[1:4] == bytes((mad.CLASS_PERF, 1, mad.GET))
        assert asked[mad.DATA : mad.DATA + 4] == b"\0\x21\0\0"  # port, and no counter selected
        assert int.from_bytes(asked[16:18], "big") == attribute.id
    with pytest.raises(mad.MadError, match="256"):
        mad.performance(mad.PORT_COUNTERS, 256)


def test_a_directed_answer_has_its_direction_in_the_status() -> None:
    got = mad.answer(frame(mad.NODE_INFO, b"", mad.CLASS_SMP_DIRECTED, 0x8000))
    assert (got.status, got.tid, got.attribute, got.modifier) == (0, 7, 0x11, 3)
    assert mad.answer(frame(mad.NODE_INFO, b"", mad.CLASS_SMP_DIRECTED, 0x801C)).status == 0x1C
    with pytest.raises(mad.MadError):
        mad.answer(bytes(23))


def test_status_in_words() -> None:
    assert mad.status_text(0x0C) == "method or attribute not supported (0xc)"
    assert mad.status_text(0x400) == "status 0x400"


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"gpu0001 mlx5_0\0junk", "gpu0001 mlx5_0"), (b"\xff\xfe x", "\ufffd\ufffd x"), (b" a\tb\x1b[0m ", "ab[0m"),
     (b"x" * 64, "x" * 64), (b"", "")],
)  # fmt: skip
def test_descriptions(raw: bytes, text: str) -> None:
    assert mad.description(frame(mad.NODE_DESCRIPTION, raw.ljust(64, b"\0"))) == text


@pytest.mark.parametrize(
    ("values", "words"), [({"none": 1}, "no field none"), ({"link_downed": 256}, "8 bits"), ({"link_downed": -1}, "-1")]
)
def test_what_does_not_fit_is_not_encoded(values: dict[str, int], words: str) -> None:
    with pytest.raises(mad.MadError, match=words):
        encode(mad.PORT_COUNTERS, values)
