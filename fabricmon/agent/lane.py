"""Sessions that are read one after another in one thread, with a deadline for each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fabricmon.model import Reading
from fabricmon.runtime.reader import Busy, Overdue, Reader, settle


class Run(NamedTuple):
    """One session's turn: its reading or error, and its duration in seconds, NaN where it did not return."""

    device: str
    reading: Reading | None
    error: Exception | None
    seconds: float


@dataclass(slots=True)
class Round:
    """The runs of a round. `stuck`: the device in whose read the thread hangs; `unread`: devices after it."""

    runs: list[Run] = field(default_factory=list)
    stuck: str | None = None
    unread: tuple[str, ...] = ()


class ReaderLane:
    """One reader thread and the sessions it reads in turn. `sessions` may be changed between and during rounds."""

    def __init__(self, reader: Reader, sessions: dict[str, Any]) -> None:
        self.reader, self.sessions = reader, sessions
        self._retired: list[Any] = []

    def retire(self, device: str) -> None:
        """Remove a session; it is closed in this lane's thread, where no read of it can be running."""
        self._retired.append(self.sessions.pop(device))

    def close(self) -> None:
        """End the thread once it is free, and close sessions in it. Does not wait."""
        self._retired.extend(self.sessions.values())
        self.sessions = {}
        self.reader.close(self._close_retired)

    async def round(self, deadline: float) -> Round:
        """Read each session once, each with `deadline` seconds. Returns early when one exceeds them."""
        turn = _Turn(tuple(self.sessions.items()))
        try:
            future: asyncio.Future[str | None] = self.reader.start(lambda: self._run(turn))
        except Busy as error:
            return Round([Run(device, None, error, float("nan")) for device in self.sessions])
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def watch_deadline() -> None:
            """At a deadline: give up if it is that of the current session, else wait for that one."""
            nonlocal timer
            late = turn.began + deadline - time.monotonic()
            if late > 0:
                timer = loop.call_later(late, watch_deadline)
            elif (device := turn.give_up()) is not None:
                settle(future, device, None)

        watch_deadline()
        try:
            stuck = await future
        finally:
            if timer is not None:
                timer.cancel()
        if stuck is None:
            return Round(turn.runs)
        done = list(turn.runs)
        reached = {run.device for run in done} | {stuck}
        overdue = Overdue(f"no answer from {stuck or self.reader.name} within {deadline:g} s")
        return Round([*done, Run(stuck, None, overdue, float("nan"))], stuck,
                     tuple(d for d, _ in turn.sessions if d not in reached))

    def _run(self, turn: _Turn) -> None:
        """In the thread."""
        self._close_retired()
        for device, session in turn.sessions:
            if not turn.enter(device):
                return
            began = time.monotonic()
            reading, error = None, None
            try:
                reading = session.read()
            except Exception as e:
                error = e
            turn.runs.append(Run(device, reading, error, time.monotonic() - began))
        turn.enter(None)

    def _close_retired(self) -> None:
        while self._retired:
            with contextlib.suppress(Exception):
                self._retired.pop().close()


class _Turn:
    """The progress of a thread in its round, shared with the loop that watches its deadline."""

    def __init__(self, sessions: tuple[tuple[str, Any], ...]) -> None:
        self.sessions = sessions
        self.runs: list[Run] = []
        self.began = time.monotonic()
        self._lock = threading.Lock()
        self._given_up = False
        self._current: str | None = None

    def enter(self, device: str | None) -> bool:
        """The thread goes on to `device` (None: the end). False when other threads read the rest."""
        with self._lock:
            if self._given_up:
                return False
            self._current, self.began = device, time.monotonic()
            return True

    def give_up(self) -> str | None:
        """The device in whose read the thread hangs, and no further one is read; None when it hangs in none."""
        with self._lock:
            if self._current is not None:
                self._given_up = True
            return self._current
