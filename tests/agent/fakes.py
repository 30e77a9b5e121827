"""A host and collectors whose every reading, delay and failure a test decides."""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from fabricmon.agent.app import Agent
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig
from fabricmon.host.protocol import Host
from fabricmon.model import Component, Event, Fault, Kind, Part, Reading


class FakeHost:
    """Only what the agent itself asks; the collectors here ask nothing."""

    name = "host-007"

    def boot_id(self) -> str:
        return "boot-1"

    def machine_id(self) -> str:
        return "0123456789abcdef"

    def monotonic(self) -> float:
        return time.monotonic()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the agent asked the host for {name}")


class Config(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool = True
    interval: float = 0.05
    deadline: float = 1.0
    rediscover: float = 60.0


def port_part(device: str, columns: tuple[str, ...], collector: str = "fake", period: float = 10.0) -> Part:
    labels = {"device": device, "port": "1", "link_layer": "InfiniBand", "node_guid": "0x1", "firmware": "28.39"}
    return Part(collector, Kind.PORT, columns, (Component(f"{device}/1", labels),), period)


class FakeSession:
    """One device of one port. Set `values`, `error`, `faults`, `seconds`; clear `gate` to hang reads until set."""

    def __init__(self, device: str, columns: tuple[str, ...] = ("symbol_errors", "rcv"), period: float = 10.0) -> None:
        self.parts = (port_part(device, columns, period=period),)
        self.values = [0.0] * len(columns)
        self.error: Exception | None = None
        self.faults: tuple[Fault, ...] = ()
        self.gate = threading.Event()
        self.gate.set()
        self.reads = 0
        self.reading_now = 0
        self.most_at_once = 0
        self.seconds = 0.0
        self.thread = 0
        self.closed_during_read: bool | None = None

    def read(self) -> Reading:
        self.reading_now += 1
        self.most_at_once = max(self.most_at_once, self.reading_now)
        try:
            self.thread = threading.get_ident()
            self.gate.wait()
            time.sleep(self.seconds)
            self.reads += 1
            if self.error:
                raise self.error
            return Reading(self.parts, array("d", self.values), time.monotonic(), self.faults, queries=3)
        finally:
            self.reading_now -= 1

    def close(self) -> None:
        self.closed_during_read = self.reading_now > 0


class FakeCollector:
    """Stands for a row of COLLECTORS, and for the collector that it opens."""

    config = Config
    wide = False

    def __init__(self, name: str = "fake", **sessions: FakeSession) -> None:
        self.name = name
        self.found: dict[str, FakeSession] = sessions
        self.error: Exception | None = None
        self.notify: Callable[[Event | None], None] = lambda event: None
        self.searches = 0
        self.stopped = self.closed = False

    def open(self, host: Host, config: Config) -> FakeCollector:
        return self

    def sessions(self) -> dict[str, FakeSession]:
        self.searches += 1
        if self.error:
            raise self.error
        return dict(self.found)

    def watch(self, notify: Callable[[Event | None], None]) -> Callable[[], None]:
        self.notify = notify

        def stop() -> None:
            self.stopped = True

        return stop

    def close(self) -> None:
        self.closed = True


class Running:
    """An agent on loopback for the time of a `with`."""

    def __init__(self, *collectors: FakeCollector, config: Config | None = None, **agent: Any) -> None:
        settings = AgentConfig(**{"listen": ("127.0.0.1:0",), "evaluate": False, **agent})
        configs = {c.name: config or Config() for c in collectors}
        self.agent = Agent(NodeSettings(settings, configs, {}), FakeHost(), {c.name: c for c in collectors})

    async def __aenter__(self) -> Running:
        self.sessions: dict[str, FakeSession] = {}
        self._task = asyncio.create_task(self.agent.run())
        waiting = asyncio.create_task(self.agent.listening.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def url(self, path: str) -> str:
        return f"http://{self.agent.addresses[0]}{path}"


async def until(condition: Callable[[], object], limit: float = 10.0) -> None:
    """Wait until `condition` holds; the limit only keeps a broken test from hanging."""
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.005)
