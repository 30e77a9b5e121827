"""Large inventories are taken over one after another, with pauses, so that the streams of other nodes go on meanwhile.

To decode, check and take over the largest inventory of an agent takes a good part of a second, during which the event
loop does nothing else. Several agents that send such ones at once would delay every other node's frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

SHARE = 0.25
"""Share of the time that large inventories may take of the event loop."""


class Turns:
    """`async with turns.next(): ...` waits until the work before has been paid for by a pause.

    The pause follows the work, and only who comes next waits for it; first come, first served.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock, self._free = clock, asyncio.Lock(), 0.0

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        async with self._lock:
            if (wait := self._free - self._clock()) > 0:
                await asyncio.sleep(wait)
            begin = self._clock()
            try:
                yield
            finally:
                end = self._clock()
                self._free = end + (end - begin) * (1 / SHARE - 1)
