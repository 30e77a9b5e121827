"""Runs all collectors of a node, each at its own pace, none held up by another.

Never is one device read twice at once, never does one device hold up another. What a run gave goes to the board's
sink; no value of it is kept here.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from fabricmon.agent.board import SEARCH, Board, Sink
from fabricmon.agent.devices import CollectorConfig, Devices
from fabricmon.host.protocol import Host
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Readers
from fabricmon.runtime.supervise import first_cause, keep


class Schedule:
    """All enabled collectors of one node. `collectors`: name -> (module, its Config)."""

    def __init__(
        self,
        node: str,
        host: Host,
        collectors: Mapping[str, tuple[Any, CollectorConfig]],
        sink: Sink,
        readers: Readers,
        transitions: Transitions,
    ) -> None:
        self._node, self._host, self._readers = node, host, readers
        self._collectors = {name: pair for name, pair in collectors.items() if pair[1].enabled}
        self.board = Board(self._collectors, sink, transitions)
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def moved(self, now: float) -> bool:
        """Whether any run ended lately (three times the shortest pace, 30 s at least): what a watchdog wants to know.

        `now` is time.monotonic(). A run that found its device stuck has ended too: that is the device's trouble. A
        node without devices is not stuck.
        """
        active = {name for name, device in self.board.status if device != SEARCH}
        paces = [config.interval + config.deadline for name, (_, config) in self._collectors.items() if name in active]
        return not paces or now - self.board.last_end <= max(30.0, 3 * min(paces))

    async def run(self) -> None:
        """Run all collectors until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for name in self._collectors:
                self._start(name)

    def reconfigure(self, collectors: Mapping[str, tuple[Any, CollectorConfig]]) -> list[str]:
        """Other settings; the names of the collectors whose settings changed. Only those start anew.

        What they read stays until they read it again, or do not find its device again. What a collector read that is
        disabled now goes.
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
        module, config = self._collectors[name]
        async with asyncio.TaskGroup() as group:
            devices = Devices(name, module, config, self._node, self._host, self.board, self._readers, group)
            await devices.run()

    def _broken(self, name: str, error: Exception) -> None:
        """The scheduling of one collector itself failed: a defect of ours, which the others must survive."""
        for key in [k for k in self.board.status if k[0] == name and k[1] != SEARCH]:
            del self.board.status[key]
        status = self.board.status.get((name, SEARCH)) or self.board.new(name, SEARCH)
        self.board.failed(status, first_cause(error))
        self.board.searched(name)
