"""When the traffic counters of each port last rose, and at what pace they rise while they do. Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.row_state import Floats, RowState, per_row
from fabricmon.fleet.table import Table

TRAFFIC = ("xmit", "rcv", "rdma_tx_bytes", "rdma_rx_bytes")
"""Counters that move when a port carries traffic, all in bytes."""
WEIGHT = 2.0 / (12 + 1)
"""Weight of a read in an exponential average that is as long as twelve reads, the windows of a straggler
(docs/methods.md#peer-comparison)."""


class Movement(RowState):
    """Per row of the PORT table.

    moved  `now` when a traffic counter last rose, NaN never
    paces  bytes per second of each counter of TRAFFIC while it rises, 0 never
    """

    moved = per_row(np.float64, np.nan)
    paces = per_row(np.float32, 0.0, len(TRAFFIC))

    def advance(self, table: Table, now: float) -> None:
        for number, column in enumerate(TRAFFIC):
            rows, rise = table.risen(column)
            if not len(rows):
                continue
            self.moved[rows] = now
            times = table.read_times(column)
            seconds = np.full(len(rows), np.nan) if times is None else times.dt[rows]
            rate = np.divide(rise, seconds, out=np.full(len(rows), np.nan), where=seconds > 0)
            usual = self.paces[number, rows]
            usual = np.where(usual > 0, usual + WEIGHT * (rate - usual), rate)
            self.paces[number, rows] = np.where(np.isfinite(usual), usual, self.paces[number, rows])

    def pace(self, n: int) -> Floats:
        """Bytes per second of the busiest counter of the first `n` rows, over the last twelve reads or so in which it
        rose; 0 never. It outlives the movement: a port that stands still keeps the pace that it had."""
        return self.paces[:, :n].max(axis=0).astype(np.float64)
