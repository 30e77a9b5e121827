"""gzip of a page that changes in parts: a part that is the same as in the page before is not compressed again.

The parts are blocks of one deflate stream (RFC 1951). After a full flush zlib refers to nothing before it, so the bytes
of a part depend on that part alone, and those of the page before can be used again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

SMALL = 1024
"""Bytes; smaller parts are compressed together with their neighbours."""

WINDOW, MEMORY = 13, 5
"""zlib's windowBits and memLevel: 40 KiB in place of 268, and parts of a few kilobytes are as small as with those."""

_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # RFC 1952: no name, no time, the fastest level
_LAST = b"\x03\0"  # an empty last block


class Packer:
    """Keeps the compressed parts of the newest page. Not for use from two threads."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, -WINDOW, MEMORY)
        self._kept: dict[bytes, bytes] = {}  # part -> its compressed bytes
        self._sums: list[tuple[bytes, int]] = []  # each part, and the CRC of the page to its end

    def __call__(self, parts: Sequence[bytes]) -> bytes:
        """The parts, one after another, as one gzip member."""
        joined = list(_joined(parts))
        self._kept = {part: self._kept.get(part) or self._compressed(part) for part in joined}
        tail = struct.pack("<II", self._sum(joined), sum(map(len, joined)) % 2**32)
        return b"".join([_HEAD, *[self._kept[part] for part in joined], _LAST, tail])

    def _compressed(self, part: bytes) -> bytes:
        return self._deflate.compress(part) + self._deflate.flush(zlib.Z_FULL_FLUSH)

    def _sum(self, parts: list[bytes]) -> int:
        """The CRC of all parts; parts before the first that changed are not read again."""
        sums, same, crc = [], True, 0
        for n, part in enumerate(parts):
            same = same and n < len(self._sums) and self._sums[n][0] is part
            crc = self._sums[n][1] if same else zlib.crc32(part, crc)
            sums.append((part, crc))
        self._sums = sums
        return crc


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts, neighbours below SMALL as one."""
    small: list[bytes] = []
    for part in parts:
        if len(part) < SMALL:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield part
    if small:
        yield b"".join(small)
