"""Netlink messages as bytes: headers and attributes. Sockets are in netlink_socket.py.

Format: linux/netlink.h. A message is a header of 16 bytes (length u32, type u16, flags u16, sequence u32, port u32)
and a payload; an attribute is length u16, type u16, payload, padded to 4 bytes. All in the machine's byte order.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

NLM_F_REQUEST, NLM_F_MULTI, NLM_F_DUMP = 0x1, 0x2, 0x300
NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN = 1, 2, 3, 4
HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NESTED, _TYPE_MASK = 0x8000, 0x3FFF  # NLA_F_NESTED; NLA_TYPE_MASK leaves out it and NLA_F_NET_BYTEORDER


class NetlinkError(ValueError):
    """Invalid bytes of a netlink message."""


class Message(NamedTuple):
    type: int
    flags: int
    sequence: int
    payload: bytes


def encode(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def messages(data: bytes) -> Iterator[Message]:
    """The messages of one datagram. NetlinkError where a length does not fit."""
    at = 0
    while at < len(data):
        if len(data) - at < HEADER.size:
            raise NetlinkError(f"{len(data) - at} bytes left, a header has {HEADER.size}")
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, at)
        if length < HEADER.size or at + length > len(data):
            raise NetlinkError(f"message of {length} bytes in {len(data) - at}")
        yield Message(kind, flags, sequence, data[at + HEADER.size : at + length])
        at += (length + 3) & ~3


def attribute(kind: int, payload: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    return attribute(kind | _NESTED, b"".join(parts))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type without its flag bits, payload) of each attribute. NetlinkError where a length does not fit."""
    at, end = 0, len(data)
    unpack = _ATTRIBUTE.unpack_from
    while at < end:
        if end - at < 4:
            raise NetlinkError(f"{end - at} bytes left, an attribute has at least 4")
        length, kind = unpack(data, at)
        if length < 4 or at + length > end:
            raise NetlinkError(f"attribute {kind & _TYPE_MASK} of {length} bytes in {end - at}")
        yield kind & _TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


def error_of(message: Message) -> int:
    """errno of a NLMSG_ERROR or NLMSG_DONE; 0 for none."""
    if len(message.payload) < 4:
        return 0
    (code,) = struct.unpack_from("=i", message.payload)
    return -code if code < 0 else 0


def number(payload: bytes) -> int:
    """An unsigned integer of 1, 2, 4 or 8 bytes."""
    if len(payload) not in (1, 2, 4, 8):
        raise NetlinkError(f"integer of {len(payload)} bytes")
    return int.from_bytes(payload, sys.byteorder)


def text(payload: bytes) -> str:
    """A zero-terminated string."""
    return payload.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
