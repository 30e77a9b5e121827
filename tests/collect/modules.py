"""Memories of modules, laid out as their maps are: CMIS, QSFP, SFP. Without pytest: the benchmark imports it."""

from __future__ import annotations

import errno
import struct

from fabricmon.collect.parse.module_memory import Piece
from fabricmon.host.protocol import HostError


class Memory:
    """A module's memory by address and page, 256 bytes each with the lower half shared; remembers what was read."""

    def __init__(
        self, lower: dict[int, bytes], pages: dict[int, dict[int, bytes]], second: dict[int, bytes] | None = None
    ) -> None:
        self.bytes = {(0x50, page): bytearray(256) for page in {0, *pages}}
        for page, memory in self.bytes.items():
            for at, raw in (lower | pages.get(page[1], {})).items():
                memory[at : at + len(raw)] = raw
        if second is not None:
            self.bytes[0x51, 0] = bytearray(256)
            for at, raw in second.items():
                self.bytes[0x51, 0][at : at + len(raw)] = raw
        self.read: list[Piece] = []

    def __call__(self, page: int, offset: int, length: int, address: int) -> bytes:
        assert (offset < 128) == (offset + length <= 128), "a piece within one half, as the kernel wants it"
        assert page == 0 or offset >= 128
        self.read.append(Piece(page, offset, length, address))
        if (address, page) not in self.bytes:
            raise HostError("MODULE_EEPROM_GET", errno.EINVAL, "Invalid argument")
        return bytes(self.bytes[address, page][offset : offset + length])


def u16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}H", *values)


def s16(*values: int) -> bytes:
    return struct.pack(f">{len(values)}h", *values)


def padded(text: str) -> bytes:
    return text.ljust(16).encode()


TEMPERATURE = s16(75 * 256, -5 * 256, 70 * 256, 0)


def cmis(monitors: int = 7, bias: int = 1, unused: int = 0xF0, flat: bool = False) -> Memory:
    lanes = range(8)
    return Memory(
        lower={0: bytes((0x19, 0x52, 0x80 if flat else 0)), 3: bytes((0b0111,)), 14: s16(54 * 256 + 128),
               16: u16(33000)},
        pages={
            0: {129: padded("MAKER"), 148: padded("OSFP-PART"), 166: padded("SN0001"), 210: bytes((unused,))},
            1: {159: bytes((3, monitors | bias << 3))},
            2: {128: TEMPERATURE, 136: u16(36300, 29700, 34650, 31350), 176: u16(31623, 1410, 25119, 2239),
                184: u16(7500, 1000, 6500, 2000), 192: u16(39811, 910, 31623, 1820)},
            0x11: {154: u16(*(10000 + n for n in lanes)), 170: u16(*(4000 + n for n in lanes)),
                   186: u16(*(9000 + n for n in lanes))},
        },
    )  # fmt: skip


def qsfp(technology: int = 0) -> Memory:
    return Memory(
        lower={0: b"\x11\x08\x00", 22: s16(-3 * 256 - 128), 26: u16(32912), 34: u16(1, 2, 3, 4), 42: u16(5, 6, 7, 8),
               50: u16(9, 10, 11, 12)},
        pages={0: {147: bytes((technology << 4,)), 148: padded("MAKER"), 168: padded("QSFP-PART"), 196: padded("SN2")},
               3: {128: TEMPERATURE, 144: u16(36300, 29700, 34650, 31350), 176: u16(4, 1, 3, 2), 184: u16(8, 5, 7, 6),
                   192: u16(12, 9, 11, 10)}},
    )  # fmt: skip


def sfp(diagnostics: int = 0x68) -> Memory:
    return Memory(
        lower={0: b"\x03\x04\x07", 20: padded("MAKER"), 40: padded("SFP-PART"), 68: padded("SN3"),
               92: bytes((diagnostics,))},
        pages={},
        second={0: TEMPERATURE + u16(36300, 29700, 34650, 31350, 8, 5, 7, 6, 12, 9, 11, 10, 4, 1, 3, 2),
                96: s16(40 * 256) + u16(33000, 1000, 5012, 3981)},
    )  # fmt: skip
