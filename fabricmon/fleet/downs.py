"""Times and numbers of the downs of each row. Pure; rules weigh them.

Several sources report the same down (the counter of the port, the carrier counter of its interface, the state seen
by polling), each at its own pace. Within one episode the greatest of their counts is the number of downs, never
the sum. An episode ends when no source reported a down for `episode` seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fabricmon.fleet.row_state import Bools, Floats, Numbers, RowState, Singles, per_row

DEPTH = 16
"""Downs kept per row. The flap penalty is capped at 12 downs' worth and 3 downs in 8 minutes raise it, so 16 decide."""

SOURCES = 3

MOST = 1 << 24
"""Downs of an episode that are counted, whatever a counter rose by. Larger whole numbers are inexact in float32."""


class Downs(RowState):
    """The last DEPTH downs of each row.

    at, count  when, and how many in that poll; 0 where the ring is not yet full
    last       `now` of the last down, weighed or not; NaN before the first
    excused    downs that do not count: ordered, in maintenance, or soon after a boot
    """

    at = per_row(np.float64, 0, DEPTH)
    count = per_row(np.float32, 0, DEPTH)
    head = per_row(np.int8)
    last = per_row(np.float64, np.nan)
    excused = per_row(np.int64)
    _counted = per_row(np.float32, 0, SOURCES)  # by each source in this episode
    _taken = per_row(np.float32)  # downs of this episode that were added

    def add(
        self,
        rows: Numbers,
        counts: Floats,
        at: Floats,
        excused: Bools,
        now: float,
        episode: float,
    ) -> None:
        """Add downs. counts[source, i] is what a source reported of rows[i] since the last tick (0: nothing)."""
        fresh = ~(now - self.last[rows] <= episode)
        self._counted[:, rows[fresh]] = 0.0
        self._taken[rows[fresh]] = 0.0
        counted = np.minimum(self._counted[:, rows] + counts, MOST).astype(np.float32)
        self._counted[:, rows] = counted
        most = counted.max(axis=0)
        new = np.maximum(most - self._taken[rows], 0.0)
        self._taken[rows] = np.maximum(most, self._taken[rows])
        self.last[rows] = now
        weighed = (new > 0) & ~excused
        self.excused[rows[(new > 0) & excused]] += new[(new > 0) & excused].astype(np.int64)
        some, head = rows[weighed], self.head[rows[weighed]]
        self.at[head, some] = at[weighed]
        self.count[head, some] = new[weighed]
        self.head[some] = (head + 1) % DEPTH

    def oldest_first(self, rows: Numbers) -> Iterator[tuple[Floats, Singles]]:
        """(at, count) of these rows, DEPTH times from the oldest to the newest."""
        head = self.head[rows].astype(np.intp)
        for i in range(DEPTH):
            place = (head + i) % DEPTH
            yield self.at[place, rows], self.count[place, rows]

    def of_row(self, row: int) -> list[tuple[float, int]]:
        """(at, count) of one row, oldest first."""
        rows = np.array([row])
        return [(float(at[0]), int(count[0])) for at, count in self.oldest_first(rows) if count[0] > 0]
