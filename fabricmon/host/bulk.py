"""Many numeric files read again and again, as cheaply as Python can: open descriptors, one pread a file.

A file of sysfs that stays open gives a fresh value to each pread at offset 0, and ENODEV for ever once its device
has gone, also after the device came back under the same name: then it has to be opened again (netlink.md section 4).
"""

from __future__ import annotations

import errno
import math
import os
import threading
from array import array
from collections.abc import Sequence
from typing import Any

from fabricmon.host.protocol import HostError

_WIDEST = 64  # bytes of a file that are looked at: the longest number, 2**64 - 1, has 20 digits
_STALE = frozenset({errno.EBADF, errno.ENODEV})  # never opened, or opened before its device went
_NEAR_TOP = 2.0**64 - 2048  # the largest float64 below 2**64; above it only the digits tell
_ALL_ONES = 2**64 - 1  # what a driver shows that cannot decode a field of its firmware (counters-ib.md 6.5)


class Descriptors:
    """How many descriptors the readers of one host may keep open; what is above is opened for each read.

    Shared by the readers of all devices, each in a thread of its own.
    """

    def __init__(self, limit: int) -> None:
        self.left = limit
        self._lock = threading.Lock()

    def take(self) -> bool:
        with self._lock:
            if self.left <= 0:
                return False
            self.left -= 1
            return True

    def give(self) -> None:
        with self._lock:
            self.left += 1


class Bulk:
    """BulkReader on real files.

    paths   as the machine names them, for errors
    places  where they are, in the same order
    """

    def __init__(self, paths: Sequence[str], places: Sequence[str], descriptors: Descriptors) -> None:
        self._paths = tuple(paths)
        self._places = tuple(places)
        self._descriptors = descriptors
        self._open: list[int] = [-1] * len(self._places)
        for i in range(len(self._open)):
            try:
                self._reopen(i)
            except OSError:
                continue  # each read tries again and says why it cannot

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        # Each file is read once, for on an adapter a read is a firmware command. Parsing all in one sweep takes half
        # the time of parsing one by one; where something is wrong in it the one-by-one way finds out what.
        pread = os.pread
        raws: list[Any] = []  # bytes, or the OSError
        keep = raws.append
        for descriptor in self._open:
            try:
                keep(pread(descriptor, _WIDEST, 0))
            except OSError as error:
                keep(error)
        try:
            values: array[float] = array("d", map(int, raws))
        except (TypeError, ValueError, OverflowError):
            return self._one_by_one(raws, out, base)
        # int() takes "-1" and Python's "1_000" too
        if values and (min(values) < 0 or max(values) >= _NEAR_TOP or b"_" in b"".join(raws)):
            return self._one_by_one(raws, out, base)
        out[base : base + len(values)] = values
        return []

    def _one_by_one(self, raws: list[Any], out: array[float], base: int) -> list[tuple[int, HostError]]:
        bad: list[tuple[int, HostError]] = []
        for i, raw in enumerate(raws):
            try:
                out[base + i] = number(self._paths[i], self._again(i, raw) if isinstance(raw, OSError) else raw)
            except HostError as error:
                out[base + i] = math.nan
                bad.append((i, error))
        return bad

    def close(self) -> None:
        for i in range(len(self._open)):
            self._drop(i)

    def _again(self, i: int, error: OSError) -> bytes:
        """File i opened anew where its descriptor is of no use. Any other failure is the device's answer: not asked
        again, for it may have cost seconds.
        """
        try:
            if error.errno not in _STALE:
                raise error
            self._drop(i)
            self._reopen(i)
            if self._open[i] >= 0:
                return os.pread(self._open[i], _WIDEST, 0)
            descriptor = os.open(self._places[i], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                return os.pread(descriptor, _WIDEST, 0)
            finally:
                os.close(descriptor)
        except OSError as failed:
            raise HostError(self._paths[i], failed.errno or 0, os.strerror(failed.errno or 0)) from None

    def _reopen(self, i: int) -> None:
        if self._descriptors.take():
            try:
                self._open[i] = os.open(self._places[i], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError:
                self._descriptors.give()
                raise

    def _drop(self, i: int) -> None:
        if self._open[i] >= 0:
            os.close(self._open[i])
            self._open[i] = -1
            self._descriptors.give()


def number(path: str, raw: bytes) -> int:
    """The one decimal number a counter file holds, 0 .. 2**64 - 2; HostError (errno 0) for anything else."""
    text = raw.strip()
    if not text:
        raise HostError(path, 0, "empty")
    if not text.isdigit():
        shown = text[:40].decode("ascii", "backslashreplace")
        raise HostError(path, 0, f"not a decimal number: {shown!r}")
    value = int(text) if len(text) <= 20 else _ALL_ONES + 1
    if value > _ALL_ONES:
        raise HostError(path, 0, "larger than 64 bits")
    if value == _ALL_ONES:
        raise HostError(path, 0, "all 64 bits are set: not a value")
    return value
