"""What a rule sees of a table at one tick. Pure; every array has one entry per row, in row order, and is not to be
written. Absent columns are all unknown: a rule needs no test for what a machine has not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.arithmetic import NO_RATE, Mark
from fabricmon.fleet.losses import Losses
from fabricmon.fleet.table import NOBODY, Table
from fabricmon.fleet.tracks import Tracks

FRESH_PERIODS = 3.0
FRESH_AT_LEAST = 30.0
"""A reading older than max(3 periods, 30 s) is stale: unknown, not unchanged (detection-methods 0.1 and 3.9)."""


class View:
    """A table at `now`.

    n        rows, free ones included
    present  the row is in its node's newest inventory
    """

    def __init__(self, table: Table, now: float) -> None:
        self.table = table
        self.now = now
        self.n = table.n
        self.present = table.present[: table.n]
        self.quiet = table.quiet[: table.n]
        self.node = table.node[: table.n]

    def value(self, column: str) -> NDArray[np.float64]:
        """Current value, NaN unknown. It may be old: see `fresh`."""
        values = self.table.values(column)
        return np.full(self.n, np.nan) if values is None else values

    def delta(self, column: str) -> NDArray[np.float64]:
        """Counts of the last interval, exact; NaN where no rate may be formed of them."""
        at = self.table.counted(column)
        if at is None:
            return np.full(self.n, np.nan)
        rise = self.table.rise[at, : self.n]
        return np.where(self.table.marks[at, : self.n] & NO_RATE, np.nan, rise)

    def rise(self, column: str) -> NDArray[np.float64]:
        """Counts known to have happened since the last known reading: at least so many, over any interval."""
        at = self.table.counted(column)
        return np.full(self.n, np.nan) if at is None else self.table.rise[at, : self.n]

    def marks(self, column: str) -> NDArray[np.uint8]:
        """Bits of `arithmetic.Mark` of the last reading; 0 where no differences are kept."""
        at = self.table.counted(column)
        return np.zeros(self.n, np.uint8) if at is None else self.table.marks[at, : self.n]

    def dt(self, column: str) -> NDArray[np.float64]:
        """Seconds, by the node's clock, that `delta` covers; NaN unknown."""
        lane = self.table.lane(column)
        return np.full(self.n, np.nan) if lane is None else lane.dt[: self.n]

    def saturated(self, column: str) -> NDArray[np.bool_]:
        """The counter stands at its top: it says "at least" and cannot rise any more."""
        return (self.marks(column) & np.uint8(Mark.FULL)) != 0

    def age(self, column: str) -> NDArray[np.float64]:
        """Seconds since the newest read of the column arrived, NaN where none did."""
        lane = self.table.lane(column)
        if lane is None:
            return np.full(self.n, np.nan)
        return self.now - lane.received(self.table.clocks, self.table.part_of, self.n)

    def period(self, column: str) -> NDArray[np.float64]:
        """Seconds between two reads of the column in normal operation, NaN where nobody reads it."""
        lane = self.table.lane(column)
        return np.full(self.n, np.nan) if lane is None else lane.period(self.table.clocks, self.table.part_of, self.n)

    def fresh(self, column: str) -> NDArray[np.bool_]:
        """The newest read of the column is at most max(FRESH_PERIODS periods, FRESH_AT_LEAST) old."""
        limit = np.fmax(FRESH_PERIODS * self.period(column), FRESH_AT_LEAST)
        return self.age(column) <= limit

    def heard(self) -> NDArray[np.float64]:
        """Seconds since any frame of the row's node arrived, NaN where none did."""
        return np.where(self.node == NOBODY, np.nan, self.now - self.table.clocks.heard[self.node])

    def group(self, domain: str) -> NDArray[np.int32]:
        """Group number of each row in a fault domain, -1 where it is in none. "host" is known without a topology."""
        domains = self.table.domains
        known = None if domains is None else domains.ids.get(domain)
        if known is None:
            return self.node if domain == "host" else np.full(self.n, NOBODY, np.int32)
        if len(known) >= self.n:
            return known[: self.n]
        return np.concatenate([known, np.full(self.n - len(known), NOBODY, np.int32)])

    def group_name(self, domain: str, group: int) -> str:
        domains = self.table.domains
        names = [] if domains is None else domains.names.get(domain, [])
        return names[group] if 0 <= group < len(names) else ""

    def label(self, row: int, name: str) -> str:
        return self.table.labels[row].get(name, "")

    @property
    def tracks(self) -> Tracks:
        """State of ports carried from tick to tick. ValueError for another kind."""
        if not isinstance(self.table.tracks, Tracks):
            raise ValueError(f"table {self.table.kind} carries no state of ports")
        return self.table.tracks

    @property
    def losses(self) -> Losses:
        """Packets lost per row and window, of ports and of flows. ValueError for another kind."""
        if self.table.tracks is None:
            raise ValueError(f"table {self.table.kind} carries no losses")
        return self.table.tracks.losses

    def track(self, name: str) -> NDArray[np.float64]:
        """One array of `tracks` by name, rows last."""
        return getattr(self.tracks, name)[..., : self.n]
