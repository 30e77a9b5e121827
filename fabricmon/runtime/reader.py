"""Blocking reads in daemon threads, each with a deadline.

A read of a device attribute may be a firmware command and hang for minutes or for ever. In asyncio's default executor
it would prevent the exit of the process, and ten of them would block all others; a daemon thread does neither.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_THREADS = 200
"""Threads of one `Readers`: one a collector, one for each device that is slow or hangs, and those stuck in removed
devices. Below the 256 tasks that the agent's systemd unit allows."""

_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Overdue(Exception):
    """The call did not return within its deadline. It continues in its thread; its result is dropped."""


class Busy(Exception):
    """An earlier call is stuck in this reader's thread; no call was started."""


class Reader:
    """One daemon thread that makes one blocking call at a time. Use from one event loop.

    A stuck thread is never replaced: `call` raises Busy until the stuck call returns.
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
        """Whether a call is running, in time or overdue."""
        return self._busy

    def start(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Start a call without a deadline; Busy while an earlier one is stuck.

        The future may be settled or cancelled before the call returns: the result is dropped then, and this reader
        stays busy until the call returns.
        """
        if self._closed:
            raise RuntimeError(f"reader {self.name} is closed")
        if self.busy:
            raise Busy(f"the previous read in {self.name} has not returned")
        loop = asyncio.get_running_loop()
        self._busy = True
        future = loop.create_future()
        self._jobs.put((function, future, loop))
        return future

    async def call(self, function: Callable[[], T], deadline: float) -> T:
        """The result of `function` within `deadline` seconds, else Overdue. Busy at once while an earlier call is
        stuck."""
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
        """End the thread after its current call and then `last`. Does not wait."""
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
                    return  # the loop is closed
                del job, function, future, loop, result, error
        finally:
            self._on_end()


class Readers:
    """Makes readers, at most `limit` threads alive at once, stuck ones included."""

    def __init__(self, limit: int = MAX_THREADS) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._alive = 0

    @property
    def alive(self) -> int:
        """Threads that exist now: open readers and closed ones that are stuck."""
        return self._alive

    def open(self, name: str) -> Reader | None:
        """A new reader; None when there are `limit` threads."""
        with self._lock:
            if self._alive >= self.limit:
                return None
            self._alive += 1
        return Reader(name, self._ended)

    def _ended(self) -> None:
        with self._lock:
            self._alive -= 1


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Set the outcome of a future unless it has one. A failure without a waiter is not logged."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | asyncio.CancelledError | SystemExit | KeyboardInterrupt):
        # a future refuses the first, and the loop gives the others another meaning
        future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
        future.exception()
    else:
        future.set_exception(error)
        future.exception()
