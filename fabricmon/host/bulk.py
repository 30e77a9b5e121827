"""Many numeric files read again and again, as cheaply as Python can: open descriptors, one pread a file.

A file of sysfs that stays open gives a fresh value to each pread at offset 0, and ENODEV for ever once its device
has gone, also after the device came back under the same name: then it has to be opened again (netlink.md section 4).
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Sequence

from fabricmon.host.protocol import HostError

_WIDEST = 64  # bytes of a file that are looked at: the longest number, 2**64 - 1, has 20 digits
_ALL_ONES = 2**64 - 1  # what a driver shows that cannot decode a field of its firmware (counters-ib.md 6.5)


class Descriptors:
    """How many descriptors the readers of one host may keep open; what is above is opened for each read."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        return True

    def give(self) -> None:
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
        pread = os.pread
        bad: list[tuple[int, HostError]] = []
        for i, descriptor in enumerate(self._open, base):
            try:
                raw = pread(descriptor, _WIDEST, 0)
                value = int(raw)
            except (OSError, ValueError):
                value = -1
            if 0 <= value < _ALL_ONES and b"_" not in raw:  # int() reads Python's 1_000
                out[i] = value
            else:
                try:
                    out[i] = self._again(i - base)
                except HostError as error:
                    out[i] = math.nan
                    bad.append((i - base, error))
        return bad

    def close(self) -> None:
        for i in range(len(self._open)):
            self._drop(i)

    def _again(self, i: int) -> int:
        """Read file i slowly, with a new descriptor where the old one is of no use, and say what is wrong."""
        try:
            raw = self._raw(i)
        except OSError as error:
            self._drop(i)
            raise HostError(self._paths[i], error.errno or 0, os.strerror(error.errno or 0)) from None
        return number(self._paths[i], raw)

    def _raw(self, i: int) -> bytes:
        if self._open[i] >= 0:
            try:
                return os.pread(self._open[i], _WIDEST + 1, 0)
            except OSError:
                self._drop(i)
        self._reopen(i)
        if self._open[i] >= 0:
            return os.pread(self._open[i], _WIDEST + 1, 0)
        descriptor = os.open(self._places[i], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.pread(descriptor, _WIDEST + 1, 0)
        finally:
            os.close(descriptor)

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
