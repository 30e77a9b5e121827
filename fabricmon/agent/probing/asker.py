"""One flow's questions: its end, and which transmit stamp is of which probe."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

from fabricmon.agent.probing.backend import ProbeEnd
from fabricmon.probe.assignment import WHOLE, ProbeTarget
from fabricmon.probe.packet import COOKIE, FIRST, LARGEST, SIZE, answered, question
from fabricmon.probe.windows import ProbeWindows

KEPT = 256
"""Probes whose transmit stamp is awaited, at most."""


def _random_cookies() -> Iterator[bytes]:
    """Drawn many at a time: to ask the kernel for each costs more than the rest of it."""
    while True:
        drawn = secrets.token_bytes(COOKIE * KEPT)
        for at in range(0, len(drawn), COOKIE):
            yield drawn[at : at + COOKIE]


_COOKIES = _random_cookies()


class FlowAsker:
    """The probes of one flow, numbered `flow` in the windows. OSError where there is no route.

    packet  bytes of a question with its headers
    """

    def __init__(self, flow: int, target: ProbeTarget, end: ProbeEnd, windows: ProbeWindows) -> None:
        self.flow, self.target, self.end = flow, target, end
        self._size = target.size
        if target.size == WHOLE:
            self._size = min(LARGEST, max(SIZE, end.largest(target.address)))
        self.packet = end.headers + self._size
        self._to = target.address, target.port
        end.prepare(target.address)
        self._windows = windows
        self._dropped = 0
        self._awaited = b""  # the newest probe, until its first answer
        self._cookies: dict[int, bytes] = {}  # by the number of the transmit stamp

    def ask(self, nonce: bytes, now: float) -> bool:
        """Send one probe, where the way to the peer is known. False: the port is full, and it did not leave."""
        if not self.end.prepare(self.target.address):
            return True
        self._take(now)  # the second answer to the probe before
        cookie = next(_COOKIES)
        if not self._windows.sent(cookie, self.flow, time.time_ns(), now):
            return False
        try:
            number = self.end.send(question(nonce, cookie, self._size), self._to)
        except OSError:
            self._cookies.clear()
            return True  # no route, or larger than the interface sends: lost
        if number is None:
            self._cookies.clear()
            self._windows.unsent(cookie)
            return False
        if len(self._cookies) >= KEPT:  # an adapter without transmit stamps
            self._cookies.clear()
        self._cookies[number] = self._awaited = cookie
        self._take_stamps()  # mostly made while it was sent
        return True

    def ready(self, now: float) -> bool:
        """Take an answer that has come, or the stamps. True once the newest probe has its first answer: the second
        one, of which no time is taken, may wait for the next probe or `drain`."""
        if not self._take(now):
            self._take_stamps()
        return not self._awaited

    def drain(self, now: float) -> None:
        """Take all stamps and answers that wait, at most KEPT."""
        self._take_stamps()
        for _ in range(KEPT):
            if not self._take(now):
                break

    def _take(self, now: float) -> int:
        every = self.end.received()
        for came in every:
            t6, found = time.time_ns(), answered(came.data)
            if found is None or came.address != self._to or self._windows.flow_of(found.cookie) != self.flow:
                continue
            if found.kind == FIRST:
                self._windows.first(found.cookie, came.at, t6, found.traffic_class)
                if found.cookie == self._awaited:
                    self._awaited = b""
            else:
                self._windows.second(found.cookie, found.held)
        if self.end.dropped != self._dropped:
            self._dropped = self.end.dropped
            self._windows.spoil("the agent lost answers as its queue was full", now, now)
        return len(every)

    def _take_stamps(self) -> None:
        for stamp in self.end.stamps():
            cookie = self._cookies.get(stamp.number)  # kept: of two stamps of a packet, each comes apart
            if cookie is not None:
                self._windows.left(cookie, stamp.at)

    def close(self) -> None:
        self.end.close()
