"""Runs the collectors: every session at its own pace, in its own thread, never twice at once.

A session that hangs delays itself only. After a kernel event its collector is read at once. What a run gave goes to
`Sink`; this module keeps no value of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fabricmon.agent.pace import MIN_GAP, next_start, offset
from fabricmon.agent.state import Key
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Event, Fault, Reading
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Busy, Overdue, Reader, Readers
from fabricmon.runtime.supervise import first_cause, keep

RESCAN_GAP = 1.0
"""Seconds between two looks for devices: a device that fails again and again is not looked for in a loop."""


class Sink(Protocol):
    """Where results go; called in the event loop."""

    def reading(self, key: Key, reading: Reading, urgent: bool) -> None: ...

    def failed(self, key: Key) -> None:
        """The device could not be read as a whole; its values are unknown from now on."""

    def gone(self, key: Key) -> None: ...

    def event(self, event: Event) -> None: ...


class CollectorConfig(Protocol):
    """What every collector's Config has."""

    enabled: bool
    interval: float
    deadline: float
    rediscover: float


@dataclass(slots=True)
class Status:
    """How one session (or one collector's search for devices, device "*") stands.

    success       None before its first run ended
    last_success  wall time, NaN never
    duration      seconds of its last finished run
    stuck_since   wall time from which a read hangs, None when none does
    skipped       runs that did not start because the one before was not back
    """

    collector: str
    device: str
    success: bool | None = None
    last_success: float = float("nan")
    duration: float = float("nan")
    error: str = ""
    faults: tuple[Fault, ...] = ()
    queries: int = 0
    runs: int = 0
    skipped: int = 0
    stuck_since: float | None = None


SEARCH = "*"
"""Device name under which a collector's search for devices has its status."""


