"""The clock of evaluations: wall time that never goes back, and does not follow each step of the machine's clock.

A short step of the machine's clock (an operator, a server of time that is wrong) must neither end a silence nor make
every port stale: the clock follows the time since boot and slews towards wall time. Time in which the machine was
suspended counts. A clock that was never set (1970, no battery, a machine that was paused by its host) is behind by far
and stays so until it is set: that correction is made at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW = 0.1  # seconds of correction a second
LEAP = 60.0
"""Seconds by which wall time must be ahead for a correction at once (design choice): less is slewed in ten minutes."""
LASTS = 30.0  # seconds for which it must be: a step that is taken back at once leaves no trace


def since_boot() -> float:
    """Seconds since the machine started, suspended ones included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """`now()` never goes back.

    offset  seconds by which the wall clock was ahead of `now` at the last call
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = since_boot) -> None:
        self._wall, self._steady = wall, steady
        self._now, self._at = wall(), steady()
        self._ahead_since: float | None = None
        self.offset = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        at = self._steady()
        passed = at - self._at
        self._at = at
        self.offset = ahead = self._wall() - (self._now + passed)
        if ahead <= LEAP:
            self._ahead_since = None
        elif self._ahead_since is None:
            self._ahead_since = at
        if self._ahead_since is not None and at - self._ahead_since >= LASTS:
            self._ahead_since = None
            self._now += passed + ahead
        else:
            self._now += passed + max(-SLEW * passed, min(SLEW * passed, ahead))
        return self._now
