"""Answers the questions of peers that an assignment names, no others."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fabricmon.agent.probing.backend import ProbeEnd, Received
from fabricmon.probe.packet import FIRST, SECOND, answer, asked
from fabricmon.probe.windows import KernelTimes

RATE, BURST = 40.0, 80.0
"""Questions a second of one address, and at once: four times what one adapter may ask (docs/probing.md#security)."""
UNSTAMPED = 4096
"""First answers whose transmit stamp is awaited, at most."""


class Responder:
    """One end that answers. answered: questions so far.

    askers, nonces  who may ask, and of which plans; replaced with each assignment
    """

    def __init__(self, end: ProbeEnd, monotonic: Callable[[], float]) -> None:
        self.end = end
        self.askers: Collection[str] = frozenset()
        self.nonces: Collection[bytes] = ()
        self.answered = 0
        self._monotonic = monotonic
        self._waiting: dict[int, tuple[bytes, tuple[str, int], int, KernelTimes]] = {}
        self._tokens: dict[str, tuple[float, float]] = {}

    def ready(self) -> None:
        """Answer what has come; the second answers follow the stamps of the first."""
        for question in self.end.received():
            self._answer(question)
        for stamp in self.end.stamps():
            waiting = self._waiting.pop(stamp.number, None)
            if waiting is not None:
                cookie, to, traffic_class, came = waiting
                held, _ = stamp.at.since(came)
                if held == held:
                    self._send(answer(SECOND, traffic_class, cookie, held), to, False)

    def _answer(self, question: Received) -> None:
        cookie = asked(question.data, self.nonces)
        if cookie is None or question.address[0] not in self.askers or not self._allowed(question.address[0]):
            return
        number = self._send(answer(FIRST, question.traffic_class, cookie), question.address, True)
        if number is None:
            return
        self.answered += 1
        if len(self._waiting) >= UNSTAMPED:  # an adapter without transmit stamps
            self._waiting.clear()
        self._waiting[number] = cookie, question.address, question.traffic_class, question.at

    def _send(self, data: bytes, to: tuple[str, int], stamp: bool) -> int | None:
        try:
            number = self.end.send(data, to, stamp)
        except OSError:
            number = None
        if number is None:
            self._waiting.clear()  # the numbers begin anew
        return number

    def _allowed(self, address: str) -> bool:
        now = self._monotonic()
        tokens, at = self._tokens.get(address, (BURST, now))
        tokens = min(BURST, tokens + (now - at) * RATE)
        self._tokens[address] = max(0.0, tokens - 1), now
        return tokens >= 1

    def allow(self, askers: Collection[str], nonces: Collection[bytes]) -> None:
        for new in set(askers) - set(self.askers):
            self.end.prepare(new)
        self.askers, self.nonces = askers, nonces
        self._tokens = {address: known for address, known in self._tokens.items() if address in askers}

    def close(self) -> None:
        self.end.close()


