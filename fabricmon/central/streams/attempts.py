"""Connection attempts: how many at a time, and their time-out, both by how the loop keeps up with its work.

While the loop does something else, an answer may wait unread on this side: such seconds do not count against a node.
Each attempt is work for the loop, so a loop that is late has fewer at a time, and one that is in time more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

STEP = 0.1  # seconds between two checks
LATE = 0.1  # seconds by which a late check comes after its time
LEAST = 32
"""Attempts at a time where the loop is always late: such a server follows its agents, too."""


class LoopTime:
    """The time in which the loop serves its sockets. Decides only.

    seconds  since the beginning; a turn of the loop longer than LATE counts as LATE
    room     attempts at a time: half as many after a late check, twice as many after one in time, `most` at most
    """

    def __init__(self, most: int) -> None:
        self.seconds, self.most, self.room = 0.0, most, min(LEAST, most)

    def passed(self, elapsed: float) -> None:
        """`elapsed` seconds since the last check, which should have been STEP."""
        self.seconds += min(elapsed, STEP + LATE)
        late = elapsed > STEP + LATE
        self.room = min(max(self.room // 2, LEAST) if late else 2 * self.room, self.most)


class Attempts:
    """`clock` does not go back; `most` attempts at a time."""

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self._clock, self._time = clock, LoopTime(most)
        self._ends: dict[asyncio.Timeout, float] = {}
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def limit(self, most: int) -> None:
        """Another number of attempts at a time."""
        self._time.most = most
        self._time.room = min(self._time.room, most)

    @asynccontextmanager
    async def next(self, limit: float) -> AsyncIterator[None]:
        """One attempt, when there is room for it. TimeoutError after `limit` seconds of loop time."""
        await self._turn()
        try:
            async with asyncio.timeout(None) as timeout:
                self._ends[timeout] = self._time.seconds + limit
                try:
                    yield
                finally:
                    self._ends.pop(timeout, None)
        finally:
            self._under_way -= 1
            self._admit()

    async def step(self) -> None:
        """Wait for STEP and end the attempts whose time is over."""
        before = self._clock()
        await asyncio.sleep(STEP)
        self._time.passed(self._clock() - before)
        self._admit()
        for timeout in [each for each, end in self._ends.items() if end <= self._time.seconds]:
            del self._ends[timeout]
            timeout.reschedule(asyncio.get_running_loop().time())

    async def _turn(self) -> None:
        """Wait for room, first come, first served, and take it."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it has its room and does not use it
                self._under_way -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._waiting and self._under_way < self._time.room:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._under_way += 1
