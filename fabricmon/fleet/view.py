"""Read-only view of a table at one tick, for rules. Pure; every array has one entry per row, in row order. Absent
columns are all unknown, so that a rule needs no test for hardware that is not present.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import freshness
from fabricmon.fleet.clocks import ReadTimes
from fabricmon.fleet.losses import Losses
from fabricmon.fleet.probes import Probes
from fabricmon.fleet.table import FREE, Table
from fabricmon.fleet.tracks import AdapterWork, FlowTracks, GpuTracks, PcieTracks, Tracks
from fabricmon.model import Kind

_T = TypeVar("_T")


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
        self._ages: dict[ReadTimes, NDArray[np.float64]] = {}  # what several rules ask for; none may change it
        self._fresh: dict[ReadTimes, NDArray[np.bool_]] = {}
        self._made: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` returns, made at the first call for the key: for what a rule needs of all rows, and again for the
        evidence of each. It is read-only."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[return-value]

    def value(self, column: str) -> NDArray[np.float64]:
        """Current value, NaN unknown. It may be old: see `fresh`."""
        return self.table.value(column)

    def delta(self, column: str) -> NDArray[np.float64]:
        """Counts of the last interval, exact; NaN where no rate may be formed of them."""
        return self.table.delta(column)

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
        times = self.table.read_times(column)
        return np.full(self.n, np.nan) if times is None else times.dt[: self.n]

    def age(self, column: str) -> NDArray[np.float64]:
        """Seconds since the newest read of the column arrived, NaN where none did."""
        times = self.table.read_times(column)
        return np.full(self.n, np.nan) if times is None else self.age_of(times)

    def age_of(self, times: ReadTimes) -> NDArray[np.float64]:
        """`age` of the columns that are read at these times."""
        found = self._ages.get(times)
        if found is None:
            found = self._ages[times] = self.now - self.table.received(times)
            found.flags.writeable = False
        return found

    def period(self, column: str) -> NDArray[np.float64]:
        """Seconds between two reads of the column in normal operation, NaN where it is not read."""
        times = self.table.read_times(column)
        return np.full(self.n, np.nan) if times is None else self.table.period(times)

    def age_limit(self, column: str) -> NDArray[np.float64]:
        """Seconds after which a reading of the column is stale; see `freshness`."""
        times = self.table.read_times(column)
        return np.full(self.n, freshness.LEAST) if times is None else self.age_limit_of(times)

    def age_limit_of(self, times: ReadTimes) -> NDArray[np.float64]:
        """`age_limit` of the columns that are read at these times."""
        return self.table.age_limit(times)

    def fresh(self, column: str) -> NDArray[np.bool_]:
        """The newest read of the column is not stale."""
        times = self.table.read_times(column)
        if times is None:
            return np.zeros(self.n, np.bool_)
        found = self._fresh.get(times)
        if found is None:
            found = self._fresh[times] = self.age_of(times) <= self.age_limit_of(times)
            found.flags.writeable = False
        return found

    def frame_age(self) -> NDArray[np.float64]:
        """Seconds since any frame of the row's node arrived, NaN where none did."""
        last = self.table.clocks.last_frame
        return self.once("frame_age", lambda: np.where(self.node == FREE, np.nan, self.now - last[self.node]))

    def reporting(self) -> NDArray[np.bool_]:
        """The newest frame of the row's node is not stale."""
        return self.frame_age() <= freshness.LEAST

    def group(self, domain: str) -> NDArray[np.int32]:
        """Group number of each row in a fault domain, -1 where it is in none. "host" is known without a topology."""
        domains = self.table.domains
        known = None if domains is None else domains.ids.get(domain)
        if known is None:
            return self.node if domain == "host" else np.full(self.n, FREE, np.int32)
        if len(known) >= self.n:
            return known[: self.n]
        return np.concatenate([known, np.full(self.n - len(known), FREE, np.int32)])

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
    def pcie(self) -> PcieTracks:
        """State of the PCIE rows. ValueError for another kind."""
        if not isinstance(self.table.tracks, PcieTracks):
            raise ValueError(f"table {self.table.kind} carries no state of PCIe links")
        return self.table.tracks

    def adapter_work(self, rows: NDArray[np.intp]) -> AdapterWork:
        """When the adapters of some PCIE rows carried traffic. ValueError for another kind."""
        return self.pcie.work(self.table, rows)

    @property
    def lost(self) -> NDArray[np.float64]:
        """`now` at which each GPU fell off the bus, NaN where none did. ValueError for another kind."""
        if not isinstance(self.table.tracks, GpuTracks):
            raise ValueError(f"table {self.table.kind} carries no state of GPUs")
        return self.table.tracks.lost[: self.n]

    @property
    def probes(self) -> Probes:
        """What probes show of flows. ValueError for another kind."""
        if not isinstance(self.table.tracks, FlowTracks):
            raise ValueError(f"table {self.table.kind} carries no state of flows")
        return self.table.tracks.probes

    @property
    def losses(self) -> Losses:
        """Packets lost per row and window, of ports and of flows. ValueError for another kind."""
        if not isinstance(self.table.tracks, Tracks | FlowTracks):
            raise ValueError(f"table {self.table.kind} carries no losses")
        return self.table.tracks.losses


class Views:
    """The tables at one tick: every rule and the diagnosis see the same view of each, and share what it has made."""

    def __init__(self, tables: Mapping[Kind, Table], now: float) -> None:
        self.tables, self.now = tables, now
        self._of: dict[Kind, View] = {}

    def of(self, kind: Kind) -> View:
        found = self._of.get(kind)
        if found is None:
            found = self._of[kind] = View(self.tables[kind], self.now)
        return found
