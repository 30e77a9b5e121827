"""State of ports carried from tick to tick: the link's state, its downs, its errors, when it last moved. Pure, vectors.

Advanced once per tick, and only for rows that were read since the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.device_errors import DeviceErrors
from fabricmon.fleet.errors import Errors
from fabricmon.fleet.facts import Facts
from fabricmon.fleet.history import Downs
from fabricmon.fleet.losses import PORTS, Losses
from fabricmon.fleet.peers import Peers
from fabricmon.fleet.pressure import Pressure
from fabricmon.fleet.trend import ModuleTrend

if TYPE_CHECKING:
    from fabricmon.fleet.table import Table

TRAFFIC = ("xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes")
"""Counters that move when a port carries traffic."""


class Settings(Struct, frozen=True):
    """Parameters of what is carried from tick to tick (sources: detection-methods).

    episode     s; downs this close together are one episode (3.3)
    grace       s after a boot or a new epoch in which downs are not counted (3.3)
    settle      s after a link came up, or a down, in which errors are not counted: training makes them (design)
    cap         errors of one poll that count towards an onset; errors come in bursts (2.3)
    poll        s; the interval that `background` and `elevated` are counts of (2.3)
    background  errors per poll that are usual at least, so that a first error is no onset (2.3)
    elevated    errors per poll the onset test is tuned to, at least (2.3: 0.01 -> 1 is found in 7 polls)
    ratio       the same as a multiple of the learned background (2.3)
    ceiling     nats; the onset statistic is kept below, so that it can fall again (design: twice the alarm level)
    memory      s; time constant of the learned background (design)
    short       s; horizon of the window that shows new sickness (design)
    long        s; horizon of the window that shows health: above the 125 minutes vendors ask for (link-health 1.1)
    """

    episode: float = 60.0
    grace: float = 120.0
    settle: float = 30.0
    cap: float = 3.0
    poll: float = 10.0
    background: float = 0.01
    elevated: float = 1.0
    ratio: float = 10.0
    ceiling: float = 41.2
    memory: float = 21_600.0
    short: float = 600.0
    long: float = 9_000.0


class Tracks:
    """Per row of the PORT table.

    link        state now, see `link`
    since       `now` when it took that state
    ever_up     the link was up once, as far as anything tells
    moved       `now` when a traffic counter last rose, NaN never
    first       `now` of the first tick that knew the row
    last_known  the last state other than UNKNOWN
    """

    def __init__(self, table: Table, settings: Settings) -> None:
        capacity = table.capacity
        self.table = table
        self.settings = settings
        self.facts = Facts(capacity)
        self.downs = Downs(capacity)
        self.errors = Errors(capacity, settings)
        self.devices = DeviceErrors(capacity)
        self.pressure = Pressure(capacity)
        self.modules = ModuleTrend(capacity)
        self.peers = Peers(capacity)
        self.losses = Losses(capacity, PORTS)
        self.link = np.full(capacity, link.UNKNOWN, np.int8)
        self.last_known = np.full(capacity, link.UNKNOWN, np.int8)
        self.since = np.full(capacity, np.nan)
        self.ever_up = np.zeros(capacity, np.bool_)
        self.moved = np.full(capacity, np.nan)
        self.first = np.full(capacity, np.nan)

    def advance(self, now: float, settings: Settings) -> None:
        table, n = self.table, self.table.n
        self.settings = settings
        if not n:
            return
        self.facts.update(table)
        new_rows = np.flatnonzero(np.isnan(self.first[:n]))
        self.first[new_rows] = now
        fallen = self._look(now)
        self._count_downs(fallen, now)
        self.errors.advance(table, self, now, settings)
        self.devices.advance(self, now)
        self.losses.advance(table, now, self.facts.role)
        self.modules.advance(table, self, now)
        self._note_traffic(now)
        self.pressure.advance(table, self, now)
        self.peers.advance(table, self, now)

    def settled(self, now: float, settle: float) -> NDArray[np.bool_]:
        """The link is up, has been for a while, and no down was told of in that time."""
        n = self.table.n
        with np.errstate(invalid="ignore"):
            return (
                (self.link[:n] == link.UP)
                & (now - self.since[:n] >= settle)
                & ~(now - self.downs.last[:n] < settle)
                & ~(now - self.table.begun[:n] < settle)
            )

    def _look(self, now: float) -> NDArray[np.intp]:
        """Take the links' states over. Returns the rows seen to go from up to down."""
        table, n = self.table, self.table.n
        state = link.classify(table, self.facts.infiniband[:n])
        state[~table.present[:n]] = link.UNKNOWN
        changed = np.flatnonzero((state != self.link[:n]) | np.isnan(self.since[:n]))
        after, before = state[changed], self.last_known[changed]
        self.since[changed] = now
        self.link[changed] = after
        told = after != link.UNKNOWN
        self.last_known[changed[told]] = after[told]
        self.ever_up[changed[after == link.UP]] = True
        down = np.flatnonzero((state == link.DOWN) & ~self.ever_up[:n])
        for name in ("link_downed", "carrier_up_changes"):
            values = table.values(name)
            if values is not None and len(down):
                with np.errstate(invalid="ignore"):
                    self.ever_up[down[values[down] > 0]] = True
        return changed[(before == link.UP) & (after == link.DOWN)]

    def _count_downs(self, fallen: NDArray[np.intp], now: float) -> None:
        """Downs by port counter, by carrier counter and by what was seen; see `history`."""
        table = self.table
        by_port, port_rise = self.risen("link_downed")
        by_carrier, carrier_rise = self.risen("carrier_down_changes")
        # on InfiniBand the interface's carrier follows the subnet manager, too: only without the port's own counter
        own = ~self.facts.infiniband[by_carrier] | ~self._observed("link_downed", by_carrier)
        by_carrier, carrier_rise = by_carrier[own], carrier_rise[own]
        rows = np.unique(np.concatenate([by_port, by_carrier, fallen]))
        if not len(rows):
            return
        counts = np.zeros((3, len(rows)))
        counts[0, np.searchsorted(rows, by_port)] = port_rise
        counts[1, np.searchsorted(rows, by_carrier)] = carrier_rise
        counts[2, np.searchsorted(rows, fallen)] = 1.0
        with np.errstate(invalid="ignore"):
            excused = table.quiet[rows] | (now - table.begun[rows] < self.settings.grace)
        excused |= self.link[rows] == link.ORDERED
        self.downs.tell(rows, counts, np.full(len(rows), now) - self._lag(rows), excused, now, self.settings.episode)

    def risen(self, column: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Rows read in this tick on which a counter rose, and by how much. A rise after a reset is not believed."""
        table, n = self.table, self.table.n
        at, lane = table.counted(column), table.lane(column)
        if at is None or lane is None or lane.rows is None:
            return np.zeros(0, np.intp), np.zeros(0)
        rise, rows = table.rise[at, :n][lane.rows], lane.rows
        some = np.flatnonzero((rise > 0) & ((table.marks[at, :n][rows] & np.uint8(Mark.RESET)) == 0))
        return (some if isinstance(rows, slice) else rows[some]), rise[some]

    def _observed(self, column: str, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """The counter is there and can still rise."""
        at, values = self.table.counted(column), self.table.values(column)
        if at is None or values is None:
            return np.zeros(len(rows), np.bool_)
        return np.isfinite(values[rows]) & ((self.table.marks[at, rows] & np.uint8(Mark.FULL)) == 0)

    def _lag(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """How long ago a down was, at best knowledge: half a gap where the readings have one, else 0."""
        lag = np.zeros(len(rows))
        for column in ("link_downed", "carrier_down_changes"):
            at, lane = self.table.counted(column), self.table.lane(column)
            if at is not None and lane is not None:
                gap = (self.table.marks[at, rows] & np.uint8(Mark.GAP)) != 0
                lag = np.where(gap, np.fmax(lag, lane.dt[rows] / 2), lag)
        return lag

    def _note_traffic(self, now: float) -> None:
        for column in TRAFFIC:
            rows, _ = self.risen(column)
            self.moved[rows] = now

    def resize(self, capacity: int) -> None:
        more = capacity - len(self.link)
        self.facts.resize(capacity)
        self.downs.resize(capacity)
        self.errors.resize(capacity, self.settings)
        self.devices.resize(capacity)
        self.pressure.resize(capacity)
        self.modules.resize(capacity)
        self.peers.resize(capacity)
        self.losses.resize(capacity)
        self.link = np.concatenate([self.link, np.full(more, link.UNKNOWN, np.int8)])
        self.last_known = np.concatenate([self.last_known, np.full(more, link.UNKNOWN, np.int8)])
        self.since = np.concatenate([self.since, np.full(more, np.nan)])
        self.ever_up = np.concatenate([self.ever_up, np.zeros(more, np.bool_)])
        self.moved = np.concatenate([self.moved, np.full(more, np.nan)])
        self.first = np.concatenate([self.first, np.full(more, np.nan)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        self.downs.forget(rows)
        self.errors.forget(rows)
        self.devices.forget(rows)
        self.pressure.forget(rows)
        self.modules.forget(rows)
        self.peers.forget(rows)
        self.losses.forget(rows)
        self.link[rows] = link.UNKNOWN
        self.last_known[rows] = link.UNKNOWN
        self.ever_up[rows] = False
        for times in (self.since, self.moved, self.first):
            times[rows] = np.nan
