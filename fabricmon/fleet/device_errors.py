"""When a port's device last said of itself that it is broken. Pure, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fabricmon.fleet.tracks import Tracks

COLUMNS = ("unrecoverable_error", "log_firmware_faults", "log_pcie_fatal_errors")
"""What a device counts that it cannot recover from, and what the kernel says of its firmware and of its PCIe function:
AER fatal and firmware fatal of detection-methods 3.8."""

SPELL = 300.0
"""Seconds without an error after which the next one begins a new spell [D]."""


class DeviceErrors:
    """Per row.

    last   `now` at which an error was last counted, NaN never
    since  `now` of the first error of the present spell
    count  errors of the spell, all columns together; what one failure counts in several of them counts several times
    """

    def __init__(self, capacity: int) -> None:
        self.last = np.full(capacity, np.nan)
        self.since = np.full(capacity, np.nan)
        self.count = np.zeros(capacity, np.float32)

    def advance(self, tracks: Tracks, now: float) -> None:
        for column in COLUMNS:
            rows, rise = tracks.risen(column)
            if len(rise):
                self._tell(rows, rise, now)

    def _tell(self, rows: NDArray[np.intp], rise: NDArray[np.float64], now: float) -> None:
        with np.errstate(invalid="ignore"):
            fresh = ~(now - self.last[rows] <= SPELL)
        self.since[rows[fresh]] = now
        self.count[rows[fresh]] = 0.0
        self.count[rows] += rise
        self.last[rows] = now

    def resize(self, capacity: int) -> None:
        more = capacity - len(self.last)
        self.last = np.concatenate([self.last, np.full(more, np.nan)])
        self.since = np.concatenate([self.since, np.full(more, np.nan)])
        self.count = np.concatenate([self.count, np.zeros(more, np.float32)])

    def forget(self, rows: NDArray[np.intp]) -> None:
        self.last[rows] = self.since[rows] = np.nan
        self.count[rows] = 0.0
