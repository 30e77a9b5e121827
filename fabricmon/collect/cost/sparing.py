"""Sessions of slow devices are read less often.

The kernel asks drivers of network interfaces under one lock of the machine (rtnl_lock). A driver that takes seconds
for an answer blocks every other interface, and the setting of addresses and links. Threads do not avoid that; a longer
interval does.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fabricmon.collect.collector import DeviceReader
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Fault, Reading

SHARE = 0.05
"""Largest part of the time that a slow device spends on answers to one collector."""

QUICK = 0.25
"""Seconds; a device that answers within them is read at the collector's interval."""

LONGEST = 600.0
"""Seconds; the longest pause."""


class Spared:
    """A Session in front of another: during a pause the last reading stays, with its time, until it is too old."""

    def __init__(self, host: Host, session: DeviceReader, collector: str, row: str) -> None:
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
                self._why = f"its driver took {took:.1f} s to answer, blocking others: not read for {rest:.0f} s"

    def close(self) -> None:
        self._session.close()
