"""Which ends have packets: one descriptor of the event loop for all of them costs less than one for each."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

TURNS = 8
"""Checks of what has become readable, at most, before the rest of the program has its turn."""


class Watch:
    """Calls what belongs to a descriptor while it is readable. Open only while there are any."""

    def __init__(self) -> None:
        self._calls: dict[int, Callable[[], None]] = {}
        self._ready: select.epoll | None = None

    def add(self, descriptor: int, call: Callable[[], None]) -> None:
        if self._ready is None:
            self._ready = select.epoll()
            asyncio.get_running_loop().add_reader(self._ready.fileno(), self.serve)
        self._ready.register(descriptor, select.EPOLLIN)
        self._calls[descriptor] = call

    def once(self, descriptor: int) -> None:
        """Call for it once more, then not before the next `once`."""
        if self._ready is not None:
            self._ready.modify(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def remove(self, descriptor: int) -> None:
        if self._ready is None or self._calls.pop(descriptor, None) is None:
            return
        self._ready.unregister(descriptor)
        if not self._calls:
            asyncio.get_running_loop().remove_reader(self._ready.fileno())
            self._ready.close()
            self._ready = None

    def serve(self) -> None:
        """Call for all that are readable, and for those that become so meanwhile."""
        for _ in range(TURNS):
            found = self._ready.poll(0) if self._ready is not None else ()
            for descriptor, _ in found:
                try:
                    if descriptor in self._calls:  # else it was removed by a call before
                        self._calls[descriptor]()
                except Exception as error:  # costs this end only: one that is watched once has had its turn already
                    context = {"message": "an end of probes cannot be read", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)
            if not found:
                break
