"""Listening to link events goes on whatever happens to the socket, and says when some were lost."""

from __future__ import annotations

import asyncio
import errno
import queue
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fabricmon.host import netlink, rtnl, rtnl_socket
from fabricmon.host.protocol import HostError, Link
from fabricmon.host.rtnl import RTM_DELLINK, RTM_NEWLINK, Rtnetlink

PATIENCE = 30.0


def message(name: str, carrier: int) -> bytes:
    header = struct.pack("=BxHiII", 0, 1, 7, 1, 0)
    return (
        header
        + netlink.attribute(rtnl.IFNAME, name.encode() + b"\0")
        + netlink.attribute(rtnl.CARRIER, bytes([carrier]))
    )


class Socket:
    """Events a test wrote down; an exception among them is raised. After the last it is silent."""

    def __init__(self, script: list[Any]) -> None:
        self.script, self.closed = script, False

    async def bind(self, groups: int) -> None:
        assert groups == 1
        if self.script and isinstance(self.script[0], PermissionError):
            raise self.script[0]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[Socket]:
    """Each socket that is opened plays the next of these scripts."""
    waiting: list[Socket] = []

    async def events(sock: Socket) -> AsyncIterator[tuple[int, bytes]]:
        for step in sock.script:
            if isinstance(step, BaseException):
                raise step
            yield step
        await asyncio.Event().wait()

    def open_socket(buffer: int = 0) -> Socket:
        return waiting.pop(0) if waiting else Socket([])

    monkeypatch.setattr(rtnl_socket, "open_socket", open_socket)
    monkeypatch.setattr(rtnl_socket, "events", events)
    monkeypatch.setattr(rtnl, "_REOPEN_SECONDS", 0.0)
    return waiting


def test_lost_events_are_told_and_listening_goes_on(sockets: list[Socket]) -> None:
    first = Socket([(RTM_NEWLINK, message("eth0", 0)), OSError(errno.ENOBUFS, "No buffer space available")])
    second = Socket([(RTM_NEWLINK, message("eth0", 1)), RuntimeError("something else")])
    third = Socket([(99, b""), (RTM_NEWLINK, b"cut"), (RTM_DELLINK, message("eth0", 1))])
    sockets += [first, second, third]
    told: queue.Queue[Link | None] = queue.Queue()
    links = Rtnetlink()
    stop = links.watch(told.put)
    found = [told.get(timeout=PATIENCE) for _ in range(6)]
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
    stop()
    links.close()


def test_a_refused_group_is_an_error_at_once(sockets: list[Socket]) -> None:
    sockets.append(Socket([PermissionError(errno.EPERM, "Operation not permitted")]))
    links = Rtnetlink()
    with pytest.raises(HostError) as caught:
        links.watch(print)
    assert caught.value.errno == errno.EPERM
    links.close()
