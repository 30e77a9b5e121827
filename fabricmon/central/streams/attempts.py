"""Connection attempts under way: their time-out is in time of the loop, and new ones wait while the loop is late.

While the loop does something else, an answer may wait unread on this side: such seconds do not count against a node.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

STEP = 0.1  # seconds between two checks
LATE = 0.1  # seconds of a late check, from which on new attempts wait until one is in time
WAIT = 1.0  # seconds for which an attempt waits for that at most: a server that is always late follows its agents, too


class LoopTime:
    """The time in which the loop serves its sockets. Decides only.

    seconds  since the beginning; a turn of the loop longer than LATE counts as LATE
    late     whether the last check was late
    """

    def __init__(self) -> None:
        self.seconds, self.late = 0.0, False

    def passed(self, elapsed: float) -> None:
        """`elapsed` seconds since the last check, which should have been STEP."""
        self.seconds += min(elapsed, STEP + LATE)
        self.late = elapsed > STEP + LATE


class Attempts:
    """`clock` does not go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._time = clock, LoopTime()
        self._ends: dict[asyncio.Timeout, float] = {}
        self._calm = asyncio.Event()
        self._calm.set()

    @asynccontextmanager
    async def next(self, limit: float) -> AsyncIterator[None]:
        """One attempt, when the loop is in time or after WAIT. TimeoutError after `limit` seconds of loop time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT):
                await self._calm.wait()
        async with asyncio.timeout(None) as timeout:
            self._ends[timeout] = self._time.seconds + limit
            try:
                yield
            finally:
                self._ends.pop(timeout, None)

    async def step(self) -> None:
        """Wait for STEP and end the attempts whose time is over."""
        before = self._clock()
        await asyncio.sleep(STEP)
        self._time.passed(self._clock() - before)
        if self._time.late:
            self._calm.clear()
        else:
            self._calm.set()
        for timeout in [each for each, end in self._ends.items() if end <= self._time.seconds]:
            del self._ends[timeout]
            timeout.reschedule(asyncio.get_running_loop().time())
