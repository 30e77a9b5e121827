"""Names of agents are looked up in a bounded number of threads that no stuck name server can hold for others."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fabricmon.central.streams import resolver
from fabricmon.central.streams.resolver import DaemonResolver

V4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 9101))
V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::7%3", 9101, 0, 3))
GLOBAL = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::7", 9101, 0, 0))


class Names:
    """A name server: answers by name; "slow" waits until `go`."""

    def __init__(self) -> None:
        self.go, self.asked, self.busy, self.most = threading.Event(), [], 0, 0
        self._lock = threading.Lock()

    def getaddrinfo(self, host: str, port: int, **asked: Any) -> list[Any]:
        with self._lock:
            self.asked.append((host, port, asked))
            self.busy += 1
            self.most = max(self.most, self.busy)
        try:
            if host.startswith("slow"):
                self.go.wait(60)
            if host == "nobody":
                raise socket.gaierror(-2, "Name or service not known")
            if host == "odd":
                raise UnicodeError("label too long")
            return [V4, V6, GLOBAL]
        finally:
            with self._lock:
                self.busy -= 1


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    own = SimpleNamespace(**{name: getattr(socket, name) for name in dir(socket)} | {"getaddrinfo": found.getaddrinfo})
    monkeypatch.setattr(resolver, "socket", own)
    return found


async def test_all_addresses_of_a_name_and_the_interface_of_those_that_need_one(names: Names) -> None:
    found = await DaemonResolver().resolve("agent", 9101, socket.AF_UNSPEC)
    assert [(one["host"], one["port"], one["family"]) for one in found] == [
        ("10.0.0.7", 9101, socket.AF_INET),
        ("fe80::7%3", 9101, socket.AF_INET6),
        ("2001:db8::7", 9101, socket.AF_INET6),
    ]
    assert {one["hostname"] for one in found} == {"agent"}
    assert {one["flags"] for one in found} == {socket.AI_NUMERICHOST | socket.AI_NUMERICSERV}
    assert {one["proto"] for one in found} == {6}
    assert names.asked == [("agent", 9101, {"type": socket.SOCK_STREAM, "family": socket.AF_UNSPEC})]


@pytest.mark.parametrize(("name", "says"), [("nobody", "not known"), ("odd", "label too long")])
async def test_a_name_without_an_address_is_an_error_and_holds_nothing(names: Names, name: str, says: str) -> None:
    looks = DaemonResolver(threads=1)
    for _ in range(3):
        with pytest.raises(OSError, match=says):
            await looks.resolve(name)
    assert len(await looks.resolve("agent")) == 3


async def test_so_many_lookups_at_a_time_and_one_given_up_frees_its_place_when_it_ends(names: Names) -> None:
    looks = DaemonResolver(threads=2)
    waiting = [asyncio.create_task(looks.resolve(f"slow-{n}")) for n in range(5)]
    while names.busy < 2:
        await asyncio.sleep(0.001)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert waiting[0].cancelled()
    assert len(names.asked) == 2  # its thread still waits for the name server
    names.go.set()
    assert [len(found) for found in await asyncio.gather(*waiting[1:])] == [3] * 4
    assert names.most == 2
    await looks.close()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that `Addresses` asked the name server for; each has two addresses."""
    asked: list[str] = []

    async def resolve(_: DaemonResolver, host: str, port: int, family: int) -> list[dict[str, Any]]:
        asked.append(host)
        return [{"host": "10.0.0.7"}, {"host": "2001:db8::7"}]

    monkeypatch.setattr(DaemonResolver, "resolve", resolve)
    return asked


async def test_a_name_is_looked_up_again_when_its_answer_is_too_old(
    looked_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, addresses = [1000.0], resolver.Addresses()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    for _ in range(2):
        found = await addresses.of("agent", 9101)
        assert [one[4][:2] for one in found] == [("10.0.0.7", 9101), ("2001:db8::7", 9101)]
    now[0] += resolver.DNS_CACHE - 0.1
    await addresses.of("agent", 9102)
    assert looked_up == ["agent"], "of another port, too"
    now[0] += 0.1
    await addresses.of("agent", 9101)
    assert looked_up == ["agent", "agent"]
    assert await addresses.of("10.0.0.9", 9101)
    assert len(looked_up) == 2, "a number needs no name server"


async def test_answers_that_are_too_old_are_given_up(looked_up: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now, addresses = [1000.0], resolver.Addresses()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    for number in range(5):
        await addresses.of(f"agent-{number}", 9101)
    assert len(addresses._known) == 5
    now[0] += resolver.DNS_CACHE
    await addresses.of("another", 9101)
    assert set(addresses._known) == {"another"}
    now[0] += 1.0
    await addresses.of("a-third", 9101)
    assert set(addresses._known) == {"another", "a-third"}
