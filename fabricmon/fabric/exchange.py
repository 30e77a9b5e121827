"""Many requests at once through one port: a window of outstanding datagrams, timeouts, retries, a deadline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from fabricmon.fabric import mad
from fabricmon.fabric.pending import DOUBLINGS_MOST, PendingRequests
from fabricmon.fabric.transport import Packed, Transport, TransportError

_TID_MODULUS = 1 << 31
_LOST = 2.0
"""Seconds beyond a request's timeout after which a silent transport has lost it."""


class Pace(Struct, frozen=True):
    """Rate of the requests.

    window   datagrams outstanding at one time. Subnet management has no flow control: a switch that is queried too fast
             drops packets; 16 is also the limit of a simulated fabric
    timeout  seconds for the first answer, twice as long for each further try. Switches answer within a millisecond, a
             busy adapter may need a hundred
    tries    how often an unanswered request is sent in all
    """

    window: int = 16
    timeout: float = 0.2
    tries: int = 3


@dataclass(slots=True)
class BatchOutcome:
    """Result of a batch.

    answered  by request: whether `answers` holds a good answer in its place
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

    def keep(self, at: int, datagram: memoryview) -> None:
        """Take over the answer to request `at`, or its error status."""
        # the top bit is the direction of a directed packet
        if datagram[mad.STATUS_AT] & 0x7F or datagram[mad.STATUS_AT + 1]:
            self.refused[at] = mad.answer(datagram).status
        else:
            self.answers[at * mad.SIZE : (at + 1) * mad.SIZE] = datagram
            self.answered[at] = 1

    def datagram(self, at: int) -> memoryview | None:
        """The answer to request `at`; None where there is none."""
        return memoryview(self.answers)[at * mad.SIZE : (at + 1) * mad.SIZE] if self.answered[at] else None


class Exchange:
    """Runs batches over one transport. A late answer is never taken for one of a later batch.

    clock  seconds that never go back; every `until` of the sweep is of this clock
    """

    def __init__(self, transport: Transport, pace: Pace, clock: Callable[[], float]) -> None:
        self.transport, self.pace, self.clock = transport, pace, clock
        self._base = 1

    def run(
        self, packed: Packed, owner: Sequence[int], until: float, silent: Collection[int] = ()
    ) -> BatchOutcome:
        """Send all of `packed`; request i goes to node `owner[i]`. Ends by `until` at the latest.

        Raises TransportError when the port itself fails.
        """
        pending = PendingRequests(owner, self.pace.tries, silent)
        outcome = BatchOutcome(bytearray(mad.SIZE * len(packed)), bytearray(len(packed)))
        base = self._numbers(len(packed))
        flying: set[int] = set()
        window, timeout = self.pace.window, self.pace.timeout
        send, receive, clock, inbox = self.transport.send, self.transport.receive, self.clock, self.transport.inbox
        patience = timeout * 2 ** min(self.pace.tries - 1, DOUBLINGS_MOST) + _LOST
        while (now := clock()) < until:
            while len(flying) < window and (at := pending.next()) is not None:
                send(packed, at, base + at, timeout * 2 ** pending.doublings(at))
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
            outcome.keep(at, inbox)
        outcome.silent, outcome.cut = pending.silent, True
        return outcome

    def _numbers(self, count: int) -> int:
        """The first of `count` transaction numbers that no earlier batch used lately."""
        base, self._base = self._base, (self._base + count) % _TID_MODULUS or 1
        if self._base < base:
            base, self._base = 1, 1 + count
        return base
