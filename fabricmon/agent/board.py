"""How every collector and device stands, and what each run made of it: status, log lines, values to the sink."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fabricmon.agent.lane import Run
from fabricmon.agent.state import Key
from fabricmon.host.protocol import HostError
from fabricmon.model import Event, Fault, Reading
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Busy, Overdue

SEARCH = "*"
"""Device name under which a collector's search for devices has its status."""


class Sink(Protocol):
    """Where results go; called in the event loop."""

    def reading(self, key: Key, reading: Reading, urgent: bool) -> None:
        """ValueError refuses the reading: the run then counts as failed."""

    def failed(self, key: Key) -> None:
        """The device could not be read as a whole; its values are unknown from now on."""

    def gone(self, key: Key) -> None: ...

    def event(self, event: Event) -> None: ...


@dataclass(slots=True)
class Status:
    """How one device of a collector (or the collector's search for devices, device SEARCH) stands.

    success       None before its first run ended
    last_success  wall time, NaN never
    duration      seconds of its last run that came back, NaN none did
    stuck_since   wall time from which a read hangs, None when none does
    skipped       runs that did not start because the one before was not back
    troubled      a run of it failed or had faults since the agent started
    """

    collector: str
    device: str
    success: bool | None = None
    last_success: float = math.nan
    duration: float = math.nan
    error: str = ""
    faults: tuple[Fault, ...] = ()
    queries: int = 0
    runs: int = 0
    skipped: int = 0
    stuck_since: float | None = None
    troubled: bool = False


class Board:
    """The statuses of one node's collectors. `collectors` are the names of those that will run."""

    def __init__(self, collectors: Iterable[str], sink: Sink, transitions: Transitions) -> None:
        self.status: dict[Key, Status] = {}
        self.sink = sink
        self.first_round = asyncio.Event()
        """Set once every device found at the start was read, or tried, once."""
        self.last_end = time.monotonic()
        """When the newest run ended, time.monotonic()."""
        self._transitions = transitions
        self._searching = set(collectors)  # whose first search has not ended
        self._check_first_round()

    def new(self, collector: str, device: str) -> Status:
        """A status for something that was not run yet."""
        status = self.status[(collector, device)] = Status(collector, device)
        return status

    def ended(self, status: Status, run: Run, urgent: bool) -> bool:
        """Take over what a run of a device gave. False: the device as a whole could not be read."""
        status.runs += 1
        self.last_end = time.monotonic()
        key = (status.collector, status.device)
        error = run.error
        if isinstance(error, Busy):
            status.skipped += 1
        if isinstance(error, Busy | Overdue):
            # Its values stay and grow old: readers see their age.
            if status.stuck_since is None:
                status.stuck_since = time.time()
            self.failed(status, error)
            return True
        status.stuck_since, status.duration = None, run.seconds
        if run.reading is not None:
            try:
                self.sink.reading(key, run.reading, urgent)
            except ValueError as refused:
                error = refused
            else:
                status.queries = run.reading.queries
                self.succeeded(status, run.reading.faults)
                return True
        self.failed(status, error or RuntimeError("the run gave neither a reading nor an error"))
        self.sink.failed(key)
        return False

    def succeeded(self, status: Status, faults: tuple[Fault, ...] = ()) -> None:
        """A run or search gave what it should, but for `faults`."""
        steady = status.success and not faults and not status.faults
        status.success, status.error, status.last_success, status.faults = True, "", time.time(), faults
        if steady:
            return
        status.troubled = status.troubled or bool(faults)
        topic = f"{status.collector} {status.device}"
        where = {"collector": status.collector, "device": status.device}
        self._transitions.tell(topic, "ok", "collector works", bad=False, **where)
        if faults:
            one = faults[0]
            self._transitions.tell(f"{topic} faults", "some", "some sources cannot be read", bad=True,
                                   faults=len(faults), first=f"{one.component} {one.source}: {one.error}", **where)
        else:
            self._transitions.tell(f"{topic} faults", "none", "all sources can be read", bad=False, **where)
        self._check_first_round()

    def failed(self, status: Status, error: BaseException) -> None:
        """A run or search gave nothing."""
        status.success, status.troubled = False, True
        status.error = str(error) or type(error).__name__
        status.faults = (Fault(status.collector, status.device, getattr(error, "path", ""), status.error),)
        stuck = isinstance(error, Overdue | Busy)
        # A traceback only where the error is not one that reading a machine is expected to meet.
        trace = {} if stuck or isinstance(error, HostError) else {"exc_info": error}
        self._transitions.tell(
            f"{status.collector} {status.device}", "stuck" if stuck else "failed",
            "collector does not answer" if stuck else "collector failed", bad=True,
            error=status.error, collector=status.collector, device=status.device, **trace,
        )
        self._check_first_round()

    def searched(self, name: str) -> None:
        """The collector's first look for devices is over."""
        self._searching.discard(name)
        self._check_first_round()

    def gone(self, status: Status) -> None:
        """The device is no longer there."""
        key = (status.collector, status.device)
        del self.status[key]
        for topic in (f"{key[0]} {key[1]}", f"{key[0]} {key[1]} faults"):
            self._transitions.forget(topic)
        self.sink.gone(key)

    def _check_first_round(self) -> None:
        if self.first_round.is_set() or self._searching:
            return
        if all(s.success is not None for s in self.status.values()):
            self.first_round.set()
