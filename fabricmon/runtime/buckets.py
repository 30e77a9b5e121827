"""Rate limit per client by token buckets."""

from __future__ import annotations

from collections import OrderedDict

MAX_CLIENTS = 4096
"""Clients in memory; the least recent one, with the fullest bucket, is dropped first."""


class Buckets:
    """`rate` tokens a second, `burst` of them at once: requests, or bytes."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, max(1.0, burst)
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """Take a token: 0.0, or the seconds until there is one. `now` is monotonic."""
        level = self.level(client, now)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self.rate
        self._put(client, level - 1.0 if not wait else level, now)
        return wait

    def charge(self, client: str, amount: float, now: float) -> bool:
        """Take tokens for what has happened already; False where there were fewer. The debt, `burst` at most, has to
        fill up before `level` is above 0."""
        level = self.level(client, now) - amount
        self._put(client, max(level, -self.burst), now)
        return level >= 0.0

    def level(self, client: str, now: float) -> float:
        """Number of tokens."""
        level, at = self._levels.get(client, (self.burst, now))
        return min(self.burst, level + (now - at) * self.rate)

    def _put(self, client: str, level: float, now: float) -> None:
        self._levels[client] = (level, now)
        self._levels.move_to_end(client)
        while len(self._levels) > MAX_CLIENTS:
            self._levels.popitem(last=False)
