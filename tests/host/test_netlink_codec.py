"""Netlink from bytes: what is encoded comes back, and no bytes whatever raise anything but NetlinkError."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.host import netlink_socket
from fabricmon.host.messages import netlink, rdma
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol import HostError, RdmaDevice, RdmaPort

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
u64 = st.integers(0, 2**64 - 1)


def attr(kind: int, value: int, size: int) -> bytes:
    return netlink.attribute(kind, value.to_bytes(size, "little" if struct.pack("=H", 1)[0] else "big"))


def string(kind: int, text: str) -> bytes:
    return netlink.attribute(kind, text.encode() + b"\0")


def counters_payload(values: dict[str, int]) -> bytes:
    entries = [
        netlink.nested(rdma.ENTRY, string(rdma.NAME, name), attr(rdma.VALUE, value, 8))
        for name, value in values.items()
    ]
    return attr(rdma.DEV_INDEX, 0, 4) + attr(rdma.PORT_INDEX, 1, 4) + netlink.nested(rdma.HWCOUNTERS, *entries)


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=70)), max_size=20))
def test_attributes_come_back(wanted: list[tuple[int, bytes]]) -> None:
    data = b"".join(netlink.attribute(kind, payload) for kind, payload in wanted)
    assert len(data) % 4 == 0
    assert list(netlink.attributes(data)) == wanted


@given(st.lists(st.tuples(st.integers(16, 0xFFFF), st.integers(0, 2**32 - 1), st.binary(max_size=64)), max_size=8))
def test_messages_come_back(wanted: list[tuple[int, int, bytes]]) -> None:
    parts = []
    for kind, sequence, payload in wanted:
        one = netlink.encode(kind, netlink.NLM_F_REQUEST, sequence, payload)
        parts.append(one + bytes(-len(one) % 4))
    assert [(m.type, m.sequence, m.payload) for m in netlink.messages(b"".join(parts))] == wanted


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoders(data: bytes) -> None:
    for decode in (
        lambda d: list(netlink.messages(d)),
        lambda d: list(netlink.attributes(d)),
        rdma.decode_device,
        rdma.decode_port,
        rdma.decode_counters,
    ):
        try:
            decode(data)
        except NetlinkError:
            continue


@given(st.dictionaries(names, u64, min_size=1, max_size=80), st.data())
def test_counters_of_a_port(values: dict[str, int], data: st.DataObject) -> None:
    payload = counters_payload(values)
    assert rdma.decode_counters(payload) == values
    cut = data.draw(st.integers(0, len(payload) - 1))
    try:
        found = rdma.decode_counters(payload[:cut])
    except NetlinkError:
        return
    assert found.items() <= values.items()


@given(u64, names, st.integers(0, 2**32 - 1), st.integers(0, 255))
def test_a_device(guid: int, name: str, index: int, ports: int) -> None:
    payload = (
        attr(rdma.DEV_INDEX, index, 4)
        + string(rdma.DEV_NAME, name)
        + attr(rdma.PORT_INDEX, ports, 4)
        + string(rdma.FW_VERSION, "28.41.1000")
        + attr(rdma.NODE_GUID, guid, 8)
        + string(rdma.DEV_PROTOCOL, "ib")
        + string(200, "an attribute of a later kernel")
    )
    shown = f"{guid:016x}"
    quads = ":".join(shown[i : i + 4] for i in range(0, 16, 4))
    assert rdma.decode_device(payload) == RdmaDevice(index, name, ports, "28.41.1000", quads, "ib")


def test_a_port_without_lid_is_ethernet() -> None:
    payload = attr(rdma.PORT_STATE, 4, 1) + attr(rdma.PORT_PHYS_STATE, 5, 1) + string(rdma.NDEV_NAME, "eth7")
    assert rdma.decode_port(payload) == RdmaPort(4, 5, None, None, "eth7")


def test_a_port_without_state_is_no_port() -> None:
    with pytest.raises(NetlinkError, match="state"):
        rdma.decode_port(attr(rdma.LID, 4, 4))


def test_a_question_names_device_and_port() -> None:
    assert list(netlink.attributes(rdma.request(3, 1))) == [
        (rdma.DEV_INDEX, struct.pack("=I", 3)),
        (rdma.PORT_INDEX, struct.pack("=I", 1)),
    ]


class _Kernel:
    """A socket that answers with datagrams made beforehand."""

    def __init__(self, *answers: bytes | OSError) -> None:
        self.answers = list(answers)

    def recv(self, size: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_answers_to_earlier_questions_are_skipped() -> None:
    late = netlink.encode(5125, 0, 1, attr(rdma.PORT_STATE, 1, 1))
    own = netlink.encode(5125, 0, 2, attr(rdma.PORT_STATE, 4, 1))
    assert netlink_socket.answer("q", _Kernel(late, own), 2, dump=False) == [attr(rdma.PORT_STATE, 4, 1)]


def test_an_error_of_the_kernel_is_an_error_of_the_question() -> None:
    refused = netlink.encode(netlink.NLMSG_ERROR, 0, 2, struct.pack("=i", -22) + bytes(16))
    with pytest.raises(HostError) as caught:
        netlink_socket.answer("STAT_GET", _Kernel(refused), 2, dump=False)
    assert caught.value.errno == 22
    assert "STAT_GET" in str(caught.value)


def test_a_dump_ends_with_done_and_is_bounded() -> None:
    one = netlink.encode(5121, netlink.NLM_F_MULTI, 2, attr(rdma.DEV_INDEX, 0, 4))
    done = netlink.encode(netlink.NLMSG_DONE, netlink.NLM_F_MULTI, 2, bytes(4))
    assert len(netlink_socket.answer("q", _Kernel(one, one + done), 2, dump=True)) == 2
    with pytest.raises(NetlinkError, match="datagrams"):
        netlink_socket.answer("q", _Kernel(*[one] * 300), 2, dump=True)
