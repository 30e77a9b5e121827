"""Status of every collector and device: updates by each run, log lines, values to the sink."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from fabricmon.agent.lane import Run
from fabricmon.agent.readings.state import Key
from fabricmon.agent.readings.status import DeviceStatus
from fabricmon.host.protocol import HostError
from fabricmon.model import Event, Fault, Reading
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Busy, Overdue

_STUCK = Busy, Overdue


class ReadingSink(Protocol):
    """Receiver of results; called in the event loop."""

    def reading(self, key: Key, reading: Reading, urgent: bool) -> None:
        """ValueError refuses the reading: the run then counts as failed."""

    def failed(self, key: Key) -> None:
        """The whole device could not be read; its values are unknown from now on."""

    def gone(self, key: Key) -> None: ...

    def event(self, event: Event) -> None: ...


class StatusBoard:
    """The statuses of one node's collectors. `collectors`: names of those that will run."""

    def __init__(self, collectors: Iterable[str], sink: ReadingSink, transitions: Transitions) -> None:
        self.status: dict[Key, DeviceStatus] = {}
        self.changes: Counter[str] = Counter()
        """Collector -> changes of its statuses."""
        self.sink = sink
        self.first_round = asyncio.Event()
        """Set once every device found at the start was read, or failed, once."""
        self.last_end = time.monotonic()
        """When the newest run ended, time.monotonic()."""
        self._transitions = transitions
        self._searching = set(collectors)  # whose first search has not ended
        self._check_first_round()

    def new(self, collector: str, device: str) -> DeviceStatus:
        """A status of a device, or search, that has not run yet."""
        status = self.status[(collector, device)] = DeviceStatus(collector, device)
        self.changes[collector] += 1
        return status

    def ended(self, status: DeviceStatus, run: Run, urgent: bool) -> bool:
        """Take a run of a device. False: the whole device could not be read."""
        status.runs += 1
        self.last_end = time.monotonic()
        key = (status.collector, status.device)
        error = run.error
        if isinstance(error, Busy):
            status.skipped += 1
        if isinstance(error, _STUCK):
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

    def succeeded(self, status: DeviceStatus, faults: tuple[Fault, ...] = ()) -> None:
        """A run or search succeeded, except for `faults`."""
        self.changes[status.collector] += 1
        steady = status.success and not faults and not status.faults
        status.success, status.error, status.last_success, status.faults = True, "", time.time(), faults
        if steady:
            return
        status.troubled = status.troubled or bool(faults)
        topic = f"{status.collector} {status.device}"
        where = {"collector": status.collector, "device": status.device}
        self._transitions.note(topic, "ok", "collector works", bad=False, **where)
        if faults:
            one = faults[0]
            self._transitions.note(f"{topic} faults", "some", "some sources cannot be read", bad=True,
                                   faults=len(faults), first=f"{one.component} {one.source}: {one.error}", **where)
        else:
            self._transitions.note(f"{topic} faults", "none", "all sources can be read", bad=False, **where)
        self._check_first_round()

    def failed(self, status: DeviceStatus, error: BaseException) -> None:
        """A run or search failed. One for lack of descriptors does not count as the first: an inventory without the
        device would show that it is gone."""
        self.changes[status.collector] += 1
        status.troubled = True
        if status.success is not None or not (isinstance(error, HostError) and error.starved):
            status.success = False
        status.error = str(error) or type(error).__name__
        status.faults = (Fault(status.collector, status.device, getattr(error, "path", ""), status.error),)
        stuck = isinstance(error, _STUCK)
        # a traceback only for unexpected errors
        trace = {} if stuck or isinstance(error, HostError) else {"exc_info": error}
        self._transitions.note(
            f"{status.collector} {status.device}", "stuck" if stuck else "failed",
            "collector does not answer" if stuck else "collector failed", bad=True,
            error=status.error, collector=status.collector, device=status.device, **trace,
        )
        self._check_first_round()

    def searched(self, name: str) -> None:
        """The collector's first search for devices has ended."""
        self._searching.discard(name)
        self._check_first_round()

    def gone(self, status: DeviceStatus) -> None:
        """The device has been removed."""
        key = (status.collector, status.device)
        del self.status[key]
        self.changes[status.collector] += 1
        for topic in (f"{key[0]} {key[1]}", f"{key[0]} {key[1]} faults"):
            self._transitions.forget(topic)
        self.sink.gone(key)

    def _check_first_round(self) -> None:
        if self.first_round.is_set() or self._searching:
            return
        if all(s.success is not None for s in self.status.values()):
            self.first_round.set()
