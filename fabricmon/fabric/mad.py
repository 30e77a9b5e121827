"""Management datagrams: 256 bytes that read the identity and the counters of a switch or an adapter. Pure.

Subnet management packets (SMP) go along a directed route, hop by hop, and need no subnet manager, or to a LID.
Performance management packets (GMP) go to a LID, queue pair 1. Only Get is ever made here: nothing is set or reset.

Layouts: InfiniBand Architecture Specification volume 1, chapters 13 (headers), 14 (NodeInfo ...), 16
(performance management); fields beyond it (capability mask 2, extended speeds 2) as rdma-core's libibmad reads them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

SIZE = 256  # bytes of every datagram
DATA = 64  # where the attribute begins, in SMPs and in performance GMPs
SMP_BYTES = 64  # of an SMP's attribute
GMP_BYTES = 192  # of a performance GMP's attribute
MAX_HOPS = 63  # of a directed route
STATUS_AT, TID_AT = 4, 12  # of the 16-bit status and of the transaction id's low half in a datagram

CLASS_SMP_LID, CLASS_PERF, CLASS_SMP_DIRECTED = 0x01, 0x04, 0x81
GET = 0x01
PERMISSIVE = 0xFFFF  # the LID of any node at the end of the wire

STATUS_WORDS = {
    0x1: "busy", 0x2: "redirected", 0x4: "bad version", 0x8: "method not supported",
    0xC: "method or attribute not supported", 0x1C: "invalid field",
}  # fmt: skip
"""Low bits of a response's status (IBA volume 1, chapter 13)."""

_HEADER = struct.Struct(">BBBBHHQHHI")


class MadError(ValueError):
    """Bytes that are no datagram, or a value that does not fit its field."""


