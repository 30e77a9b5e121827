"""One thread that runs blocking calls in order: the only access to the database. It knows since when a call runs."""

from __future__ import annotations

import concurrent.futures
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from fabricmon.central.store.database import StoreError

T = TypeVar("T")

MAX_WAITING = 1024  # queued calls; more fail at once
HUNG_AFTER = 3.0  # seconds of one call from which on the disk counts as hung; a commit takes milliseconds
START_LIMIT = 60.0  # seconds of a call at the start; systemd gives a start 90 (systemd-system.conf(5))
CLOSE_LIMIT = 5.0  # seconds; a hanging disk must not block the exit of the process


class Worker:
    """A daemon thread, so that a hanging disk does not block the exit of the process.

    answered  monotonic time at which the last call returned, also with an error of the disk
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self.answered = time.monotonic()
        self._began: float | None = None  # monotonic, of the call that runs now
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    @property
    def hung(self) -> str:
        """"" or that the disk hangs, and since when."""
        return hung(self._name, self._began, time.monotonic())

    def submit(self, call: Callable[[], T]) -> concurrent.futures.Future[T]:
        """Queue a call. An error of SQLite becomes a StoreError. A call cancelled before its turn is not made. While
        the disk hangs no call is queued: StoreError."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def job() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(call())
            except sqlite3.Error as error:
                done.set_exception(StoreError(f"{self._name}: {error}"))
            except BaseException as error:
                done.set_exception(error)

        if self._closed:
            raise StoreError(f"{self._name}: the store is closed")
        if why := self.hung:
            raise StoreError(why)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise StoreError(f"{self._name}: the disk is too slow, {MAX_WAITING} calls are waiting") from None
        return done

    def at_start(self, call: Callable[[], T]) -> T:
        """The result of a call, in the thread, so that a disk that hangs does not block the start of the process for
        ever: StoreError after START_LIMIT."""
        done = self.submit(call)
        concurrent.futures.wait([done], START_LIMIT)
        if not done.done():
            raise StoreError(f"{self._name}: the disk has not answered for {START_LIMIT:g} s; it has the state")
        return done.result()

    def close(self) -> bool:
        """Finish queued calls and end; whether that took at most CLOSE_LIMIT."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        self._thread.join(CLOSE_LIMIT)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._began = time.monotonic()
            job()
            self._began, self.answered = None, time.monotonic()


def hung(name: str, began: float | None, now: float) -> str:
    """"" or that the disk below `name` hangs. `began`: monotonic time of the call that runs, None: none runs."""
    if began is None or now - began < HUNG_AFTER:
        return ""
    return f"{name}: the disk has not answered for {now - began:.0f} s"
