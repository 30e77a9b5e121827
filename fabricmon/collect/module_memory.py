"""The memory of a pluggable module: which pieces of it to read, and what they say. Pure.

Three maps: CMIS (QSFP-DD, OSFP), SFF-8636 (QSFP28, QSFP56) and SFF-8472 (SFP). Offsets: counters-roce.md section 8 for
CMIS, the public specifications SFF-8636 and SFF-8472 for the others. Units come out as degrees Celsius, volts, amperes
and, for light, watts.

Only monitors and limits are read. The alarm flags beside them are cleared by being read: whoever reads them takes them
from everybody else.
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
    """How the memory is laid out."""

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
    """What a module is.

    kind      its form factor
    map       None where its memory's layout is not known
    flat      it has one page only: passive copper, without monitors
    monitors  names of the monitors it has: temperature, voltage, tx_bias, tx_power, rx_power
    lanes     numbers of its optical lanes, from 0
    bias      what the raw bias is multiplied with
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


_ALL = frozenset({"temperature", "voltage", "tx_bias", "tx_power", "rx_power"})
_SCALE = {"temperature": 1 / 256, "voltage": 1e-4, "tx_bias": 2e-6, "tx_power": 1e-7, "rx_power": 1e-7}
_UPPER = Piece(0, 128, 128)
_CMIS_ADVERTISED = Piece(1, 159, 2)
_CMIS_LIMITS, _CMIS_LANES = Piece(2, 128, 72), Piece(0x11, 154, 48)
_CMIS_MODULE, _CMIS_STATE = Piece(0, 14, 4), Piece(0, 3, 1)
_QSFP_MONITORS, _QSFP_LIMITS = Piece(0, 22, 36), Piece(3, 128, 72)
_SFP_BASE = Piece(0, 20, 73)
_SFP_LIMITS, _SFP_MONITORS = Piece(0, 0, 40, 0x51), Piece(0, 96, 10, 0x51)


def first_pieces(identifier: bytes) -> tuple[Piece, ...]:
    """What tells the rest about a module, from the bytes of IDENTIFIER."""
    _, layout = _type(identifier)
    if layout is Map.CMIS:
        return (_UPPER,) if _flat(layout, identifier) else (_UPPER, _CMIS_ADVERTISED)
    return (_UPPER,) if layout is Map.QSFP else (_SFP_BASE,) if layout is Map.SFP else ()


def module_of(memory: Memory) -> Module:
    """What a module is, from IDENTIFIER and its `first_pieces`. ValueError where a piece is too short."""
    identifier = _piece(memory, IDENTIFIER)
    kind, layout = _type(identifier)
    if layout is None:
        return Module(kind, None)
    flat = _flat(layout, identifier)
    if layout is Map.SFP:
        base = _piece(memory, _SFP_BASE)
        vendor, part, serial = base[0:16], base[20:36], base[48:64]
        # byte 92: bit 6 diagnostics are there, bit 5 they are calibrated by the module; others need its constants
        monitors = _ALL if base[72] & 0x60 == 0x60 else frozenset()
        return Module(kind, layout, not monitors, _text(vendor), _text(part), _text(serial), monitors, (0,))
    upper = _piece(memory, _UPPER)
    if layout is Map.QSFP:
        names = (_text(upper[20:36]), _text(upper[40:56]), _text(upper[68:84]))
        # byte 147, upper half: 10 and above is copper, without light to measure
        optical = upper[19] >> 4 < 10
        monitors = frozenset() if flat else _ALL if optical else frozenset({"temperature", "voltage"})
        return Module(kind, layout, flat, *names, monitors, (0, 1, 2, 3) if optical else ())
    names = (_text(upper[1:17]), _text(upper[20:36]), _text(upper[38:54]))
    if flat:
        return Module(kind, layout, True, *names)
    general, lanes = _piece(memory, _CMIS_ADVERTISED)
    told = (("temperature", general & 1), ("voltage", general & 2),
            ("tx_bias", lanes & 1), ("tx_power", lanes & 2), ("rx_power", lanes & 4))  # fmt: skip
    unused = upper[82]  # byte 210: a bit for each lane that the module has not
    return Module(
        kind, layout, False, *names,
        frozenset(name for name, there in told if there),
        tuple(n for n in range(8) if not unused >> n & 1),
        float(1 << min(2, lanes >> 3 & 3)),
    )  # fmt: skip


