"""An event loop on which thousands of streams do not delay everything else.

A turn of asyncio's loop handles every socket that is ready before it comes to timers and to what these handlers began.
With thousands of streams that is seconds, and a delivery needs ten turns. Here the sockets that are `put_last` take
turns: each turn of the loop handles them, in order, for about TURN seconds, and all others as ever. What is not read
waits in the kernel, and flow control slows its sender down.

The limit is in time of the streams alone. Where it followed the whole turn, anything else that took long (connection
attempts, a tick) left the streams less and less, until none was read any more.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from typing import Any

TURN = 0.02  # seconds for which a turn of the loop handles streams, and the last of them beyond it
PORTION = 64  # sockets that the kernel is asked for at once


if hasattr(selectors, "EpollSelector"):
    import select

    class _TwoEpolls:
        """What a selector needs of an epoll; descriptors in `last` are in a second one, which is ready in the first."""

        def __init__(self) -> None:
            self.last: set[int] = set()
            self.first, self.second = select.epoll(), select.epoll()
            self._in_second: set[int] = set()

        def register(self, fd: int, events: int) -> None:
            if fd in self.last:
                self.second.register(fd, events)
                self._in_second.add(fd)
            else:
                self.first.register(fd, events)

        def _of(self, fd: int) -> select.epoll:
            return self.second if fd in self._in_second else self.first

        def modify(self, fd: int, events: int) -> None:
            self._of(fd).modify(fd, events)

        def unregister(self, fd: int) -> None:
            epoll = self._of(fd)
            self._in_second.discard(fd)
            epoll.unregister(fd)

        def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
            return self.first.poll(timeout, most)

        def fileno(self) -> int:
            return self.first.fileno()

        def close(self) -> None:
            self.first.close()
            self.second.close()

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

        @property
        def key_of(self) -> Callable[[int], selectors.SelectorKey | None]:
            """Returns what is registered for a descriptor."""
            found: Callable[[int], selectors.SelectorKey | None] = self._fd_to_key.get  # type: ignore[attr-defined]
            return found

        @property
        def second(self) -> select.epoll:
            """Of the sockets that are last."""
            found: select.epoll = self._selector.second
            return found

    class FairLoop(asyncio.SelectorEventLoop):
        def __init__(self) -> None:
            self._fair = _FairSelector()
            super().__init__(self._fair)
            self._turns: deque[tuple[int, int]] = deque()  # sockets that were ready, and for what
            self._reads: dict[int, Callable[[], bool]] = {}
            self.add_reader(self._fair.second.fileno(), self._handle_last)

        def put_last(self, fd: int, read: Callable[[], bool] | None = None) -> None:
            self._fair.put_last(fd)
            if read is not None:
                self._reads[fd] = read

        def put_first(self, fd: int) -> None:
            self._fair.put_first(fd)
            self._reads.pop(fd, None)

        def _handle_last(self) -> None:
            """Handle the sockets that are last, as asyncio does, for TURN seconds; the next turn goes on from there."""
            clock, turns, reads, key_of = self.time, self._turns, self._reads, self._fair.key_of
            end = clock() + TURN
            while turns or self._more():
                fd, events = turns.popleft()
                key = key_of(fd)
                if key is not None:  # it has not been closed meanwhile
                    reader, writer = key.data
                    readable = events & ~select.EPOLLOUT and reader is not None and not reader.cancelled()
                    if readable and ((read := reads.get(fd)) is None or not read()):
                        reader._run()
                    if events & ~select.EPOLLIN and writer is not None and not writer.cancelled():
                        writer._run()
                if clock() > end:
                    return

        def _more(self) -> bool:
            self._turns.extend(self._fair.second.poll(0, PORTION))
            return bool(self._turns)


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop with turns for streams; the usual one where there is no epoll."""
    return FairLoop() if hasattr(selectors, "EpollSelector") else asyncio.new_event_loop()


def put_last(fd: int, read: Callable[[], bool] | None = None) -> None:
    """From now on the socket takes turns with others of its kind, if the running loop has turns. `read`: called where
    the socket is ready, in place of its transport, which reads where it returns False."""
    if (put := getattr(asyncio.get_running_loop(), "put_last", None)) is not None:
        put(fd, read)


def put_first(fd: int) -> None:
    """The socket is about to be closed: another one gets its number."""
    if (put := getattr(asyncio.get_running_loop(), "put_first", None)) is not None:
        put(fd)
