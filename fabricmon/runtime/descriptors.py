"""A reserve of file descriptors: a process that has run out of them still delivers, and still answers.

The process keeps some open that it does not use. Where no others are free it gives some up for a delivery or for
accepting a connection, and takes them back afterwards. What can wait, waits (`room`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import time
from collections.abc import Iterator
from typing import Any

from fabricmon.runtime import logs
from fabricmon.runtime.alarm import Alarm
from fabricmon.runtime.seldom import Seldom

OUT = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process, or a machine, without a free descriptor."""

SIZE = 32
"""Descriptors that are kept, enough for four deliveries at a time."""

SHARE = 8
"""Descriptors for one delivery: a connection, one for its name, pipes of a program."""

ACCEPTED = 4
"""Connections that are accepted at a time while there are no others; each is closed after BRIEF seconds."""

BRIEF = 2.0
"""Seconds of a connection that was accepted with a descriptor of the reserve."""

RETRY = 1.0
"""Seconds between two attempts to fill the reserve; as long as asyncio waits to accept again."""

CALM = 10.0
"""Seconds between two checks of what is free while the reserve is whole and none was missing."""

WANTED = 65536
"""Descriptors that a server asks for: one an agent, and a hundred."""


class DescriptorReserve:
    """The reserve of one process. Use from one event loop."""

    def __init__(self, size: int = SIZE) -> None:
        self._size, self._held = size, list[int]()
        self._lent_until = 0.0  # monotonic; the reserve is not filled before
        self._seldom, self._log = Seldom(), logs.get(part="descriptors")
        self.scarce = False
        self._missed = Alarm()  # one was missing: look again soon
        self.fill(0.0)

    @property
    def short(self) -> bool:
        """Whether some of the reserve are given up."""
        return len(self._held) < self._size

    def fill(self, now: float) -> None:
        """Take back what is free. `now` is monotonic."""
        with contextlib.suppress(OSError):
            while self.short and now >= self._lent_until:
                self._held.append(_any())

    def available(self) -> bool:
        """Whether SHARE descriptors are free besides the reserve."""
        got = list[int]()
        try:
            while len(got) < SHARE:
                got.append(_any())
        except OSError:
            return False
        finally:
            for descriptor in got:
                os.close(descriptor)
        return not self.short

    async def room(self) -> None:
        """Wait until descriptors are available, for work that can wait."""
        while not self.available():
            self.note()
            await asyncio.sleep(RETRY)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Work that must not wait: where none are available, a share of the reserve is given up for it."""
        if not self.available():
            self.note()
            self._give_up(SHARE)
        try:
            yield
        finally:
            self.fill(time.monotonic())

    def refused(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handler of the event loop's exceptions: asyncio reports here that it cannot accept, and tries again after a
        second, in which this makes room for a few connections."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT:
            loop.default_exception_handler(context)
            return
        self.note()
        now = time.monotonic()
        if now >= self._lent_until:
            self._lent_until = now + 2 * RETRY
            self._give_up(ACCEPTED)

    def note(self) -> None:
        """Log that there are none left, at most once a minute."""
        self.scarce = True
        self._missed.set()
        times = self._seldom.due("out", time.monotonic())
        if times:
            text = "out of file descriptors; new connections wait, deliveries use the reserve"
            self._log.warning(text, limit=limit(), times=times)

    async def watch(self) -> None:
        """Fill the reserve, and follow whether descriptors are scarce, until cancelled."""
        while True:
            self._missed.clear()
            self.fill(time.monotonic())
            if self.available():
                self.scarce = False
                await self._missed.wait(CALM)
            else:
                self.note()
            await asyncio.sleep(RETRY)

    def warnings(self) -> list[str]:
        """A sentence for page and /health while descriptors are scarce."""
        if not self.scarce:
            return []
        return [f"Out of file descriptors (limit {limit()}): new connections to agents wait, deliveries use a reserve"]

    def close(self) -> None:
        """Give up all."""
        self._size = 0
        self._give_up(len(self._held))

    def _give_up(self, count: int) -> None:
        for _ in range(min(count, len(self._held))):
            os.close(self._held.pop())


def limit() -> int:
    """Descriptors that this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> None:
    """Raise the limit to WANTED, or as far as the process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _any() -> int:
    """An open file of no use; its own, so that it also counts for the machine's limit. OSError where none is free."""
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