def monitor_pieces(module: Module) -> tuple[Piece, ...]:
    """What to read again and again."""
    if module.map is Map.CMIS:
        lanes = (_CMIS_LANES,) if module.monitors & {"tx_bias", "tx_power", "rx_power"} else ()
        return (_CMIS_STATE, *((_CMIS_MODULE,) if module.monitors & {"temperature", "voltage"} else ()), *lanes)
    if not module.monitors:
        return ()
    return (_QSFP_MONITORS,) if module.map is Map.QSFP else (_SFP_MONITORS,)


def limit_pieces(module: Module) -> tuple[Piece, ...]:
    """What to read once."""
    if not module.monitors:
        return ()
    if module.map is Map.CMIS:
        return (_CMIS_LIMITS,)
    return (_QSFP_LIMITS,) if module.map is Map.QSFP else (_SFP_LIMITS,)


def monitors(module: Module, memory: Memory) -> Values:
    """Column -> value of `monitor_pieces`. ValueError where a piece is too short."""
    found: Values = {}
    if module.map is Map.CMIS:
        found["module_state"] = float(_piece(memory, _CMIS_STATE)[0] >> 1 & 7)
        if _CMIS_MODULE in monitor_pieces(module):
            found |= _general(module, _piece(memory, _CMIS_MODULE))
        if _CMIS_LANES in monitor_pieces(module):
            raw = _piece(memory, _CMIS_LANES)
            for at, name in ((0, "tx_power"), (16, "tx_bias"), (32, "rx_power")):
                found |= _per_lane(module, name, raw[at : at + 16])
    elif module.monitors and module.map is Map.QSFP:
        raw = _piece(memory, _QSFP_MONITORS)
        found |= _general(module, raw[0:2] + raw[4:6])
        for at, name in ((12, "rx_power"), (20, "tx_bias"), (28, "tx_power")):
            found |= _per_lane(module, name, raw[at : at + 8])
    elif module.monitors:
        raw = _piece(memory, _SFP_MONITORS)
        found |= _general(module, raw[0:4])
        for at, name in ((4, "tx_bias"), (6, "tx_power"), (8, "rx_power")):
            found |= _per_lane(module, name, raw[at : at + 2])
    return found


def limits(module: Module, memory: Memory) -> Values:
    """Column -> value of `limit_pieces`: the module's own limits of what it measures."""
    if not module.monitors:
        return {}
    if module.map is Map.SFP:
        raw, order = _piece(memory, _SFP_LIMITS), ("temperature", "voltage", "tx_bias", "tx_power", "rx_power")
        places = {name: 8 * n for n, name in enumerate(order)}
    elif module.map is Map.QSFP:
        raw = _piece(memory, _QSFP_LIMITS)
        places = {"temperature": 0, "voltage": 16, "rx_power": 48, "tx_bias": 56, "tx_power": 64}
    else:
        raw = _piece(memory, _CMIS_LIMITS)
        places = {"temperature": 0, "voltage": 8, "tx_power": 48, "tx_bias": 56, "rx_power": 64}
    found: Values = {}
    for name, at in places.items():
        if name in module.monitors:
            raws = struct.unpack(">4h" if name == "temperature" else ">4H", raw[at : at + 8])
            if any(raws):  # all zero: the module says none
                for limit, value in zip(LIMITS, raws, strict=True):
                    found[f"module_{name}_limit_{limit}"] = value * _scale(module, name)
    return found


def _general(module: Module, raw: bytes) -> Values:
    """Temperature and voltage, 4 bytes."""
    temperature, voltage = struct.unpack(">hH", raw)
    found = {"temperature": temperature * _SCALE["temperature"], "voltage": voltage * _SCALE["voltage"]}
    return {f"module_{name}": value for name, value in found.items() if name in module.monitors}


def _per_lane(module: Module, name: str, raw: bytes) -> Values:
    if name not in module.monitors:
        return {}
    values = struct.unpack(f">{len(raw) // 2}H", raw)
    return {f"module_{name}_lane{n}": values[n] * _scale(module, name) for n in module.lanes}


def _scale(module: Module, name: str) -> float:
    return _SCALE[name] * (module.bias if name == "tx_bias" else 1.0)


def _type(identifier: bytes) -> tuple[str, Map | None]:
    if not identifier:
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
    """Text padded with spaces; whatever is not printable is left out."""
    return "".join(chr(byte) for byte in raw if 32 <= byte < 127).strip()


def watts(dbm: float) -> float:
    """Light in watts: 0 dBm is a milliwatt."""
    return math.pow(10.0, dbm / 10.0) * 1e-3
