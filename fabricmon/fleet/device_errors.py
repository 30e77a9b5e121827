"""Time and number of the fatal errors of each port's device. Pure, NumPy."""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.row_state import RowState, per_row
from fabricmon.fleet.table import Table

COLUMNS = ("unrecoverable_error", "log_firmware_faults", "log_pcie_fatal_errors")
"""Errors a device cannot recover from: its own count, and AER fatal and firmware fatal by the kernel
(docs/methods.md#nic-fault)."""

SPELL = 300.0
"""Seconds without an error after which the next one begins a new spell (design choice)."""


class DeviceErrors(RowState):
    """Per row.

    last   `now` at which an error was last counted, NaN never
    since  `now` of the first error of the present spell
    count  errors of the spell, all columns together; what one failure counts in several of them counts several times
    """

    last = per_row(np.float64, np.nan)
    since = per_row(np.float64, np.nan)
    count = per_row(np.float32)

    def advance(self, table: Table, now: float) -> None:
        for column in COLUMNS:
            rows, rise = table.risen(column)
            fresh = rows[~(now - self.last[rows] <= SPELL)]
            self.since[fresh] = now
            self.count[fresh] = 0.0
            self.count[rows] += rise
            self.last[rows] = now
