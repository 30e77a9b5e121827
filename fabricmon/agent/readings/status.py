"""Status of a device of a collector, or of a collector's search for devices."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fabricmon.model import Fault

SEARCH = "*"
"""Device name under which a collector's search for devices has its status."""


@dataclass(slots=True)
class DeviceStatus:
    """Status of one device of a collector, or of its search for devices (device SEARCH).

    success       None before the first run ended
    last_success  wall time, NaN never
    duration      seconds of the last run that returned, NaN none
    stuck_since   wall time since when a read hangs, None when none does
    skipped       runs that did not start because the one before had not returned
    troubled      a run failed or had faults since the start of the agent
    """

    collector: str
    device: str
    success: bool | None = None
    last_success: float = math.nan
    duration: float = math.nan
    error: str = ""
    faults: tuple[Fault, ...] = ()
    queries: int = 0
    runs: int = 0
    skipped: int = 0
    stuck_since: float | None = None
    troubled: bool = False
