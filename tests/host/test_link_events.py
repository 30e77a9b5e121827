"""Links over pyroute2: messages decoded, and events that go on after any error of the socket and report the loss."""

from __future__ import annotations

import asyncio
import errno
import queue
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.exceptions import NetlinkDecodeError

from fabricmon.host import rtnl, rtnl_socket
from fabricmon.host.messages import netlink
from fabricmon.host.protocol import HostError, Link
from fabricmon.host.rtnl import Rtnetlink
from fabricmon.host.rtnl_socket import RTM_DELLINK, RTM_NEWLINK, LinkMarshal, link_of

PATIENCE = 120.0
NUMBER = {name: kind for kind, name, _ in rtnl_socket.LinkMessage.nla_map}


def string(name: str, text: str) -> bytes:
    return netlink.attribute(NUMBER[name], text.encode() + b"\0")


def number(name: str, value: int, layout: str = "=I") -> bytes:
    return netlink.attribute(NUMBER[name], struct.pack(layout, value))


def message(*attributes: bytes, kind: int = RTM_NEWLINK, flags: int = 1) -> bytes:
    """A datagram about interface 7."""
    return netlink.encode(kind, 0, 0, struct.pack("=BxHiII", 0, 1, 7, flags, 0) + b"".join(attributes))


def eth0(carrier: int, kind: int = RTM_NEWLINK) -> bytes:
    return message(string("name", "eth0"), number("carrier", carrier, "=B"), kind=kind)


def decode(datagram: bytes) -> list[Link]:
    found = list(LinkMarshal().parse(datagram))
    for one in found:
        if one["header"].get("error") is not None:
            raise one["header"]["error"]
    return [link_of(one) for one in found]


def test_a_link() -> None:
    datagram = message(
        string("name", "eth0"),
        number("mtu", 9000),
        number("operstate", 6, "=B"),
        number("carrier", 1, "=B"),
        number("carrier_up_count", 5),
        number("carrier_down_count", 4),
        number("master", 9),
        netlink.attribute(NUMBER["address"], bytes.fromhex("800000010203040506070809") + bytes(8)),  # IPoIB: 20 bytes
        netlink.nested(NUMBER["info"], netlink.attribute(1, b"bond\0"), netlink.nested(2, netlink.attribute(1, b"x"))),
        netlink.attribute(NUMBER["stats"], struct.pack("=25Q", *range(1, 26))),
        netlink.attribute(60, b"an attribute of a later kernel"),
    )
    (found,) = decode(datagram)
    address = "80:00:00:01:02:03:04:05:06:07:08:09" + 8 * ":00"
    assert found == Link(7, "eth0", "up", True, 1, 5, 4, 9000, 9, "bond", address, "", "", found.stats)
    assert found.stats["rx_packets"] == 1
    assert found.stats["tx_dropped"] == 8
    assert found.stats["rx_crc_errors"] == 13


def test_a_link_of_an_old_kernel_lacks_the_counts() -> None:
    (found,) = decode(message(string("name", "eth0"), flags=0))
    assert (found.carrier, found.carrier_down_count, found.stats) == (None, None, {})
    assert (found.operstate, found.admin_up) == ("unknown", False)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoder(data: bytes) -> None:
    for datagram in (data, netlink.encode(RTM_NEWLINK, 0, 0, data), message(string("name", "eth0"), data)):
        try:
            decode(datagram)
        except (NetlinkDecodeError, struct.error, KeyError):
            continue


class Socket:
    """Datagrams that a test wrote down; an exception among them is raised. After the last it is silent."""

    def __init__(self, script: list[bytes | Exception]) -> None:
        self.script, self.closed = script, False

    async def bind(self, groups: int) -> None:
        assert groups == 1
        if self.script and isinstance(self.script[0], PermissionError):
            raise self.script[0]

    async def get(self) -> AsyncIterator[Any]:
        if not self.script:
            await asyncio.Event().wait()
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        for found in LinkMarshal().parse(step):
            if found["header"].get("error") is not None:
                raise found["header"]["error"]
            yield found

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[Socket]:
    """Each socket that is opened plays the next of these scripts."""
    waiting: list[Socket] = []

    def open_socket(buffer: int = 0) -> Socket:
        return waiting.pop(0) if waiting else Socket([])

    monkeypatch.setattr(rtnl_socket, "open_socket", open_socket)
    monkeypatch.setattr(rtnl, "_REOPEN_SECONDS", 0.0)
    return waiting


def test_lost_events_are_reported_and_listening_goes_on(sockets: list[Socket]) -> None:
    first = Socket([eth0(0), OSError(errno.ENOBUFS, "No buffer space available")])
    second = Socket([eth0(1), RuntimeError("something else")])
    cut = netlink.encode(RTM_NEWLINK, 0, 0, b"cut")
    third = Socket([netlink.encode(99, 0, 0, b""), cut])
    fourth = Socket([eth0(1, kind=RTM_DELLINK)])
    sockets += [first, second, third, fourth]
    received: queue.Queue[Link | None] = queue.Queue()
    links = Rtnetlink()
    stop = links.watch(received.put)
    found = [received.get(timeout=PATIENCE) for _ in range(6)]
    assert [(k.name, k.carrier, k.operstate) if k else None for k in found] == [
        ("eth0", 0, "unknown"),
        None,  # between the first socket and the second
        ("eth0", 1, "unknown"),
        None,
        None,  # a message that makes no sense
        ("eth0", 0, "notpresent"),  # removed
    ]
    assert first.closed
    assert second.closed
    assert third.closed
    stop()
    links.close()


def test_a_refused_group_is_an_error_at_once(sockets: list[Socket]) -> None:
    sockets.append(Socket([PermissionError(errno.EPERM, "Operation not permitted")]))
    links = Rtnetlink()
    with pytest.raises(HostError) as caught:
        links.watch(print)
    assert caught.value.errno == errno.EPERM
    links.close()
