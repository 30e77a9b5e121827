"""Many numeric files that are read repeatedly, at low cost: open descriptors, one pread a file.

An open file of sysfs gives a fresh value to each pread at offset 0. Once its device has gone it gives ENODEV for ever,
even if the device comes back under the same name, and has to be opened again (docs/methods.md#kernel-interfaces).
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

_WIDEST = 64  # bytes read of a file: the longest number, 2**64 - 1, has 20 digits
_STALE = frozenset({errno.EBADF, errno.ENODEV})  # never opened, or opened before its device went
_NEAR_TOP = 2.0**64 - 2048  # the largest float64 below 2**64; above it only the digits are exact
_SIGNS = frozenset(b"_+-")
_ALL_ONES = 2**64 - 1  # a field that the driver could not decode (docs/methods.md#rdma-transport-counters)


class Descriptors:
    """The descriptors that the readers of one host may keep open; files above the limit are opened for each read.
    Shared by threads."""

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

    paths   on the machine, for errors
    places  in this process's file system, in the same order
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
                continue  # each read tries again and reports the error

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        # Each file is read once: a read may be a firmware command. Parsing all at once takes half the time of parsing
        # one by one, which is done only to find an error.
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
        # int() also accepts "-1", "+1" and "1_000"
        if values and (min(values) < 0 or max(values) >= _NEAR_TOP or not _SIGNS.isdisjoint(b"".join(raws))):
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
        """File i, opened again where its descriptor is stale. Any other failure is the device's answer, which may have
        taken seconds, and is not repeated."""
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
            raise HostError.from_os(self._paths[i], failed) from None

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
    """The decimal number in a counter file, 0 .. 2**64 - 2; HostError (errno 0) for anything else."""
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
