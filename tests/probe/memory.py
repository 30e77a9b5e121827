"""Ends whose packets go through memory: probers without a network."""

from __future__ import annotations

import contextlib
import os
import time

from fabricmon.agent.probing.backend import Received, Stamped
from fabricmon.probe.packet import Offer
from fabricmon.probe.windows import KernelTimes

ROW = "mlx5_0/1"


class MemoryNetwork(dict):
    """Ends by their address and number. deaf: addresses that no packet reaches."""

    def __init__(self):
        super().__init__()
        self.deaf = set()


class MemoryEnd:
    """An end whose packets are there after a microsecond, where another has the address and number that they go to.

    reads  calls of received
    """

    headers, dropped = 28, 0

    def __init__(self, ends, address, number):
        self._ends, self.where = ends, (address, number)
        self._came, self._stamps, self._numbers, self.reads = [], [], 0, 0
        self._ready = os.eventfd(0, os.EFD_NONBLOCK)
        ends[self.where] = self

    def fileno(self):
        return self._ready

    def largest(self, to):
        return 1400

    def prepare(self, to):
        return True

    def send(self, data, to, stamp=True):
        now = time.time_ns()
        if to in self._ends and to[0] not in self._ends.deaf:
            self._ends[to].take(Received(data, self.where, KernelTimes(program=now + 1000), 0))
        if not stamp:
            return -1
        self._numbers += 1
        self._stamps.append(Stamped(self._numbers, KernelTimes(program=now)))
        os.eventfd_write(self._ready, 1)
        return self._numbers

    def take(self, packet):
        self._came.append(packet)
        os.eventfd_write(self._ready, 1)

    def received(self):
        self.reads += 1
        found, self._came = self._came, []
        self._rest()
        return found

    def stamps(self):
        found, self._stamps = self._stamps, []
        self._rest()
        return found

    def _rest(self):
        """Not readable any more, where nothing is left."""
        if not (self._came or self._stamps):
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._ready)

    def close(self):
        del self._ends[self.where]
        os.close(self._ready)


class MemoryBackend:
    def __init__(self, ends, address, number):
        self._ends, self._offer = ends, Offer(address, number, "verbs")

    def offers(self, rows):
        return {ROW: self._offer}

    def refused(self):
        return {}

    def asker(self, row, source, dscp):
        return MemoryEnd(self._ends, self._offer.address, source)

    def responder(self, row, dscp):
        return MemoryEnd(self._ends, self._offer.address, self._offer.port)
