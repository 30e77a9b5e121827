"""Blocking reads in daemon threads of their own, each with a deadline.

A read of a device attribute is a firmware command on real adapters and can hang for minutes or for ever. asyncio's
default executor would then keep the process from exiting and let ten such reads starve all others; a daemon thread
of its own delays nobody and dies with the process.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 200
"""Threads of one `Readers`: one a collector, one for each device that is slow or hangs, and those stuck in devices long
gone. Below the 256 tasks that the unit of the agent allows."""

STACK = 256 * 1024
"""Bytes of stack of a reader thread; a read needs a few kilobytes."""

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Overdue(Exception):
    """The call did not return within its deadline. It goes on in its thread; its result will be dropped."""


class Busy(Exception):
    """An earlier call is still stuck in this reader's thread. Nothing was started."""


class Reader:
    """One daemon thread that makes one blocking call at a time. Use from one event loop.

    A stuck thread is never replaced: while it is stuck, `call` answers `Busy`; when the call returns after all,
    the reader is of use again.
    """

    def __init__(self, name: str, on_end: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self._jobs: queue.SimpleQueue[_Job | Callable[[], None] | None] = queue.SimpleQueue()
        self._busy = False
        self._closed = False
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """A call is running, in time or overdue."""
        return self._busy

    def start(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Start a call without a deadline; Busy while an earlier one is stuck.

        Nobody need wait for the future, and whoever waits may settle or cancel it before the call is back: what the
        call gives is dropped then, and this reader is busy until it is back all the same.
        """
        if self._closed:
            raise RuntimeError(f"reader {self.name} is closed")
        if self.busy:
            raise Busy(f"still waiting for the read before this one in {self.name}")
        loop = asyncio.get_running_loop()
        self._busy = True
        future = loop.create_future()
        self._jobs.put((function, future, loop))
        return future

    async def call(self, function: Callable[[], T], deadline: float) -> T:
        """What `function` returns or raises, if it does so within `deadline` seconds; else Overdue. Busy at once
        while an earlier call is stuck."""
        future = self.start(function)
        overdue = Overdue(f"no answer from {self.name} within {deadline:g} s")
        timer = asyncio.get_running_loop().call_later(deadline, settle, future, None, overdue)
        try:
            return await future
        finally:
            timer.cancel()

    def _back(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        self._busy = False
        settle(future, result, error)

    def close(self, last: Callable[[], None] | None = None) -> None:
        """Let the thread end after what it is doing; `last` runs in it just before. Does not wait."""
        if not self._closed:
            self._closed = True
            if last is not None:
                self._jobs.put(last)
            self._jobs.put(None)

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                if not isinstance(job, tuple):
                    job()
                    continue
                function, future, loop = job
                result, error = None, None
                try:
                    result = function()
                except BaseException as e:
                    error = e
                try:
                    loop.call_soon_threadsafe(self._back, future, result, error)
                except RuntimeError:
                    return  # the loop is closed: the process is about to end
                del job, function, future, loop, result, error
        finally:
            self._on_end()


class Readers:
    """Hands out readers, at most `limit` threads alive at once, stuck ones included."""

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._alive = 0

    @property
    def alive(self) -> int:
        """Threads that exist now: readers in use and closed ones that are still stuck."""
        return self._alive

    def open(self, name: str) -> Reader | None:
        """A reader with a thread of its own; None when there are `limit` threads already."""
        with self._lock:
            if self._alive >= self.limit:
                return None
            self._alive += 1
        return Reader(name, self._ended)

    def _ended(self) -> None:
        with self._lock:
            self._alive -= 1


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Give a future its outcome unless it has one. The failure of a call that nobody waits for is no news."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | asyncio.CancelledError | SystemExit | KeyboardInterrupt):
        # A future refuses the first, and the others would mean something else to the loop.
        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
        future.exception()
    else:
        future.set_exception(error)
        future.exception()
