"""The times of the columns that come from the same collectors: which rows were read since the last tick. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import GAP_FACTOR

if TYPE_CHECKING:
    from fabricmon.fleet.clocks import PartClocks

Rows = slice | NDArray[np.intp]


class Lane:
    """One clock per row for all columns that the same set of collectors supplies.

    sources    collectors' numbers; where several supply a row the newest read counts
    seen       node seconds of the last read that was taken into account, NaN before the first
    dt         seconds between the last two reads, NaN unknown; <= 0 and too long ones are in `irregular`
    rows       rows read since the tick before (a slice when they are all rows), None when none was
    irregular  for `rows`: where dt is no regular interval; None when it is everywhere
    """

    def __init__(self, sources: tuple[int, ...], capacity: int) -> None:
        self.sources = sources
        self.seen = np.full(capacity, np.nan)
        self.dt = np.full(capacity, np.nan)
        self.rows: Rows | None = None
        self.former_dt: NDArray[np.float64] = self.dt[:0]
        self.irregular: NDArray[np.bool_] | None = None

    def advance(self, clocks: PartClocks, part_of: NDArray[np.int32], n: int) -> None:
        """Look at the clocks of all rows. `part_of[source, row]` is the number of the part that supplies it."""
        parts = part_of[self.sources[0], :n]
        taken = clocks.taken[parts]
        for source in self.sources[1:]:
            taken = np.fmax(taken, clocks.taken[part_of[source, :n]])
        seen = self.seen[:n]
        touched = (taken != seen) & (taken == taken)
        count = int(np.count_nonzero(touched))
        if not count:
            self.rows = None
            return
        rows: Rows = slice(0, n) if count == n else np.flatnonzero(touched)
        self.rows = rows
        newest = taken[rows]
        dt = newest - seen[rows]
        period = self.period(clocks, part_of, n)[rows]
        with np.errstate(invalid="ignore"):
            regular = (dt > 0) & (dt <= GAP_FACTOR * period)
        self.irregular = None if regular.all() else ~regular
        self.former_dt = self.dt[rows].copy()
        self.dt[rows] = dt
        self.seen[rows] = newest

    def period(self, clocks: PartClocks, part_of: NDArray[np.int32], n: int) -> NDArray[np.float64]:
        """Seconds between reads per row: the slowest of the collectors that supply it, NaN where none does."""
        period = clocks.period[part_of[self.sources[0], :n]]
        for source in self.sources[1:]:
            period = np.fmax(period, clocks.period[part_of[source, :n]])
        return period

    def received(self, clocks: PartClocks, part_of: NDArray[np.int32], n: int) -> NDArray[np.float64]:
        """When the newest read of each row arrived, by the receiver's clock; NaN where none did."""
        received = clocks.received[part_of[self.sources[0], :n]]
        for source in self.sources[1:]:
            received = np.fmax(received, clocks.received[part_of[source, :n]])
        return received

    def resize(self, capacity: int) -> None:
        more = np.full(capacity - len(self.seen), np.nan)
        self.seen = np.concatenate([self.seen, more])
        self.dt = np.concatenate([self.dt, more])
        self.rows = None

    def forget(self, rows: NDArray[np.intp]) -> None:
        self.seen[rows] = np.nan
        self.dt[rows] = np.nan
