"""An event that one task waits for with a limit of time; one timer and one wake-up a wait."""

from __future__ import annotations

import asyncio


class Alarm:
    """Set until cleared, as asyncio.Event; `wait` has a limit. One event loop, one waiter at a time."""

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._wake()

    def clear(self) -> None:
        self._set = False

    async def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most `seconds`; returns whether it is set."""
        if not self._set and seconds > 0:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(seconds, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        return self._set

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
