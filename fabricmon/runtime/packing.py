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

_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"  # RFC 1952: no name, no time, the fastest level
_LAST = b"\x03\0"  # an empty last block


class Packer:
    """Keeps the compressed parts of the newest page. Not for use from two threads."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._kept: dict[bytes, bytes] = {}

    def __call__(self, parts: Sequence[bytes]) -> bytes:
        """The parts, one after another, as one gzip member."""
        kept, used, crc, size = self._kept, dict[bytes, bytes](), 0, 0
        pieces = [_HEAD]
        for part in _joined(parts):
            packed = kept.get(part)
            if packed is None:
                packed = self._deflate.compress(part) + self._deflate.flush(zlib.Z_FULL_FLUSH)
            used[part] = packed
            pieces.append(packed)
            crc, size = zlib.crc32(part, crc), size + len(part)
        self._kept = used
        pieces += (_LAST, struct.pack("<II", crc, size % 2**32))
        return b"".join(pieces)


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
