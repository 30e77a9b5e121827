"""Runs all collectors of a node, each at its interval.

No device is read twice at the same time, and none delays another. Readings go to the board's sink.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fabricmon.agent.board import ReadingSink, StatusBoard
from fabricmon.agent.devices import Devices
from fabricmon.agent.readings.status import SEARCH
from fabricmon.host.protocol import Host
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Readers
from fabricmon.runtime.supervise import first_cause, keep

if TYPE_CHECKING:
    from fabricmon.collect.collector import CollectorConfig, CollectorKind


class Schedule:
    """All enabled collectors of one node. `collectors`: name -> (kind, its settings)."""

    def __init__(
        self,
        node: str,
        host: Host,
        collectors: Mapping[str, tuple[CollectorKind, CollectorConfig]],
        sink: ReadingSink,
        readers: Readers,
        transitions: Transitions,
    ) -> None:
        self._node, self._host, self._readers = node, host, readers
        self._collectors = {name: pair for name, pair in collectors.items() if pair[1].enabled}
        self.board = StatusBoard(self._collectors, sink, transitions)
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def moved(self, now: float) -> bool:
        """Whether a run ended within three times the shortest interval, 30 s at least; for watchdogs.

        `now` is time.monotonic(). A run that found its device stuck has ended too. True for a node without devices.
        """
        active = {name for name, device in self.board.status if device != SEARCH}
        paces = [config.interval + config.deadline for name, (_, config) in self._collectors.items() if name in active]
        return not paces or now - self.board.last_end <= max(30.0, 3 * min(paces))

    async def run(self) -> None:
        """Run all collectors until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for name in self._collectors:
                self._start(name)

    def reconfigure(self, collectors: Mapping[str, tuple[CollectorKind, CollectorConfig]]) -> list[str]:
        """Apply other settings; returns the names of the collectors whose settings changed, which restart.

        Their values stay until the next read, or until the device is not found. Those of a disabled collector go.
        """
        enabled = {name: pair for name, pair in collectors.items() if pair[1].enabled}
        changed = [name for name in {**self._collectors, **enabled} if self._collectors.get(name) != enabled.get(name)]
        self._collectors = enabled
        for name in changed:
            if name in self._tasks:
                self._tasks.pop(name).cancel()
            if name not in enabled:
                self._drop(name)
            elif self._group is not None:
                self._start(name)
        return changed

    def _start(self, name: str) -> None:
        assert self._group is not None
        self._tasks[name] = self._group.create_task(
            keep(functools.partial(self._run_one, name), functools.partial(self._broken, name)),
            name=f"collector {name}",
        )

    def _drop(self, name: str) -> None:
        for status in [status for key, status in self.board.status.items() if key[0] == name]:
            self.board.gone(status)
        self.board.searched(name)

    async def _run_one(self, name: str) -> None:
        kind, config = self._collectors[name]
        async with asyncio.TaskGroup() as group:
            devices = Devices(kind, config, self._node, self._host, self.board, self._readers, group)
            await devices.run()

    def _broken(self, name: str, error: Exception) -> None:
        """The scheduling of one collector failed, by a defect; the other collectors go on."""
        for key in [k for k in self.board.status if k[0] == name and k[1] != SEARCH]:
            del self.board.status[key]
        status = self.board.status.get((name, SEARCH)) or self.board.new(name, SEARCH)
        self.board.failed(status, first_cause(error))
        self.board.searched(name)
