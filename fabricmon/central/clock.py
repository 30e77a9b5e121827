"""The centre's `now`: wall time that never jumps.

Holds, silences and incidents count in wall time, so a step of the machine's clock (NTP after a boot, an operator)
must neither end a silence nor make every port stale. The clock runs with the monotonic one and drifts towards wall
time by at most a tenth of the time that passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW = 0.1  # seconds of correction a second


class Clock:
    """`now()` is seconds since the epoch, never less than it was before."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._now, self._at = wall(), monotonic()
        self.offset = 0.0  # seconds the machine's wall clock is ahead of `now`

    def now(self) -> float:
        """Seconds since the epoch."""
        at = self._monotonic()
        passed = at - self._at
        self._at = at
        ahead = self._wall() - (self._now + passed)
        self._now += passed + max(-SLEW * passed, min(SLEW * passed, ahead))
        self.offset = ahead
        return self._now
