"""The memory of a pluggable module: pieces to read and their decoding. Pure.

Three maps: CMIS (QSFP-DD, OSFP), SFF-8636 (QSFP28, QSFP56) and SFF-8472 (SFP). Offsets: docs/methods.md#module-memory
for CMIS, the public specifications SFF-8636 and SFF-8472 for the others. Units: degrees Celsius, volts, amperes, watts.
Only monitors and limits are read. Reading the alarm flags would clear them for every other program.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from fabricmon.catalogue.phy import LIMITS

Values = dict[str, float]


class Piece(NamedTuple):
    """Bytes of one half of a page. `address` is 0x51 for the diagnostics of an SFP."""

    page: int
    offset: int
    length: int
    address: int = 0x50


Memory = Mapping[Piece, bytes]

IDENTIFIER = Piece(0, 0, 3)


class Map(Enum):
    """Layout of the memory."""

    CMIS = "cmis"
    QSFP = "sff-8636"
    SFP = "sff-8472"


_TYPES = {
    0x03: ("SFP", Map.SFP), 0x0C: ("QSFP", Map.QSFP), 0x0D: ("QSFP+", Map.QSFP), 0x11: ("QSFP28", Map.QSFP),
    0x18: ("QSFP-DD", Map.CMIS), 0x19: ("OSFP", Map.CMIS), 0x1B: ("DSFP", Map.CMIS), 0x1E: ("QSFP-CMIS", Map.CMIS),
    0x1F: ("SFP-DD", Map.CMIS), 0x20: ("SFP-CMIS", Map.CMIS),
}  # fmt: skip
"""Identifier in byte 0 (SFF-8024)."""


class Module(NamedTuple):
    """A module.

    kind      form factor
    map       None for an unknown layout
    flat      one page only: passive copper, without monitors
    monitors  of temperature, voltage, tx_bias, tx_power, rx_power
    lanes     numbers of the optical lanes, from 0
    bias      factor of the raw bias
    """

    kind: str
    map: Map | None
    flat: bool = False
    vendor: str = ""
    part: str = ""
    serial: str = ""
    monitors: frozenset[str] = frozenset()
    lanes: tuple[int, ...] = ()
    bias: float = 1.0


_SCALE = {"temperature": 1 / 256, "voltage": 1e-4, "tx_bias": 2e-6, "tx_power": 1e-7, "rx_power": 1e-7}
_UPPER = Piece(0, 128, 128)
_CMIS_ADVERTISED = Piece(1, 159, 2)
_CMIS_STATE = Piece(0, 3, 1)
_SFP_BASE = Piece(0, 20, 73)
_GENERAL, _LIGHT = frozenset({"temperature", "voltage"}), frozenset({"tx_bias", "tx_power", "rx_power"})
_ALL = _GENERAL | _LIGHT


class _Layout(NamedTuple):
    """Places of monitors and limits in a map.

    general  piece, offsets of temperature and voltage in it, 2 bytes each
    lanes    piece, bytes of all lanes of one monitor, offset of each monitor
    limits   piece, offset of the four limits of each monitor
    """

    general: tuple[Piece, int, int]
    lanes: tuple[Piece, int, dict[str, int]]
    limits: tuple[Piece, dict[str, int]]


_LAYOUTS = {
    Map.CMIS: _Layout(
        (Piece(0, 14, 4), 0, 2),
        (Piece(0x11, 154, 48), 16, {"tx_power": 0, "tx_bias": 16, "rx_power": 32}),
        (Piece(2, 128, 72), {"temperature": 0, "voltage": 8, "tx_power": 48, "tx_bias": 56, "rx_power": 64}),
    ),
    Map.QSFP: _Layout(
        (Piece(0, 22, 36), 0, 4),
        (Piece(0, 22, 36), 8, {"rx_power": 12, "tx_bias": 20, "tx_power": 28}),
        (Piece(3, 128, 72), {"temperature": 0, "voltage": 16, "rx_power": 48, "tx_bias": 56, "tx_power": 64}),
    ),
    Map.SFP: _Layout(
        (Piece(0, 96, 10, 0x51), 0, 2),
        (Piece(0, 96, 10, 0x51), 2, {"tx_bias": 4, "tx_power": 6, "rx_power": 8}),
        (Piece(0, 0, 40, 0x51), {"temperature": 0, "voltage": 8, "tx_bias": 16, "tx_power": 24, "rx_power": 32}),
    ),
}


def first_pieces(identifier: bytes) -> tuple[Piece, ...]:
    """The pieces that describe the module, by the bytes of IDENTIFIER."""
    _, layout = _type(identifier)
    if layout is Map.CMIS:
        return (_UPPER,) if _flat(layout, identifier) else (_UPPER, _CMIS_ADVERTISED)
    return (_UPPER,) if layout is Map.QSFP else (_SFP_BASE,) if layout is Map.SFP else ()


def module_of(memory: Memory) -> Module:
    """The module, from IDENTIFIER and its `first_pieces`. ValueError where a piece is too short."""
    identifier = _piece(memory, IDENTIFIER)
    kind, layout = _type(identifier)
    if layout is None:
        return Module(kind, None)
    flat = _flat(layout, identifier)
    if layout is Map.SFP:
        base = _piece(memory, _SFP_BASE)
        vendor, part, serial = base[0:16], base[20:36], base[48:64]
        # byte 92: bit 6 has diagnostics, bit 5 internally calibrated; others need its constants
        monitors = _ALL if base[72] & 0x60 == 0x60 else frozenset()
        return Module(kind, layout, not monitors, _text(vendor), _text(part), _text(serial), monitors, (0,))
    upper = _piece(memory, _UPPER)
    if layout is Map.QSFP:
        names = (_text(upper[20:36]), _text(upper[40:56]), _text(upper[68:84]))
        # byte 147, upper half: 10 and above is copper, without optical power
        optical = upper[19] >> 4 < 10
        monitors = frozenset() if flat else _ALL if optical else frozenset({"temperature", "voltage"})
        return Module(kind, layout, flat, *names, monitors, (0, 1, 2, 3) if optical else ())
    names = (_text(upper[1:17]), _text(upper[20:36]), _text(upper[38:54]))
    if flat:
        return Module(kind, layout, True, *names)
    general, lanes = _piece(memory, _CMIS_ADVERTISED)
    offered = (("temperature", general & 1), ("voltage", general & 2),
               ("tx_bias", lanes & 1), ("tx_power", lanes & 2), ("rx_power", lanes & 4))  # fmt: skip
    unused = upper[82]  # byte 210: a bit for each lane that the module does not have
    return Module(
        kind, layout, False, *names,
        frozenset(name for name, has in offered if has),
        tuple(n for n in range(8) if not unused >> n & 1),
        float(1 << min(2, lanes >> 3 & 3)),
    )  # fmt: skip


def monitor_pieces(module: Module) -> tuple[Piece, ...]:
    """The pieces to read at each run."""
    if module.map is None:
        return ()
    layout = _LAYOUTS[module.map]
    state = (_CMIS_STATE,) if module.map is Map.CMIS else ()
    general = (layout.general[0],) if module.monitors & _GENERAL else ()
    lanes = (layout.lanes[0],) if module.monitors & _LIGHT else ()
    return tuple(dict.fromkeys((*state, *general, *lanes)))


def limit_pieces(module: Module) -> tuple[Piece, ...]:
    """The pieces to read once."""
    return (_LAYOUTS[module.map].limits[0],) if module.map is not None and module.monitors else ()


def monitors(module: Module, memory: Memory) -> Values:
    """Column -> value of `monitor_pieces`. ValueError where a piece is too short."""
    if module.map is None:
        return {}
    found: Values = {}
    (general, *offsets), (lanes, size, places), _ = _LAYOUTS[module.map]
    if module.map is Map.CMIS:
        found["module_state"] = float(_piece(memory, _CMIS_STATE)[0] >> 1 & 7)
    if module.monitors & _GENERAL:
        raw = _piece(memory, general)
        for name, at, form in zip(("temperature", "voltage"), offsets, (">h", ">H"), strict=True):
            if name in module.monitors:
                found[f"module_{name}"] = struct.unpack_from(form, raw, at)[0] * _SCALE[name]
    if module.monitors & _LIGHT:
        raw = _piece(memory, lanes)
        for name, at in places.items():
            found |= _per_lane(module, name, raw[at : at + size])
    return found


def limits(module: Module, memory: Memory) -> Values:
    """Column -> value of `limit_pieces`: the module's limits of its monitors."""
    if module.map is None or not module.monitors:
        return {}
    piece, places = _LAYOUTS[module.map].limits
    raw = _piece(memory, piece)
    found: Values = {}
    for name, at in places.items():
        if name in module.monitors:
            raws = struct.unpack_from(">4h" if name == "temperature" else ">4H", raw, at)
            if any(raws):  # all zero: none
                for limit, value in zip(LIMITS, raws, strict=True):
                    found[f"module_{name}_limit_{limit}"] = value * _scale(module, name)
    return found


