"""Token buckets, one a client: how often somebody may come. Pure."""

from __future__ import annotations

from collections import OrderedDict

MAX_CLIENTS = 4096
"""Clients remembered; the one longest unseen is forgotten first, and its bucket was the fullest."""


class Buckets:
    """`rate` requests a second, `burst` of them at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, max(1.0, burst)
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """0.0 and one is taken, or the seconds until there is one. `now` is of a clock that never goes back."""
        level = self.level(client, now)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self.rate
        self._put(client, level - 1.0 if not wait else level, now)
        return wait

    def level(self, client: str, now: float) -> float:
        """How many are there."""
        level, at = self._levels.get(client, (self.burst, now))
        return min(self.burst, level + (now - at) * self.rate)

    def _put(self, client: str, level: float, now: float) -> None:
        self._levels[client] = (level, now)
        self._levels.move_to_end(client)
        while len(self._levels) > MAX_CLIENTS:
            self._levels.popitem(last=False)