class Field(NamedTuple):
    """`bits` bits from bit `offset` of the attribute, the most significant bit of byte 0 being bit 0."""

    name: str
    offset: int
    bits: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its number, how many bytes of it there are, and the fields that fabricmon uses."""

    name: str
    id: int
    size: int
    fields: tuple[Field, ...]


def _fields(*rows: tuple[str, int, int]) -> tuple[Field, ...]:
    return tuple(Field(*row) for row in rows)


NODE_DESCRIPTION = Attribute("NodeDescription", 0x10, SMP_BYTES, ())

NODE_INFO = Attribute("NodeInfo", 0x11, SMP_BYTES, _fields(
    ("node_type", 16, 8), ("ports", 24, 8), ("system_guid", 32, 64), ("node_guid", 96, 64), ("port_guid", 160, 64),
    ("device", 240, 16), ("revision", 256, 32), ("local_port", 288, 8), ("vendor", 296, 24),
))  # fmt: skip

SWITCH_INFO = Attribute("SwitchInfo", 0x12, SMP_BYTES, _fields(
    ("linear_top", 48, 16), ("life_time", 88, 5), ("state_change", 93, 1), ("enhanced_port0", 132, 1),
))  # fmt: skip

PORT_INFO = Attribute("PortInfo", 0x15, SMP_BYTES, _fields(
    ("lid", 128, 16), ("sm_lid", 144, 16), ("capabilities", 160, 32), ("local_port", 224, 8),
    ("width_enabled", 232, 8), ("width_supported", 240, 8), ("width_active", 248, 8), ("state", 260, 4),
    ("speed_supported", 256, 4), ("phys_state", 264, 4), ("lmc", 277, 3), ("speed_active", 280, 4),
    ("speed_ext2_active", 449, 2), ("speed_ext_active", 496, 4), ("speed_ext_supported", 500, 4),
))  # fmt: skip

CLASS_PORT_INFO = Attribute("ClassPortInfo", 0x01, GMP_BYTES, _fields(
    ("base_version", 0, 8), ("class_version", 8, 8), ("capabilities", 16, 16), ("capabilities2", 32, 27),
    ("response_time", 59, 5),
))  # fmt: skip

_SELECT = (("port_select", 8, 8), ("counter_select", 16, 16))

PORT_COUNTERS = Attribute("PortCounters", 0x12, GMP_BYTES, _fields(
    *_SELECT, ("symbol_error", 32, 16), ("link_error_recovery", 48, 8), ("link_downed", 56, 8),
    ("port_rcv_errors", 64, 16), ("port_rcv_remote_physical_errors", 80, 16), ("port_rcv_switch_relay_errors", 96, 16),
    ("port_xmit_discards", 112, 16), ("port_xmit_constraint_errors", 128, 8), ("port_rcv_constraint_errors", 136, 8),
    ("local_link_integrity_errors", 152, 4), ("excessive_buffer_overrun_errors", 156, 4), ("qp1_dropped", 160, 16),
    ("VL15_dropped", 176, 16), ("port_xmit_data", 192, 32), ("port_rcv_data", 224, 32), ("port_xmit_packets", 256, 32),
    ("port_rcv_packets", 288, 32), ("port_xmit_wait", 320, 32),
))  # fmt: skip

_EXTENDED = (
    *_SELECT, ("port_xmit_data", 64, 64), ("port_rcv_data", 128, 64), ("port_xmit_packets", 192, 64),
    ("port_rcv_packets", 256, 64), ("unicast_xmit_packets", 320, 64), ("unicast_rcv_packets", 384, 64),
    ("multicast_xmit_packets", 448, 64), ("multicast_rcv_packets", 512, 64),
)  # fmt: skip

PORT_COUNTERS_EXTENDED = Attribute("PortCountersExtended", 0x1D, GMP_BYTES, _fields(*_EXTENDED))

# the same attribute of a node with CAP2_ERRORS_EXTENDED; without it the further fields are undefined
PORT_COUNTERS_EXTENDED_ERRORS = Attribute("PortCountersExtended", 0x1D, GMP_BYTES, _fields(
    *_EXTENDED, ("symbol_error", 576, 64), ("link_error_recovery", 640, 64), ("link_downed", 704, 64),
    ("port_rcv_errors", 768, 64), ("port_rcv_remote_physical_errors", 832, 64),
    ("port_rcv_switch_relay_errors", 896, 64), ("port_xmit_discards", 960, 64),
    ("port_xmit_constraint_errors", 1024, 64), ("port_rcv_constraint_errors", 1088, 64),
    ("local_link_integrity_errors", 1152, 64), ("excessive_buffer_overrun_errors", 1216, 64),
    ("VL15_dropped", 1280, 64), ("port_xmit_wait", 1344, 64), ("qp1_dropped", 1408, 64),
))  # fmt: skip

RCV_ERROR_DETAILS = Attribute("PortRcvErrorDetails", 0x15, GMP_BYTES, _fields(
    *_SELECT, ("local_physical_errors", 32, 16), ("malformed_packet_errors", 48, 16),
    ("buffer_overrun_errors", 64, 16), ("dlid_mapping_errors", 80, 16), ("vl_mapping_errors", 96, 16),
    ("looping_errors", 112, 16),
))  # fmt: skip

XMIT_DISCARD_DETAILS = Attribute("PortXmitDiscardDetails", 0x16, GMP_BYTES, _fields(
    *_SELECT, ("inactive_discards", 32, 16), ("neighbor_mtu_discards", 48, 16), ("sw_lifetime_limit_discards", 64, 16),
    ("sw_hoq_lifetime_limit_discards", 80, 16),
))  # fmt: skip

# Bits of ClassPortInfo's masks of the performance class (IBA volume 1, chapter 16; rdma-core iba_types.h).
CAP_EXTENDED_WIDTH = 1 << 9  # PortCountersExtended with unicast and multicast packets
CAP_EXTENDED_NO_IETF = 1 << 10  # ... without them
CAP_XMIT_WAIT = 1 << 12
CAP_QP1_DROPPED = 1 << 15
CAP2_ERRORS_EXTENDED = 1 << 1  # PortCountersExtended has 64-bit error counters too

ADAPTER, SWITCH, ROUTER = 1, 2, 3  # NodeInfo's node_type

_WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEEDS = {1: 2.5, 2: 5.0, 4: 10.0}
_SPEEDS_EXT = {1: 14.0, 2: 25.0, 4: 50.0, 8: 100.0}
_SPEEDS_EXT2 = {1: 200.0}
"""Gb/s of a lane, as sysfs prints them (docs/methods.md#port-attributes)."""
SPEED_WORDS = {2.5: "SDR", 5.0: "DDR", 10.0: "QDR", 14.0: "FDR", 25.0: "EDR", 50.0: "HDR", 100.0: "NDR", 200.0: "XDR"}


def width_of(code: int) -> int:
    """Lanes of a LinkWidthActive; 0 where the code is none."""
    return _WIDTHS.get(code, 0)


def lane_speed(speed: int, extended: int, extended2: int = 0) -> float:
    """Gb/s of one lane, by the newest field that is set; 0 where none is."""
    return _SPEEDS_EXT2.get(extended2) or _SPEEDS_EXT.get(extended) or _SPEEDS.get(speed, 0.0)


def fastest(widths: int, speeds: int, extended: int) -> float:
    """Gb/s of the widest and fastest link that a port supports, by the bits of LinkWidthSupported, LinkSpeedSupported
    and LinkSpeedExtSupported; 0 where one of them is empty."""
    lanes = max((n for bit, n in _WIDTHS.items() if widths & bit), default=0)
    known = [_SPEEDS_EXT[bit] for bit in _SPEEDS_EXT if extended & bit] or [_SPEEDS[b] for b in _SPEEDS if speeds & b]
    return lanes * max(known, default=0.0)


# --- requests


def directed(path: bytes, attribute: Attribute, modifier: int = 0) -> bytes:
    """A Get along a directed route. `path`: a zero, then the port to leave by at each hop; b"\\0" is this port."""
    if not path or path[0] or len(path) > MAX_HOPS + 1:
        raise MadError(f"a route is a zero and at most {MAX_HOPS} hops, got {path!r}")
    head = _HEADER.pack(1, CLASS_SMP_DIRECTED, 1, GET, 0, len(path) - 1, 0, attribute.id, 0, modifier)
    lids = struct.pack(">HH", PERMISSIVE, PERMISSIVE)  # both parts of the way are directed
    return (head + bytes(8) + lids).ljust(128, b"\0") + path.ljust(128, b"\0")


def by_lid(attribute: Attribute, modifier: int = 0) -> bytes:
    """A subnet management Get to a LID."""
    return _HEADER.pack(1, CLASS_SMP_LID, 1, GET, 0, 0, 0, attribute.id, 0, modifier).ljust(SIZE, b"\0")


def performance(attribute: Attribute, port: int) -> bytes:
    """A performance Get of one port. The counter select is for Set alone and stays 0: nothing is reset."""
    if not 0 <= port <= 255:
        raise MadError(f"a port is 0 to 255, got {port}")
    head = _HEADER.pack(1, CLASS_PERF, 1, GET, 0, 0, 0, attribute.id, 0, 0)
    return (head.ljust(DATA, b"\0") + bytes((0, port))).ljust(SIZE, b"\0")


# --- answers


class MadAnswer(NamedTuple):
    """The header of a response."""

    kind: int  # management class
    method: int
    status: int
    tid: int  # the low 32 bits: the kernel uses the high ones
    attribute: int
    modifier: int


def answer(datagram: bytes | bytearray | memoryview) -> MadAnswer:
    """MadError where there is no header."""
    if len(datagram) < _HEADER.size:
        raise MadError(f"a datagram has {SIZE} bytes, got {len(datagram)}")
    _, kind, _, method, status, _, tid, attribute, _, modifier = _HEADER.unpack_from(datagram)
    # the top bit of a directed SMP's status is its direction
    status &= 0x7FFF if kind == CLASS_SMP_DIRECTED else 0xFFFF
    return MadAnswer(kind, method, status, tid & 0xFFFFFFFF, attribute, modifier)


def status_text(status: int) -> str:
    """Text of a status: "method or attribute not supported (0xc)"."""
    word = STATUS_WORDS.get(status & 0x1F) or ("busy" if status & 1 else "")
    return f"{word} ({status:#x})" if word else f"status {status:#x}"


def decode(attribute: Attribute, datagram: bytes | bytearray | memoryview) -> dict[str, int]:
    """The fields of an attribute. MadError where the datagram is too short for them."""
    data = bytes(datagram[DATA : DATA + attribute.size])
    if len(data) < attribute.size:
        raise MadError(f"{attribute.name} needs {attribute.size} bytes behind the header, got {len(data)}")
    number, total = int.from_bytes(data, "big"), 8 * attribute.size
    return {f.name: (number >> (total - f.offset - f.bits)) & ((1 << f.bits) - 1) for f in attribute.fields}


def description(datagram: bytes | bytearray | memoryview) -> str:
    """The text of a NodeDescription; bytes that are no UTF-8 are replaced, control characters left out."""
    data = bytes(datagram[DATA : DATA + SMP_BYTES])
    if len(data) < SMP_BYTES:
        raise MadError(f"NodeDescription needs {SMP_BYTES} bytes behind the header, got {len(data)}")
    text = data.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(c for c in text if c.isprintable()).strip()