def _per_lane(module: Module, name: str, raw: bytes) -> Values:
    if name not in module.monitors:
        return {}
    values = struct.unpack(f">{len(raw) // 2}H", raw)
    return {f"module_{name}_lane{n}": values[n] * _scale(module, name) for n in module.lanes}


def _scale(module: Module, name: str) -> float:
    return _SCALE[name] * (module.bias if name == "tx_bias" else 1.0)


def _type(identifier: bytes) -> tuple[str, Map | None]:
    if len(identifier) < IDENTIFIER.length:
        raise ValueError("no identifier")
    return _TYPES.get(identifier[0], (f"type {identifier[0]:#04x}", None))


def _flat(layout: Map, identifier: bytes) -> bool:
    """One page only. Byte 2: bit 7 in CMIS, bit 2 in SFF-8636."""
    return layout is not Map.SFP and bool(identifier[2] & (0x80 if layout is Map.CMIS else 0x04))


def _piece(memory: Memory, piece: Piece) -> bytes:
    found = memory.get(piece, b"")
    if len(found) < piece.length:
        raise ValueError(f"page {piece.page:#04x} offset {piece.offset}: {len(found)} bytes of {piece.length}")
    return found


def _text(raw: bytes) -> str:
    """Text padded with spaces; unprintable bytes are left out."""
    return "".join(chr(byte) for byte in raw if 32 <= byte < 127).strip()


def watts(dbm: float) -> float:
    """Optical power in watts: 0 dBm is a milliwatt."""
    return math.pow(10.0, dbm / 10.0) * 1e-3
