"""A page that is compressed in parts is one gzip member with the page's own text, whatever was packed before."""

from __future__ import annotations

import subprocess
import zlib

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.runtime.packing import SMALL, Packer

part = st.binary(max_size=40) | st.binary(max_size=40).map(lambda b: (b + b"\n") * SMALL)


def unpacked(packed: bytes) -> bytes:
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = reader.decompress(packed) + reader.flush()
    assert reader.eof  # the trailer's CRC and length are right
    assert not reader.unused_data  # one member: clients exist that stop after the first
    return text


@given(st.lists(st.lists(part, max_size=5), min_size=1, max_size=4))
def test_each_page_reads_back_as_it_was(pages: list[list[bytes]]) -> None:
    pack = Packer()
    for page in (*pages, pages[0]):
        assert unpacked(pack(page)) == b"".join(page)


def test_parts_are_the_same_bytes_wherever_they_stand() -> None:
    """So that the bytes of the page before may be used again."""
    one, two = (bytes([n]) * 5 + b"counter 17\n" * SMALL for n in (1, 2))
    pack = Packer()
    first, swapped = pack([one, two]), pack([two, one])
    assert len(first) == len(swapped)
    assert swapped == Packer()([two, one])


def test_gzip_reads_it() -> None:
    page = [b"# HELP a b\n", b'a{b="c"} 1\n' * SMALL, b"# EOF\n"]
    done = subprocess.run(["gzip", "-dc"], input=Packer()(page), capture_output=True, check=True)
    assert done.stdout == b"".join(page)
