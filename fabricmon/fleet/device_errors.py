"""Time and number of the errors of devices that are few. Pure, NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabricmon.fleet.row_state import RowState, per_row
from fabricmon.fleet.table import Table

FATAL = ("unrecoverable_error", "log_firmware_faults", "log_pcie_fatal_errors")
"""Errors that the device of a port cannot recover from: its own count, and AER fatal and firmware fatal by the kernel
(docs/methods.md#nic-fault)."""
UNCORRECTED = ("pcie_aer_nonfatal_errors", "pcie_aer_fatal_errors", "pcie_above_uncorrected_errors")
CORRECTED = ("pcie_aer_correctable_errors", "pcie_above_corrected_errors")
"""Errors of a PCIe device and of the bridges above it by the kernel (docs/methods.md#pcie-errors)."""

SPELL = 300.0
"""Seconds without an error after which the next one begins a new spell (design choice)."""


class DeviceErrors(RowState):
    """Per row, of some columns.

    last   `now` at which an error was last counted, NaN never
    since  `now` of the first error of the present spell
    count  errors of the spell, all columns together; what one failure counts in several of them counts several times
    """

    last = per_row(np.float64, np.nan)
    since = per_row(np.float64, np.nan)
    count = per_row(np.float32)

    def __init__(self, capacity: int, columns: Sequence[str]) -> None:
        super().__init__(capacity)
        self._columns = columns

    def advance(self, table: Table, now: float) -> None:
        for column in self._columns:
            rows, rise = table.risen(column)
            fresh = rows[~(now - self.last[rows] <= SPELL)]
            self.since[fresh] = now
            self.count[fresh] = 0.0
            self.count[rows] += rise
            self.last[rows] = now
