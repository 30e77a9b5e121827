"""Times of reads: of each part of each node, by the node's clock (for rates) and by the receiver's (for age), and of
each row of a table. Pure, NumPy.

All parts of all nodes are in one vector, so a frame's times land by one slice and a table gathers the times of all its
rows at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import GAP_FACTOR
from fabricmon.fleet.row_state import Bools, Floats, Rows, RowState, per_row


class PartClocks:
    """Times of parts, by part number.

    taken     node monotonic seconds of the newest read, NaN before the first
    received  receiver's `now` when that read arrived, NaN before the first
    period    seconds between reads in normal operation

    last_frame  `now` of the newest frame of each node, by node number; NaN before the first

    version     raised when a part comes or goes

    Entry 0 stands for "no such part" and is never read.
    """

    def __init__(self) -> None:
        self.taken = np.full(64, np.nan)
        self.received = np.full(64, np.nan)
        self.period = np.full(64, np.nan)
        self.last_frame = np.full(64, np.nan)
        self.version = 0
        self._used = 1
        self._free: dict[int, list[int]] = {}

    def allocate(self, periods: Floats) -> slice:
        """Room for the parts of one node, in order."""
        self.version += 1
        size = len(periods)
        free = self._free.get(size)
        if free:
            base = free.pop()
        else:
            base = self._used
            self._used += size
            while self._used > len(self.taken):
                self.taken, self.received, self.period = (
                    np.concatenate([a, np.full(len(a), np.nan)]) for a in (self.taken, self.received, self.period)
                )
        at = slice(base, base + size)
        self.taken[at] = np.nan
        self.received[at] = np.nan
        self.period[at] = periods
        return at

    def release(self, at: slice) -> None:
        self.version += 1
        size = at.stop - at.start
        if size:
            self.taken[at] = np.nan
            self.received[at] = np.nan
            self._free.setdefault(size, []).append(at.start)

    def note_frame(self, node: int, now: float) -> None:
        """When a frame of a node arrived; NaN: none did."""
        while node >= len(self.last_frame):
            self.last_frame = np.concatenate([self.last_frame, np.full(len(self.last_frame), np.nan)])
        self.last_frame[node] = now

    def note_reads(self, at: slice, taken: NDArray[np.float64], now: float) -> None:
        """The times of one frame: parts whose time changed were read anew."""
        known = self.taken[at]
        anew = (taken != known) & (taken == taken)
        known[anew] = taken[anew]
        self.received[at][anew] = now

    def note_many(self, first: NDArray[np.int64], taken: NDArray[np.float64], now: NDArray[np.float64]) -> None:
        """The same for frames of many nodes with as many parts. `first`: number of each node's first part."""
        parts = first[:, None] + np.arange(taken.shape[1])
        anew = (taken != self.taken[parts]) & (taken == taken)
        parts = parts[anew]
        self.taken[parts], self.received[parts] = taken[anew], np.repeat(now, anew.sum(axis=1))


class ReadTimes(RowState):
    """One clock per row for all columns that the same set of collectors supplies.

    sources    collectors' numbers; where several supply a row the newest read counts
    seen       node seconds of the last read that was taken into account, NaN before the first
    dt         seconds between the last two reads, NaN unknown; <= 0 and too long ones are in `irregular`
    rows       rows read since the tick before (a slice when they are all rows), None when none was
    former_dt  for `rows`: `dt` as it was before
    irregular  for `rows`: where dt is no regular interval; None when it is everywhere
    """

    seen = per_row(np.float64, np.nan)
    dt = per_row(np.float64, np.nan)

    def __init__(self, sources: tuple[int, ...], capacity: int) -> None:
        super().__init__(capacity)
        self.sources = sources
        self.rows: Rows | None = None
        self.former_dt: Floats = self.dt[:0]
        self.irregular: Bools | None = None

    def advance(self, clocks: PartClocks, part_of: NDArray[np.int32], n: int) -> None:
        """Compare the clocks of all rows. `part_of[source, row]` is the number of the part that supplies it."""
        taken = self.newest(clocks.taken, part_of, slice(0, n))
        seen = self.seen[:n]
        touched = (taken != seen) & (taken == taken)
        count = int(np.count_nonzero(touched))
        if not count:
            self.rows = None
            return
        rows: Rows = slice(0, n) if count == n else touched.nonzero()[0]
        self.rows = rows
        newest = taken[rows]
        dt = newest - seen[rows]
        period = self.newest(clocks.period, part_of, rows)
        regular = (dt > 0) & (dt <= GAP_FACTOR * period)
        self.irregular = None if regular.all() else ~regular
        self.former_dt = self.dt[rows].copy()
        self.dt[rows] = dt
        self.seen[rows] = newest

    def newest(self, by_part: Floats, part_of: NDArray[np.int32], rows: Rows) -> Floats:
        """Of some rows the greatest of a time by part, among the parts that supply it; NaN where none does."""
        found = by_part[part_of[self.sources[0], rows]]
        for source in self.sources[1:]:
            found = np.fmax(found, by_part[part_of[source, rows]])
        return found

    def newest_at(self, by_part: Floats, part_of: NDArray[np.int32], row: int) -> float:
        """`newest` of one row."""
        return float(np.fmax.reduce(by_part[part_of[list(self.sources), row]]))

    def resize(self, capacity: int) -> None:
        super().resize(capacity)
        self.rows = None
