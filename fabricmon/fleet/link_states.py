"""The state of each link over time: since when, whether it was ever up, its downs. Pure, NumPy."""

from __future__ import annotations

import numpy as np

from fabricmon.fleet import link
from fabricmon.fleet.arithmetic import Mark
from fabricmon.fleet.downs import Downs
from fabricmon.fleet.facts import Facts
from fabricmon.fleet.link import UNKNOWN
from fabricmon.fleet.row_state import Bools, Floats, Numbers, RowState, per_row
from fabricmon.fleet.settings import TrackSettings
from fabricmon.fleet.table import Table


class LinkStates(RowState):
    """Per row of the PORT table.

    link        state now, see `link`
    since       `now` when it took that state
    ever_up     the link was up once, as far as is known
    last_known  the last state other than UNKNOWN
    """

    link = per_row(np.int8, UNKNOWN)
    last_known = per_row(np.int8, UNKNOWN)
    since = per_row(np.float64, np.nan)
    ever_up = per_row(np.bool_, False)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.facts = Facts(capacity)
        self.downs = Downs(capacity)

    def update(self, table: Table, now: float, settings: TrackSettings) -> None:
        """Take over what the table has of labels, states and downs."""
        self.facts.update(table)
        fallen = self._update_states(table, now)
        self._count_downs(table, fallen, now, settings)

    def settled(self, table: Table, now: float, settle: float) -> Bools:
        """The link is up, has been for `settle` seconds, and no down was counted in that time."""
        n = table.n
        return (
            (self.link[:n] == link.UP)
            & (now - self.since[:n] >= settle)
            & ~(now - self.downs.last[:n] < settle)
            & ~(now - table.begun[:n] < settle)
        )

    def _update_states(self, table: Table, now: float) -> Numbers:
        """Returns the rows seen to go from up to down."""
        n = table.n
        state = link.classify(table, self.facts.infiniband[:n])
        state[~table.present[:n]] = link.UNKNOWN
        changed = np.flatnonzero((state != self.link[:n]) | np.isnan(self.since[:n]))
        after, before = state[changed], self.last_known[changed]
        self.since[changed] = now
        self.link[changed] = after
        known = after != link.UNKNOWN
        self.last_known[changed[known]] = after[known]
        self.ever_up[changed[after == link.UP]] = True
        down = np.flatnonzero((state == link.DOWN) & ~self.ever_up[:n])
        for name in ("link_downed", "carrier_up_changes"):
            values = table.values(name)
            if values is not None and len(down):
                self.ever_up[down[values[down] > 0]] = True
        return changed[(before == link.UP) & (after == link.DOWN)]

    def _count_downs(self, table: Table, fallen: Numbers, now: float, settings: TrackSettings) -> None:
        """Add downs by port counter, by carrier counter and by polled state; see `downs`."""
        by_port, port_rise = table.risen("link_downed")
        by_carrier, carrier_rise = table.risen("carrier_down_changes")
        # on InfiniBand the interface's carrier follows the subnet manager, too: only without the port's own counter
        own = ~self.facts.infiniband[by_carrier] | ~_can_rise(table, "link_downed", by_carrier)
        by_carrier, carrier_rise = by_carrier[own], carrier_rise[own]
        rows = np.unique(np.concatenate([by_port, by_carrier, fallen]))
        if not len(rows):
            return
        counts = np.zeros((3, len(rows)))
        counts[0, np.searchsorted(rows, by_port)] = port_rise
        counts[1, np.searchsorted(rows, by_carrier)] = carrier_rise
        counts[2, np.searchsorted(rows, fallen)] = 1.0
        excused = table.quiet[rows] | (now - table.begun[rows] < settings.grace)
        excused |= self.link[rows] == link.ORDERED
        self.downs.add(rows, counts, now - _lag(table, rows), excused, now, settings.episode)


def _can_rise(table: Table, column: str, rows: Numbers) -> Bools:
    """The counter is there and not at its top."""
    at = table.counted(column)
    if at is None:
        return np.zeros(len(rows), np.bool_)
    return np.isfinite(table.value(column)[rows]) & ((table.marks[at, rows] & np.uint8(Mark.FULL)) == 0)


def _lag(table: Table, rows: Numbers) -> Floats:
    """How long ago a down was, at best knowledge: half a gap where the readings have one, else 0."""
    lag = np.zeros(len(rows))
    for column in ("link_downed", "carrier_down_changes"):
        at, times = table.counted(column), table.read_times(column)
        if at is not None and times is not None:
            gap = (table.marks[at, rows] & np.uint8(Mark.GAP)) != 0
            lag = np.where(gap, np.fmax(lag, times.dt[rows] / 2), lag)
    return lag
