"""Sessions whose device answers slowly are read less often.

The kernel asks drivers of network interfaces under one lock of the whole machine (rtnl_lock). A driver that takes
seconds for an answer holds up every other interface meanwhile, and whoever sets an address or brings a link up. No
thread of ours can help that; asking less often can.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Fault, Reading

SHARE = 0.05
"""Of the time that a slow device may be in the middle of an answer to one collector."""

QUICK = 0.25
"""Seconds; a device that answers within them is read at the collector's own pace."""

LONGEST = 600.0
"""Seconds a device is left alone at most."""


class Session(Protocol):
    def read(self) -> Reading: ...

    def close(self) -> None: ...


class Spared:
    """A Session in front of another: while the device is left alone its last reading stands, with its own time.

    So its values grow old, and are unknown once they are too old.
    """

    def __init__(self, host: Host, session: Session, collector: str, row: str) -> None:
        self._host, self._session, self._collector, self._row = host, session, collector, row
        self._last: Reading | None = None
        self._until = -math.inf  # node time
        self._why = ""

    def read(self) -> Reading:
        start = self._host.monotonic()
        if start < self._until:
            if self._last is None:
                raise HostError(self._row, 0, self._why)
            fault = Fault(self._collector, self._row, self._row, self._why)
            return replace(self._last, faults=(*self._last.faults, fault), queries=0)
        self._last = None
        try:
            self._last = self._session.read()
            return self._last
        finally:
            took = self._host.monotonic() - start
            if took > QUICK:
                rest = min(LONGEST, took / SHARE)
                self._until = start + took + rest
                self._why = f"its driver took {took:.1f} s to answer and holds up others: left alone for {rest:.0f} s"

    def close(self) -> None:
        self._session.close()
