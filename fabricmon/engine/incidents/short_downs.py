"""Downs of single links that were too short for an incident, for repeat offenders. Pure.

A link that trains anew in seconds, days apart, is never notified, and fails as often as one that is. Downs of several
links within TOGETHER seconds have a cause that they share, and count for none of them. Kept in memory: downs of before
a restart of the server are not counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Kind

TOGETHER = 10.0  # docs/methods.md#repeat-offender
WAITING = 10_000  # downs that wait for others; the oldest go


class ShortDown(NamedTuple):
    at: float
    port: ComponentId


class ShortDowns:
    """Downs that were counted, and not excused, of ports of hosts."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._until = float("-inf")
        self._waiting: deque[ShortDown] = deque(maxlen=WAITING)
        self._together = float("-inf")

    def alone(self, now: float) -> list[ShortDown]:
        """The downs since the last call that no other link shared, once that is known."""
        self._collect(now)
        found: list[ShortDown] = []
        while self._waiting and not 0 <= now - self._waiting[0].at <= 2 * TOGETHER:
            down = self._waiting.popleft()
            others = any(next_.port != down.port and next_.at - down.at <= TOGETHER for next_ in self._waiting)
            if others or down.at - self._together <= TOGETHER:
                self._together = max(down.at, self._together)
            else:
                found.append(down)
        return found

    def _collect(self, now: float) -> None:
        table = self._fleet.tables[Kind.PORT]
        tracks = View(table, now).tracks
        last = tracks.downs.last[: table.n]
        first = self._until == float("-inf")
        rows = np.flatnonzero((last > self._until) & (last <= now) & ~tracks.facts.swept[: table.n])
        self._until = now
        if first:
            return
        new = [
            ShortDown(downs[-1][0], table.ids[row]) for row in rows.tolist() if (downs := tracks.downs.of_row(row))
        ]
        self._waiting.extend(sorted(down for down in new if now - down.at <= TOGETHER))
