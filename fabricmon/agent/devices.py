"""The devices of one collector: searched for, and read in lanes at the collector's interval."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabricmon.agent.board import StatusBoard
from fabricmon.agent.lane import ReaderLane
from fabricmon.agent.readings.pace import MIN_GAP, next_start, offset
from fabricmon.agent.readings.status import SEARCH, DeviceStatus
from fabricmon.host.protocol import Host
from fabricmon.model import Event, Fault
from fabricmon.runtime.alarm import Alarm
from fabricmon.runtime.reader import Busy, Reader, Readers

if TYPE_CHECKING:
    from fabricmon.collect.collector import Collector, CollectorConfig, CollectorKind, DeviceReader, Notify

RESCAN_GAP = 1.0
"""Seconds between two searches for devices, at least: bounds the searches for a device that keeps failing."""

RETRY_FIRST = 5.0
"""Seconds until a failed search is repeated; doubles with each failure, up to the collector's `rediscover`."""

SLOW = 0.1
"""Seconds of one read, except a device's first, from which on the devices of a collector no longer share a thread. 50
firmware commands take a few milliseconds (docs/methods.md#firmware-commands)."""


class _Opened:
    """A collector in the thread that searches for its devices; its methods are called there.

    faults  why live events are missing
    """

    def __init__(self, kind: CollectorKind, host: Host, config: CollectorConfig, notify: Notify) -> None:
        self._kind, self._host, self._config, self._notify = kind, host, config, notify
        self._collector: Collector[Any] | None = None
        self._stop: Callable[[], None] | None = None
        self.faults: tuple[Fault, ...] = ()

    def search(self) -> dict[str, DeviceReader]:
        """The collector's Sessions now."""
        if self._collector is None:
            self._collector = self._kind.open(self._host, self._config)
        return self._collector.sessions()

    def listen(self) -> None:
        """Start live events, once; where that fails, at the next search."""
        if self._stop is not None or self._collector is None or self._collector.watch is None:
            return
        try:
            self._stop, self.faults = self._collector.watch(self._notify), ()
        except Exception as error:  # without live events the next read shows the change
            self.faults = (Fault(self._kind.name, "", "live events", str(error)),)

    def close(self) -> None:
        for close in (self._stop, self._collector.close if self._collector is not None else None):
            if close is not None:
                with contextlib.suppress(Exception):
                    close()


@dataclass(slots=True)
class _Track:
    """A lane and the task that runs its rounds. `kick` makes the next round start at once."""

    lane: ReaderLane
    kick: Alarm
    task: asyncio.Task[None] | None = None


class Devices:
    """The devices of one collector: in one lane while all answer quickly, then in a lane each."""

    def __init__(
        self,
        kind: CollectorKind,
        config: CollectorConfig,
        node: str,
        host: Host,
        board: StatusBoard,
        readers: Readers,
        group: asyncio.TaskGroup,
    ) -> None:
        self._name, self._kind, self._config, self._host = kind.name, kind, config, host
        self._board, self._readers, self._group = board, readers, group
        self._offset = offset(node, kind.name, config.interval)
        self._shared = True
        self._tracks: list[_Track] = []
        self._rescan = asyncio.Event()

    async def run(self) -> None:
        """Search for devices repeatedly until cancelled."""
        status = self._board.new(self._name, SEARCH)
        reader = await self._reader(status)
        opened = _Opened(self._kind, self._host, self._config, self._notifier())
        failures = 0
        try:
            while True:
                self._rescan.clear()
                status.runs += 1
                try:
                    found = await reader.call(opened.search, self._config.deadline)
                    try:  # before the first read, so that no change falls between the two
                        await reader.call(opened.listen, self._config.deadline)
                    except Exception:
                        await self._take(found)  # read all the same
                        raise
                    await self._take(found)
                except Exception as error:
                    failures += 1
                    self._board.failed(status, error)
                else:
                    failures = 0
                    self._board.succeeded(status, opened.faults)
                if status.success is not None:
                    self._board.searched(self._name)
                retry = RETRY_FIRST * 2.0 ** min(failures - 1, 30)
                pause = min(retry, self._config.rediscover) if failures else self._config.rediscover
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._rescan.wait()
                        await asyncio.sleep(RESCAN_GAP)
        finally:
            reader.close(opened.close)

    def _notifier(self) -> Notify:
        """A function that takes events from any thread."""
        loop = asyncio.get_running_loop()

        def notify(event: Event | None) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop
                loop.call_soon_threadsafe(self._kick, event)

        return notify

    def _kick(self, event: Event | None) -> None:
        if event is not None:
            self._board.sink.event(event)
        for track in self._tracks:
            track.kick.set()

    # --- lanes

    async def _take(self, found: dict[str, DeviceReader]) -> None:
        """Match the lanes to the devices that are present now."""
        for track in tuple(self._tracks):
            for device, session in tuple(track.lane.sessions.items()):
                if found.get(device) is not session:
                    track.lane.retire(device)
            if not track.lane.sessions and track.task is not None:
                self._tracks.remove(track)
                track.task.cancel()
        # Also those of an earlier run of this collector, with another configuration.
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

    async def _add(self, sessions: dict[str, DeviceReader], at_once: bool) -> None:
        """Start a lane for these sessions."""
        reader = await self._reader(self._board.status[(self._name, next(iter(sessions)))])
        track = _Track(ReaderLane(reader, sessions), Alarm())
        self._tracks.append(track)
        track.task = self._group.create_task(self._rounds(track, at_once), name=f"{self._name} {' '.join(sessions)}")

    async def _rounds(self, track: _Track, at_once: bool) -> None:
        """Read the lane's sessions until it is cancelled or empty."""
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
                        continue  # removed while it was read
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
        """Give each session a lane of its own; the one that hangs keeps its thread."""
        self._shared = False
        sessions = track.lane.sessions
        keeper = stuck if stuck is not None else next(iter(sessions))
        track.lane.sessions = {keeper: sessions[keeper]} if keeper in sessions else {}  # none: removed while it hung
        for device, session in sessions.items():
            if device != keeper:
                await self._add({device: session}, device in unread)

    async def _pause(self, track: _Track, started: float) -> None:
        """Wait for the next point of the grid, or a kick."""
        now = time.monotonic()
        until = next_start(now, self._config.interval, self._offset)
        if await track.kick.wait(until - now):
            gap = min(started + MIN_GAP, until) - time.monotonic()
            if gap > 0:
                await asyncio.sleep(gap)

    async def _reader(self, status: DeviceStatus) -> Reader:
        """A thread; waits while all are taken, which only many stuck devices cause."""
        name = f"{status.collector}:{status.device}"
        while (reader := self._readers.open(name)) is None:
            self._board.failed(status, Busy(f"all {self._readers.limit} reader threads are taken"))
            await asyncio.sleep(max(self._config.interval, RESCAN_GAP))
        return reader
