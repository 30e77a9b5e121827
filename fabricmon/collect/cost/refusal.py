"""Pauses for a device that refuses every question. Pure.

Some functions of ConnectX-7 on HGX B200 and B300 belong to the fabric manager. The firmware refuses to read their
counters, and the kernel logs a line each time (docs/methods.md#restricted-functions). Such a device, which never
answered, is not read for hours. A device that answered before and refuses now has a fault and is read on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

REFUSALS = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})
_TRIES = 3  # refused runs before the pause
_FIRST, _LONGEST = 3600.0, 6 * 3600.0  # seconds of the pause, doubled each time


class Patience:
    """The refusals of one device."""

    def __init__(self) -> None:
        self._answered = False
        self._refused = 0
        self._pause = _FIRST
        self._until = float("-inf")

    def waits(self, now: float) -> bool:
        """Whether the device is in a pause (seconds of one clock)."""
        return now < self._until

    def saw(self, asked: int, errnos: Iterable[int], now: float) -> None:
        """Count a run of `asked` questions, of which some failed with `errnos`."""
        failed = list(errnos)
        if self._answered or not asked:
            return
        if len(failed) < asked:
            self._answered = True
        elif all(e in REFUSALS for e in failed):
            self._refused += 1
            if self._refused >= _TRIES:
                self._until, self._pause = now + self._pause, min(2 * self._pause, _LONGEST)
                self._refused = _TRIES - 1  # after the pause one refused run is enough
