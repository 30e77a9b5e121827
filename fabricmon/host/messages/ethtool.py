"""Messages of ethtool over generic netlink: FEC, link state, pause, IEEE statistics, the module's memory.

Numbers: linux/ethtool_netlink.h, linux/genetlink.h (docs/methods.md#kernel-interfaces). The answer leaves out
statistics that the driver does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from fabricmon.host.messages import netlink
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol.interfaces import Fec, LinkState, Pause

CONTROL, _GETFAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2  # genl_id_ctrl and its message
LINKSTATE_GET, PAUSE_GET, FEC_GET, MODULE_EEPROM_GET, STATS_GET = 6, 21, 29, 31, 32
_GENERIC = struct.Struct("=BBxx")  # command, version
_HEADER_NAME, _HEADER_FLAGS, WITH_STATISTICS = 2, 3, 4
_MAC, _PHY = 1, 0  # groups of STATS_GET

# (group, index) -> name in IEEE 802.3 clause 30
STANDARD = {
    (_PHY, 0): "SymbolErrorDuringCarrier",
    (_MAC, 0): "FramesTransmittedOK",
    (_MAC, 3): "FramesReceivedOK",
    (_MAC, 4): "FrameCheckSequenceErrors",
    (_MAC, 5): "AlignmentErrors",
    (_MAC, 6): "OctetsTransmittedOK",
    (_MAC, 12): "OctetsReceivedOK",
}


def header(kind: int, name: str, flags: int = 0) -> bytes:
    """The nest with the interface's name, as attribute `kind`."""
    parts = [netlink.attribute(_HEADER_NAME, name.encode() + b"\0")]
    if flags:
        parts.append(netlink.attribute(_HEADER_FLAGS, struct.pack("=I", flags)))
    return netlink.nested(kind, *parts)


def question(command: int, *attributes: bytes) -> bytes:
    return _GENERIC.pack(command, 1) + b"".join(attributes)


def _body(payload: bytes) -> Iterator[tuple[int, bytes]]:
    if len(payload) < _GENERIC.size:
        raise NetlinkError(f"generic netlink message of {len(payload)} bytes")
    return netlink.attributes(payload[_GENERIC.size :])


def decode_family(payload: bytes) -> int:
    """The number of a generic netlink family. NetlinkError without one."""
    found = dict(_body(payload))
    if _FAMILY_ID not in found:
        raise NetlinkError("a family without a number")
    return netlink.number(found[_FAMILY_ID])


def decode_fec(payload: bytes) -> Fec:
    found = dict(_body(payload))
    counts = dict(netlink.attributes(found.get(5, b"")))
    active = netlink.number(found[4]) if 4 in found else None
    return Fec(active, *(_array(counts.get(which, b"")) for which in (2, 3, 4)))


def _array(raw: bytes) -> tuple[int, ...]:
    """An array of u64; all 64 bits set: unset."""
    if len(raw) % 8:
        raise NetlinkError(f"an array of {len(raw)} bytes")
    return tuple(struct.unpack(f"={len(raw) // 8}Q", raw))


def decode_link_state(payload: bytes) -> LinkState:
    found = {kind: netlink.number(value) for kind, value in _body(payload) if kind in (2, 3, 5, 6, 7)}
    link = found.get(2)
    return LinkState(None if link is None else bool(link), found.get(3), found.get(5), found.get(6), found.get(7))


def decode_pause(payload: bytes) -> Pause:
    found = dict(_body(payload))
    settings = {kind: bool(netlink.number(found[kind])) for kind in (2, 3, 4) if kind in found}
    counts = dict(netlink.attributes(found.get(5, b"")))
    frames = {which: netlink.number(counts[which]) for which in (2, 3) if which in counts}
    return Pause(settings.get(2), settings.get(3), settings.get(4), frames.get(3), frames.get(2))


def decode_statistics(payload: bytes) -> dict[str, int]:
    """The statistics of a STATS_GET answer that are in STANDARD."""
    found: dict[str, int] = {}
    for kind, group in _body(payload):
        if kind != 4:
            continue
        parts = list(netlink.attributes(group))
        number = next((netlink.number(content) for part, content in parts if part == 2), -1)
        for index, value in (pair for part, content in parts if part == 4 for pair in netlink.attributes(content)):
            if (number, index) in STANDARD:
                found[STANDARD[(number, index)]] = netlink.number(value)
    return found


def decode_module(payload: bytes) -> bytes:
    found = dict(_body(payload))
    if 7 not in found:
        raise NetlinkError("module memory without data")
    return found[7]


def bitset(*bits: int) -> bytes:
    """The content of a bitset attribute with these bits."""
    wanted = (netlink.nested(1, netlink.attribute(1, struct.pack("=I", bit))) for bit in bits)
    return netlink.attribute(1, b"") + netlink.nested(3, *wanted)


FAMILY_QUESTION = question(_GETFAMILY, netlink.attribute(_FAMILY_NAME, b"ethtool\0"))
"""Question to CONTROL for the number of the family "ethtool"."""


def statistics_question(name: str) -> bytes:
    return question(STATS_GET, header(2, name), netlink.nested(3, bitset(_PHY, _MAC)))


def module_question(name: str, page: int, offset: int, length: int, address: int) -> bytes:
    return question(
        MODULE_EEPROM_GET,
        header(1, name),
        netlink.attribute(2, struct.pack("=I", offset)),
        netlink.attribute(3, struct.pack("=I", length)),
        netlink.attribute(4, bytes((page,))),
        netlink.attribute(5, b"\0"),
        netlink.attribute(6, bytes((address,))),
    )
