"""One collector at work: it looks for its devices, and each is read in a lane at the collector's own pace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fabricmon.agent.board import SEARCH, Board, Status
from fabricmon.agent.lane import Lane
from fabricmon.agent.pace import MIN_GAP, next_start, offset
from fabricmon.host.protocol import Host
from fabricmon.model import Event, Fault
from fabricmon.runtime.alarm import Alarm
from fabricmon.runtime.reader import Busy, Reader, Readers

RESCAN_GAP = 1.0
"""Seconds between two looks for devices: a device that fails again and again is not looked for in a loop."""

RETRY_FIRST = 5.0
"""Seconds until a failed search is tried again; doubles with each failure, up to the collector's `rediscover`."""

SLOW = 0.1
"""Seconds of one read from which on the devices of a collector no longer share a thread. 50 firmware commands of an
adapter that answers take a few milliseconds (counters-ib.md 5.1). The first read of a device does not count."""


class CollectorConfig(Protocol):
    """What every collector's Config has. Times are seconds."""

    @property
    def enabled(self) -> bool: ...
    @property
    def interval(self) -> float: ...
    @property
    def deadline(self) -> float: ...
    @property
    def rediscover(self) -> float: ...


@dataclass(slots=True)
class _Track:
    """A lane and the task that runs its rounds. `kick` makes the next round start at once."""

    lane: Lane
    kick: Alarm
    task: asyncio.Task[None] | None = None


class Devices:
    """The devices of one collector, each in a lane: one for all as long as all answer quickly, then one for each."""

    def __init__(
        self,
        name: str,
        module: Any,
        config: CollectorConfig,
        node: str,
        host: Host,
        board: Board,
        readers: Readers,
        group: asyncio.TaskGroup,
    ) -> None:
        self._name, self._module, self._config, self._host = name, module, config, host
        self._board, self._readers, self._group = board, readers, group
        self._offset = offset(node, name, config.interval)
        self._shared = True
        self._tracks: list[_Track] = []
        self._rescan = asyncio.Event()

    async def run(self) -> None:
        """Search for devices again and again; ends only by cancellation."""
        status = self._board.new(self._name, SEARCH)
        reader = await self._reader(status)
        loop = asyncio.get_running_loop()
        closers: list[Callable[[], None]] = []
        opened: list[Any] = []  # filled in the thread, so that one that opened too late is used at the next search
        deaf: list[Fault] = []
        failures = 0

        def tell(event: Event | None) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody is there to be told
                loop.call_soon_threadsafe(self._kick, event)

        def search() -> Any:
            if not opened:
                opened.append(self._module.open(self._host, self._config))
                closers.append(opened[0].close)
            return opened[0].sessions()

        def listen() -> None:
            try:
                closers.append(opened[0].watch(tell))
            except Exception as error:  # without live events the next read sees what happened
                deaf.append(Fault(self._name, "", "live events", str(error)))

        def end() -> None:
            for close in reversed(closers):
                with contextlib.suppress(Exception):  # it goes away anyway: an error here has no reader
                    close()

        listening = False
        try:
            while True:
                self._rescan.clear()
                status.runs += 1
                try:
                    await self._take(await reader.call(search, self._config.deadline))
                    if not listening and hasattr(opened[0], "watch"):
                        listening = True
                        await reader.call(listen, self._config.deadline)
                except Exception as error:
                    failures += 1
                    self._board.failed(status, error)
                else:
                    failures = 0
                    self._board.succeeded(status, tuple(deaf))
                self._board.searched(self._name)
                retry = RETRY_FIRST * 2.0 ** min(failures - 1, 30)
                pause = min(retry, self._config.rediscover) if failures else self._config.rediscover
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._rescan.wait()
                        await asyncio.sleep(RESCAN_GAP)
        finally:
            reader.close(end)

    def _kick(self, event: Event | None) -> None:
        if event is not None:
            self._board.sink.event(event)
        for track in self._tracks:
            track.kick.set()

    # --- which device is in which lane

    async def _take(self, found: dict[str, Any]) -> None:
        """Bring the lanes in line with the devices that are there now."""
        for track in tuple(self._tracks):
            for device, session in tuple(track.lane.sessions.items()):
                if found.get(device) is not session:
                    track.lane.retire(device)
            if not track.lane.sessions and track.task is not None:
                self._tracks.remove(track)
                track.task.cancel()
        # Also those that an earlier run of this collector left behind, by a configuration that had them.
        for (collector, device), status in tuple(self._board.status.items()):
            if collector == self._name and device != SEARCH and device not in found:
                self._board.gone(status)
        known = {device for track in self._tracks for device in track.lane.sessions}
        new = {device: session for device, session in found.items() if device not in known}
        for device in new:
            self._board.new(self._name, device)
        if new and self._shared and self._tracks:
            self._tracks[0].lane.sessions.update(new)
            self._tracks[0].kick.set()
        elif new and self._shared:
            await self._add(new, at_once=True)
        else:
            for device, session in new.items():
                await self._add({device: session}, at_once=True)

    async def _add(self, sessions: dict[str, Any], at_once: bool) -> None:
        """Start a lane for these sessions."""
        reader = await self._reader(self._board.status[(self._name, next(iter(sessions)))])
        track = _Track(Lane(reader, sessions), Alarm())
        self._tracks.append(track)
        track.task = self._group.create_task(self._rounds(track, at_once), name=f"{self._name} {' '.join(sessions)}")

    async def _rounds(self, track: _Track, at_once: bool) -> None:
        """Read the lane's sessions for ever, or until they part."""
        try:
            if not at_once:
                await self._pause(track, time.monotonic())
            while True:
                urgent = track.kick.is_set()
                track.kick.clear()
                started = time.monotonic()
                round = await track.lane.round(self._config.deadline)
                slow = round.stuck is not None
                for run in round.runs:
                    status = self._board.status.get((self._name, run.device))
                    if status is None or run.device not in track.lane.sessions:
                        continue  # it went while it was read
                    slow = slow or (status.success is not None and run.seconds > SLOW)
                    if not self._board.ended(status, run, urgent):
                        self._rescan.set()
                if slow and self._shared:
                    await self._part(track, round.stuck, round.unread)
                if not track.lane.sessions:
                    return
                await self._pause(track, started)
        finally:
            if track in self._tracks:
                self._tracks.remove(track)
            track.lane.close()

    async def _part(self, track: _Track, stuck: str | None, unread: tuple[str, ...]) -> None:
        """From now on each session has a lane of its own; the one that hangs keeps the thread it hangs in."""
        self._shared = False
        sessions = track.lane.sessions
        # A device that went while it hung has no use for a thread, and nobody else can use that one.
        heir = stuck if stuck is not None else next(iter(sessions))
        track.lane.sessions = {heir: sessions[heir]} if heir in sessions else {}
        for device, session in sessions.items():
            if device != heir:
                await self._add({device: session}, device in unread)

    async def _pause(self, track: _Track, started: float) -> None:
        """Until the next point of the grid, or a kick."""
        now = time.monotonic()
        until = next_start(now, self._config.interval, self._offset)
        if await track.kick.wait(until - now):
            gap = min(started + MIN_GAP, until) - time.monotonic()
            if gap > 0:
                await asyncio.sleep(gap)

    async def _reader(self, status: Status) -> Reader:
        """A thread; waits while all are taken, which only a great many stuck devices can cause."""
        name = f"{status.collector}:{status.device}"
        while (reader := self._readers.open(name)) is None:
            self._board.failed(status, Busy(f"all {self._readers.limit} reader threads are taken"))
            await asyncio.sleep(max(self._config.interval, RESCAN_GAP))
        return reader
