"""When to leave a device alone that refuses every question. Pure.

Some functions of ConnectX-7 on HGX B200 and B300 belong to the fabric manager. Reading a counter of theirs makes the
firmware refuse and the kernel log a line each time (counters-ib.md 5.3). Such a device never answered: it is left
alone for hours. A device that did answer before and refuses now has a fault, and is asked on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

REFUSALS = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})
_TRIES = 3  # runs that are refused before the device is left alone
_FIRST, _LONGEST = 3600.0, 6 * 3600.0  # seconds it is left alone, doubled each time


class Patience:
    """Remembers whether a device ever answered."""

    def __init__(self) -> None:
        self._answered = False
        self._refused = 0
        self._pause = _FIRST
        self._until = float("-inf")

    def waits(self, now: float) -> bool:
        """The device is to be left alone now (seconds, any one clock)."""
        return now < self._until

    def saw(self, asked: int, errnos: Iterable[int], now: float) -> None:
        """One run asked `asked` questions; those that failed did so with `errnos`."""
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
