"""Messages to the service manager over a real datagram socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from fabricmon.runtime.sdnotify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(str(tmp_path / "notify"))
    s.settimeout(10)
    return s


def test_messages(manager: socket.socket) -> None:
    n = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    n.ready("8 ports,\n512 values")
    assert manager.recv(1000) == b"READY=1\nSTATUS=8 ports, 512 values"
    n.status("fine")
    n.status("fine")
    n.alive()
    assert [manager.recv(1000), manager.recv(1000)] == [b"STATUS=fine", b"WATCHDOG=1"]
    n.reloading(5)
    assert manager.recv(1000) == b"RELOADING=1\nMONOTONIC_USEC=5"
    n.stopping()
    assert manager.recv(1000) == b"STOPPING=1"
    manager.close()


def test_an_abstract_socket() -> None:
    name = f"\0fabricmon-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(name)
        s.settimeout(10)
        Notifier({"NOTIFY_SOCKET": "@" + name[1:]}).ready()
        assert s.recv(1000) == b"READY=1"


def test_no_manager_and_a_dead_one_are_no_trouble(tmp_path: Path) -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nothing")}).ready()


@pytest.mark.parametrize(("environ", "period"), [
    ({}, None),
    ({"WATCHDOG_USEC": "30000000"}, 15.0),
    ({"WATCHDOG_USEC": "0"}, None),
    ({"WATCHDOG_USEC": "soon"}, None),
    ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
    ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
])
def test_the_watchdog_is_fed_at_half_its_period(environ: dict[str, str], period: float | None) -> None:
    assert Notifier(environ).watchdog == period
