"""One thread that makes blocking calls in the order in which they were asked for. The store's only way to its file."""

from __future__ import annotations

import concurrent.futures
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import TypeVar

from fabricmon.central.database import StoreError

T = TypeVar("T")

MAX_WAITING = 1024  # calls waiting for the thread; more fail at once: a disk that slow is a fault to be seen
CLOSE_LIMIT = 5.0  # seconds; a disk that does not answer must not keep the process from ending


class Worker:
    """A daemon thread: one stuck in a dead disk does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._work, name="store", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> concurrent.futures.Future[T]:
        """The call's result to be; an error of SQLite becomes a StoreError. A call cancelled in time is not made."""
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
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise StoreError(f"{self._name}: the disk is too slow, {MAX_WAITING} calls are waiting") from None
        return done

    def close(self) -> bool:
        """Make the calls that were asked for, then end; whether it did within CLOSE_LIMIT."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        self._thread.join(CLOSE_LIMIT)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