class Schedule:
    """All enabled collectors of one node."""

    def __init__(
        self,
        node: str,
        host: Host,
        collectors: dict[str, tuple[Any, CollectorConfig]],
        sink: Sink,
        readers: Readers,
        transitions: Transitions,
    ) -> None:
        self.status: dict[Key, Status] = {}
        self._node, self._host, self._sink = node, host, sink
        self._readers, self._transitions = readers, transitions
        self._collectors = {name: pair for name, pair in collectors.items() if pair[1].enabled}
        self._ended = time.monotonic()
        self._waiting = set(self._collectors)  # collectors whose first search has not ended
        self._first = asyncio.Event()
        if not self._collectors:
            self._first.set()

    @property
    def first_round(self) -> asyncio.Event:
        """Set once every device found at the start was read, or tried, once."""
        return self._first

    def moved(self, now: float) -> bool:
        """Whether any run ended lately (within three times the shortest pace): what the watchdog wants to know.

        `now` is time.monotonic(). A node on which nothing can be scheduled is not stuck.
        """
        paces = [c.interval + c.deadline for _, c in self._collectors.values()]
        return not paces or now - self._ended <= max(30.0, 3 * min(paces))

    async def run(self) -> None:
        """Run all collectors until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, (module, config) in self._collectors.items():
                run = functools.partial(self._collector, name, module, config)
                group.create_task(keep(run, functools.partial(self._broken, name)), name=f"collector {name}")

    def _broken(self, name: str, error: Exception) -> None:
        """The scheduling of one collector itself failed: a defect of ours, which the others must survive."""
        self._note_failure(self.status[(name, SEARCH)], first_cause(error))
        for key in [k for k in self.status if k[0] == name and k[1] != SEARCH]:
            del self.status[key]

    # --- one collector: its devices

    async def _collector(self, name: str, module: Any, config: CollectorConfig) -> None:
        status = self.status[(name, SEARCH)] = Status(name, SEARCH)
        reader = await self._reader((name, SEARCH), config)
        loop = asyncio.get_running_loop()
        known: dict[str, tuple[Any, asyncio.Task[None]]] = {}
        kicks: dict[str, asyncio.Event] = {}
        rescan = asyncio.Event()
        collector: Any = None

        def kick(event: Event | None) -> None:
            if event is not None:
                self._sink.event(event)
            for one in kicks.values():
                one.set()

        def tell(event: Event | None) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody is there to be told
                loop.call_soon_threadsafe(kick, event)

        def start() -> Any:
            built = module.open(self._host, config)
            # Kept so that the thread that opened it also ends it, however late.
            stops.append(built.watch(tell) if hasattr(built, "watch") else lambda: None)
            return built

        stops: list[Callable[[], None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    rescan.clear()
                    try:
                        if collector is None:
                            collector = await self._timed(reader, start, config, status)
                        found = await self._timed(reader, collector.sessions, config, status)
                    except (Overdue, Busy, Exception) as error:
                        self._note_failure(status, error)
                    else:
                        self._note_success(status, ())
                        for device in known.keys() - found.keys():
                            known.pop(device)[1].cancel()
                            del kicks[device], self.status[(name, device)]
                            self._sink.gone((name, device))
                        for device, session in found.items():
                            if device in known:
                                if known[device][0] is session:
                                    continue
                                known[device][1].cancel()
                            kicks[device] = asyncio.Event()
                            self.status[(name, device)] = Status(name, device)
                            reads = self._session((name, device), session, config, kicks[device], rescan)
                            known[device] = (session, group.create_task(reads, name=f"{name} {device}"))
                    self._waiting.discard(name)
                    self._check_first_round()
                    try:
                        async with asyncio.timeout(config.rediscover):
                            await asyncio.sleep(RESCAN_GAP)
                            await rescan.wait()
                    except TimeoutError:
                        pass
        finally:
            def end() -> None:
                for stop in stops:
                    _quietly(stop)
                if collector is not None:
                    _quietly(collector.close)

            reader.close(end)

    # --- one session: its reads

    async def _session(
        self, key: Key, session: Any, config: CollectorConfig, kick: asyncio.Event, rescan: asyncio.Event
    ) -> None:
        status = self.status[key]
        reader = await self._reader(key, config)
        shift = offset(self._node, *key, config.interval)
        try:
            while True:
                urgent = kick.is_set()
                kick.clear()
                started = time.monotonic()
                try:
                    reading: Reading = await self._timed(reader, session.read, config, status)
                    self._sink.reading(key, reading, urgent)
                except (Overdue, Busy) as error:
                    # Its values stay and grow old: readers see their age.
                    self._note_failure(status, error)
                except Exception as error:
                    self._note_failure(status, error)
                    self._sink.failed(key)
                    rescan.set()
                else:
                    self._note_success(status, reading.faults)
                    status.queries = reading.queries
                self._check_first_round()
                pause = next_start(time.monotonic(), config.interval, shift) - time.monotonic()
                try:
                    async with asyncio.timeout(max(pause, 0.0)):
                        await asyncio.sleep(max(0.0, started + MIN_GAP - time.monotonic()))
                        await kick.wait()
                except TimeoutError:
                    pass
        finally:
            reader.close(session.close)

    async def _reader(self, key: Key, config: CollectorConfig) -> Reader:
        """A thread for this key; waits while all are taken, which only a row of stuck devices can cause."""
        name = f"{key[0]}:{key[1]}" if key[1] else key[0]
        while (reader := self._readers.open(name)) is None:
            self._note_failure(self.status[key], Busy(f"all {self._readers.limit} reader threads are taken"))
            self._check_first_round()
            await asyncio.sleep(max(config.interval, RESCAN_GAP))
        return reader

    async def _timed(self, reader: Reader, function: Callable[[], Any], config: CollectorConfig, status: Status) -> Any:
        started = time.monotonic()
        try:
            result = await reader.call(function, config.deadline)
        except Busy:
            status.skipped += 1
            raise
        except Overdue:
            status.stuck_since = time.time() - config.deadline
            raise
        except Exception:
            status.stuck_since = None
            raise
        else:
            status.stuck_since = None
            status.duration = time.monotonic() - started
            return result
        finally:
            status.runs += 1
            self._ended = time.monotonic()

    # --- what became of it

    def _note_success(self, status: Status, faults: tuple[Fault, ...]) -> None:
        status.success, status.error, status.last_success = True, "", time.time()
        if faults != status.faults:
            status.faults = faults
        topic = f"{status.collector} {status.device}"
        self._transitions.tell(topic, "ok", "collector works", bad=False, **_where(status))
        if faults:
            one = faults[0]
            self._transitions.tell(f"{topic} faults", str(len(faults)), "some sources cannot be read", bad=True,
                                   faults=len(faults), first=f"{one.component} {one.source}: {one.error}",
                                   **_where(status))
        else:
            self._transitions.tell(f"{topic} faults", "0", "all sources can be read", bad=False, **_where(status))

    def _note_failure(self, status: Status, error: BaseException) -> None:
        status.success = False
        status.error = str(error) or type(error).__name__
        status.faults = (Fault(status.collector, status.device, getattr(error, "path", ""), status.error),)
        state = "stuck" if isinstance(error, Overdue | Busy) else "failed"
        fields: dict[str, object] = {}
        if state == "failed" and not isinstance(error, HostError):
            fields["exc_info"] = error
        self._transitions.tell(f"{status.collector} {status.device}", state, "collector does not answer"
                               if state == "stuck" else "collector failed", bad=True, error=status.error,
                               **_where(status), **fields)

    def _check_first_round(self) -> None:
        if not self._first.is_set() and not self._waiting and all(
            s.success is not None for s in self.status.values()
        ):
            self._first.set()


def _where(status: Status) -> dict[str, object]:
    return {"collector": status.collector, "device": status.device}


def _quietly(function: Callable[[], None]) -> None:
    """Closing what is going away anyway: an error there has no reader."""
    with contextlib.suppress(Exception):
        function()
