"""Many requests at once through one port: a window of outstanding datagrams, timeouts, retries, and an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from fabricmon.fabric import mad
from fabricmon.fabric.pending import Pending
from fabricmon.fabric.transport import Packed, Transport, TransportError

_TID_MODULUS = 1 << 31
_LOST = 2.0
"""Seconds beyond a request's timeout after which a transport that keeps silent has lost it."""


class Pace(Struct, frozen=True):
    """How hard the fabric is asked.

    window   datagrams outstanding at one time. Subnet management has no flow control of its own: a switch that is
             asked too fast drops packets; 16 is also what a simulated fabric bears
    timeout  seconds for one answer. Switches answer within a millisecond, a busy adapter may need a hundred
    tries    how often an unanswered request is sent in all
    """

    window: int = 16
    timeout: float = 0.2
    tries: int = 3


@dataclass(slots=True)
class Outcome:
    """What came of a batch.

    answered  by request: a good answer lies in its place of `answers`
    refused   request -> status of those that were answered with an error
    silent    nodes that do not answer
    sent      datagrams sent
    cut       the budget ended before all was asked
    """

    answers: bytearray
    answered: bytearray
    refused: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    sent: int = 0
    cut: bool = False

    def datagram(self, at: int) -> memoryview | None:
        """The answer to request `at`; None where there is none."""
        return memoryview(self.answers)[at * mad.SIZE : (at + 1) * mad.SIZE] if self.answered[at] else None


class Exchange:
    """Runs batches over one transport. Numbers of late answers are never taken for those of a later batch.

    clock  seconds that never go back; every `until` of the sweep is of this clock
    """

    def __init__(self, transport: Transport, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self.transport, self.pace, self.clock = transport, pace, clock
        self._base = 1

    def run(
        self, packed: Packed, owner: Sequence[int], until: float, silent: Collection[int] = ()
    ) -> Outcome:
        """Send all of `packed`; request i goes to node `owner[i]`. Ends by `until` at the latest.

        Raises TransportError when the port itself fails.
        """
        pending = Pending(owner, self.pace.tries, silent)
        outcome = Outcome(bytearray(mad.SIZE * len(packed)), bytearray(len(packed)))
        base, self._base = self._base, (self._base + len(packed)) % _TID_MODULUS or 1
        if self._base < base:
            base, self._base = 1, 1 + len(packed)
        flying: set[int] = set()
        window, timeout = self.pace.window, self.pace.timeout
        send, receive, clock, inbox = self.transport.send, self.transport.receive, self.clock, self.transport.inbox
        answers, answered = memoryview(outcome.answers), outcome.answered
        size, status_at, patience = mad.SIZE, mad.STATUS_AT, timeout + _LOST
        while (now := clock()) < until:
            while len(flying) < window and (at := pending.next()) is not None:
                send(packed, at, base + at, timeout)
                outcome.sent += 1
                flying.add(at)
            if not flying:
                outcome.silent = pending.silent
                return outcome
            reply = receive(patience if now + patience < until else max(0.001, until - now))
            if reply is None:
                if clock() >= until:
                    break
                raise TransportError(0, f"{len(flying)} datagrams were neither answered nor given back")
            at = reply[0] - base
            if at not in flying:
                continue  # a late answer to an earlier batch
            flying.discard(at)
            if reply[1]:
                pending.timed_out(at)
                continue
            pending.answered(at)
            if inbox[status_at] & 0x7F or inbox[status_at + 1]:  # the top bit is a directed packet's direction
                outcome.refused[at] = mad.answer(inbox).status
            else:
                answers[at * size : (at + 1) * size] = inbox
                answered[at] = 1
        outcome.silent, outcome.cut = pending.silent, True
        return outcome
