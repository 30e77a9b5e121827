"""One flow's questions: its end, and which transmit stamp is of which probe."""

from __future__ import annotations

import secrets
import time

from fabricmon.agent.probing.backend import ProbeEnd
from fabricmon.probe.assignment import WHOLE, ProbeTarget
from fabricmon.probe.packet import FIRST, LARGEST, SIZE, answered, question
from fabricmon.probe.windows import ProbeWindows

KEPT = 256
"""Probes whose transmit stamp is awaited, at most."""


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
        end.prepare(target.address)
        self._windows = windows
        self._dropped = 0
        self._cookies: dict[int, bytes] = {}  # by the number of the transmit stamp

    def ask(self, nonce: bytes, now: float) -> bool:
        """Send one probe, where the way to the peer is known. False: the port is full, and it did not leave."""
        if not self.end.prepare(self.target.address):
            return True
        cookie = secrets.token_bytes(8)
        if not self._windows.sent(cookie, self.flow, time.time_ns(), now):
            return False
        try:
            number = self.end.send(question(nonce, cookie, self._size), (self.target.address, self.target.port))
        except OSError:
            self._cookies.clear()
            return True  # no route, or larger than the interface sends: lost
        if number is None:
            self._cookies.clear()
            self._windows.unsent(cookie)
            return False
        if len(self._cookies) >= KEPT:  # an adapter without transmit stamps
            self._cookies.clear()
        self._cookies[number] = cookie
        return True

    def ready(self, now: float) -> None:
        """Take the stamps and answers that have come."""
        for stamp in self.end.stamps():
            cookie = self._cookies.get(stamp.number)  # kept: of two stamps of a packet, each comes apart
            if cookie is not None:
                self._windows.left(cookie, stamp.at)
        for came in self.end.received():
            t6, found = time.time_ns(), answered(came.data)
            if found is None or came.address != (self.target.address, self.target.port):
                continue
            if self._windows.flow_of(found.cookie) != self.flow:
                continue
            if found.kind == FIRST:
                self._windows.first(found.cookie, came.at, t6, found.traffic_class)
            else:
                self._windows.second(found.cookie, found.held)
        if self.end.dropped != self._dropped:
            self._dropped = self.end.dropped
            self._windows.spoil("the agent lost answers as its queue was full", now, now)

    def close(self) -> None:
        self.end.close()
