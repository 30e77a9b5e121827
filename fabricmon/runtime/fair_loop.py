"""An event loop on which thousands of streams do not delay everything else.

A turn of asyncio's loop handles every socket that is ready before it comes to timers and to what these handlers began.
With thousands of streams that is seconds, and a delivery needs ten turns. Here the sockets that are `put_last` take
turns: each turn of the loop takes as many of them as it handles in about TURN seconds, and all others as ever. What is
not read waits in the kernel, and flow control slows its sender down.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

TURN = 0.02  # seconds that a turn of the loop should take
LEAST, MOST = 1, 1024  # sockets of one turn


def sockets_of_turn(before: int, took: float) -> int:
    """How many sockets the next turn takes, after a turn of `took` seconds with at most `before` of them."""
    if took > TURN:
        return max(LEAST, int(before * TURN / took))
    return min(MOST, 2 * before) if took < TURN / 2 else before


if hasattr(selectors, "EpollSelector"):
    import select

    class _TwoEpolls:
        """What a selector needs of an epoll; descriptors in `last` are in a second one, which is ready in the first."""

        def __init__(self) -> None:
            self.last: set[int] = set()
            self._first, self._second = select.epoll(), select.epoll()
            self._in_second: set[int] = set()
            self._first.register(self._second.fileno(), select.EPOLLIN)
            self._most, self._left = MOST, time.monotonic()

        def register(self, fd: int, events: int) -> None:
            if fd in self.last:
                self._second.register(fd, events)
                self._in_second.add(fd)
            else:
                self._first.register(fd, events)

        def _of(self, fd: int) -> select.epoll:
            return self._second if fd in self._in_second else self._first

        def modify(self, fd: int, events: int) -> None:
            self._of(fd).modify(fd, events)

        def unregister(self, fd: int) -> None:
            epoll = self._of(fd)
            self._in_second.discard(fd)
            epoll.unregister(fd)

        def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
            self._most = sockets_of_turn(self._most, time.monotonic() - self._left)
            ready = self._first.poll(timeout, most)
            second = self._second.fileno()
            if any(fd == second for fd, _ in ready):
                ready = [each for each in ready if each[0] != second] + self._second.poll(0, self._most)
            self._left = time.monotonic()
            return ready

        def fileno(self) -> int:
            return self._first.fileno()

        def close(self) -> None:
            self._first.close()
            self._second.close()

    class _FairSelector(selectors.EpollSelector):
        _selector_cls = _TwoEpolls
        _selector: Any

        def put_last(self, fd: int) -> None:
            known = self.get_map().get(fd)
            if known is not None:
                self.unregister(fd)
            self._selector.last.add(fd)
            if known is not None:
                self.register(fd, known.events, known.data)

        def put_first(self, fd: int) -> None:
            self._selector.last.discard(fd)

    class FairLoop(asyncio.SelectorEventLoop):
        def __init__(self) -> None:
            self._fair = _FairSelector()
            super().__init__(self._fair)

        def put_last(self, fd: int) -> None:
            self._fair.put_last(fd)

        def put_first(self, fd: int) -> None:
            self._fair.put_first(fd)


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop with turns for streams; the usual one where there is no epoll."""
    return FairLoop() if hasattr(selectors, "EpollSelector") else asyncio.new_event_loop()


def put_last(fd: int) -> None:
    """From now on the socket takes turns with others of its kind, if the running loop has turns."""
    if (put := getattr(asyncio.get_running_loop(), "put_last", None)) is not None:
        put(fd)


def put_first(fd: int) -> None:
    """The socket is about to be closed: another one gets its number."""
    if (put := getattr(asyncio.get_running_loop(), "put_first", None)) is not None:
        put(fd)
