"""Downs of each row: when, and how many. Pure; what they are worth is for a rule to say.

Several sources tell of the same down (the counter of the port, the carrier counter of its interface, the state seen
by polling), each at its own pace. Within one episode the greatest of their counts is the number of downs, never
the sum. An episode ends when no source told of a down for `episode` seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

DEPTH = 16
"""Downs kept per row. The flap penalty is capped at 12 downs' worth and 3 downs in 8 minutes raise it, so 16 decide."""

SOURCES = 3


class Downs:
    """The last DEPTH downs of each row.

    at, count  when, and how many in that poll; 0 where the ring is not yet full
    last       `now` of the last down, weighed or not; NaN before the first
    excused    downs that do not count: ordered, in maintenance, or soon after a boot
    """

    def __init__(self, capacity: int) -> None:
        self.at = np.zeros((DEPTH, capacity))
        self.count = np.zeros((DEPTH, capacity), np.float32)
        self.head = np.zeros(capacity, np.int8)
        self.last = np.full(capacity, np.nan)
        self.excused = np.zeros(capacity, np.int64)
        self._told = np.zeros((SOURCES, capacity), np.float32)
        self._taken = np.zeros(capacity, np.float32)

    def tell(
        self,
        rows: NDArray[np.intp],
        counts: NDArray[np.float64],
        at: NDArray[np.float64],
        excused: NDArray[np.bool_],
        now: float,
        episode: float,
    ) -> None:
        """Add downs. counts[source, i] is what a source told of rows[i] since the last tick (0: nothing)."""
        with np.errstate(invalid="ignore"):
            fresh = ~(now - self.last[rows] <= episode)
        self._told[:, rows[fresh]] = 0.0
        self._taken[rows[fresh]] = 0.0
        told = self._told[:, rows] + counts.astype(np.float32)
        self._told[:, rows] = told
        most = told.max(axis=0)
        new = np.maximum(most - self._taken[rows], 0.0)
        self._taken[rows] = np.maximum(most, self._taken[rows])
        self.last[rows] = now
        counted = (new > 0) & ~excused
        self.excused[rows[(new > 0) & excused]] += new[(new > 0) & excused].astype(np.int64)
        some, head = rows[counted], self.head[rows[counted]]
        self.at[head, some] = at[counted]
        self.count[head, some] = new[counted]
        self.head[some] = (head + 1) % DEPTH

    def oldest_first(self, rows: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float32]]]:
        """(at, count) of these rows, DEPTH times from the oldest to the newest."""
        head = self.head[rows].astype(np.intp)
        for i in range(DEPTH):
            place = (head + i) % DEPTH
            yield self.at[place, rows], self.count[place, rows]

    def of(self, row: int) -> list[tuple[float, int]]:
        """(at, count) of one row, oldest first."""
        rows = np.array([row])
        return [(float(at[0]), int(count[0])) for at, count in self.oldest_first(rows) if count[0] > 0]

    def resize(self, capacity: int) -> None:
        more = capacity - len(self.last)
        self.at = np.concatenate([self.at, np.zeros((DEPTH, more))], axis=1)
        self.count = np.concatenate([self.count, np.zeros((DEPTH, more), np.float32)], axis=1)
        self.head = np.concatenate([self.head, np.zeros(more, np.int8)])
        self.last = np.concatenate([self.last, np.full(more, np.nan)])
        self.excused = np.concatenate([self.excused, np.zeros(more, np.int64)])
        self._told = np.concatenate([self._told, np.zeros((SOURCES, more), np.float32)], axis=1)
        self._taken = np.concatenate([self._taken, np.zeros(more, np.float32)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        self.at[:, rows] = 0.0
        self.count[:, rows] = 0.0
        self.head[rows] = 0
        self.last[rows] = np.nan
        self.excused[rows] = 0
        self._told[:, rows] = 0.0
        self._taken[rows] = 0.0
