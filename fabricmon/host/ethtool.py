"""Ethtool over generic netlink: FEC, link state, pause, IEEE statistics, the module's memory.

Numbers: linux/ethtool_netlink.h, linux/genetlink.h, as netlink.md section 2 lists them. A statistic that a driver does
not have is left out of the answer.
"""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from fabricmon.host import netlink
from fabricmon.host.interfaces import Fec, LinkState, Pause
from fabricmon.host.netlink import NetlinkError
from fabricmon.host.netlink_socket import Asker
from fabricmon.host.protocol import HostError, Unsupported

NETLINK_GENERIC = 16
_CONTROL, _GETFAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2  # genl_id_ctrl and its message
LINKSTATE_GET, PAUSE_GET, FEC_GET, MODULE_EEPROM_GET, STATS_GET = 6, 21, 29, 31, 32
_GENERIC = struct.Struct("=BBxx")  # command, version
_HEADER_NAME, _HEADER_FLAGS, _WITH_STATISTICS = 2, 3, 4
_MAC, _PHY = 1, 0  # groups of STATS_GET
_LIMIT_SECONDS = 5.0  # for one answer; the kernel may wait for its rtnl lock while a driver resets

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

_T = TypeVar("_T")


def header(kind: int, name: str, flags: int = 0) -> bytes:
    """The nest that names the interface, as attribute `kind`."""
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
    """The number of a generic netlink family. NetlinkError where the answer has none."""
    for kind, value in _body(payload):
        if kind == _FAMILY_ID:
            return netlink.number(value)
    raise NetlinkError("a family without a number")


def decode_fec(payload: bytes) -> Fec:
    active: int | None = None
    counts: dict[int, tuple[int, ...]] = {2: (), 3: (), 4: ()}
    for kind, value in _body(payload):
        if kind == 4:
            active = netlink.number(value)
        elif kind == 5:
            for which, numbers in netlink.attributes(value):
                if which in counts:
                    counts[which] = _array(numbers)
    return Fec(active, counts[2], counts[3], counts[4])


def _array(raw: bytes) -> tuple[int, ...]:
    """u64 after u64; all 64 bits set stands for a value that is not set."""
    if len(raw) % 8:
        raise NetlinkError(f"an array of {len(raw)} bytes")
    return tuple(struct.unpack(f"={len(raw) // 8}Q", raw))


def decode_link_state(payload: bytes) -> LinkState:
    found = {kind: netlink.number(value) for kind, value in _body(payload) if kind in (2, 3, 5, 6, 7)}
    link = found.get(2)
    return LinkState(None if link is None else bool(link), found.get(3), found.get(5), found.get(6), found.get(7))


def decode_pause(payload: bytes) -> Pause:
    settings: dict[int, bool] = {}
    frames: dict[int, int] = {}
    for kind, value in _body(payload):
        if kind in (2, 3, 4):
            settings[kind] = bool(netlink.number(value))
        elif kind == 5:
            frames = {which: netlink.number(count) for which, count in netlink.attributes(value) if which in (2, 3)}
    return Pause(settings.get(2), settings.get(3), settings.get(4), frames.get(3), frames.get(2))


def decode_statistics(payload: bytes) -> dict[str, int]:
    """The groups of a STATS_GET answer, by the names of STANDARD; others are left out."""
    found: dict[str, int] = {}
    for kind, group in _body(payload):
        if kind != 4:
            continue
        number = -1
        values: list[tuple[int, int]] = []
        for part, content in netlink.attributes(group):
            if part == 2:
                number = netlink.number(content)
            elif part == 4:
                values += [(index, netlink.number(value)) for index, value in netlink.attributes(content)]
        for index, count in values:
            if (number, index) in STANDARD:
                found[STANDARD[(number, index)]] = count
    return found


def decode_module(payload: bytes) -> bytes:
    for kind, value in _body(payload):
        if kind == 7:
            return value
    raise NetlinkError("module memory without data")


def bitset(*bits: int) -> bytes:
    """The content of a bitset attribute that names these bits."""
    wanted = (netlink.nested(1, netlink.attribute(1, struct.pack("=I", bit))) for bit in bits)
    return netlink.attribute(1, b"") + netlink.nested(3, *wanted)


class EthtoolNetlink:
    """Asks the kernel. Each question is one interface's, so that a driver that answers late delays only its own."""

    def __init__(self, limit: float = _LIMIT_SECONDS) -> None:
        self._asker = Asker(NETLINK_GENERIC, "generic netlink", limit)
        self._family = 0
        self._lock = threading.Lock()
        self._plain = False  # this kernel refuses LINKSTATE_GET with statistics (before 6.12)

    def fec(self, name: str) -> Fec:
        return self._get("FEC_GET", FEC_GET, name, decode_fec)

    def pause(self, name: str) -> Pause:
        return self._get("PAUSE_GET", PAUSE_GET, name, decode_pause)

    def link_state(self, name: str) -> LinkState:
        if not self._plain:
            try:
                return self._get("LINKSTATE_GET", LINKSTATE_GET, name, decode_link_state)
            except HostError as error:
                if error.errno != errno.EINVAL:
                    raise
            self._plain = True
        return self._get("LINKSTATE_GET", LINKSTATE_GET, name, decode_link_state, flags=0)

    def statistics(self, name: str) -> dict[str, int]:
        groups = netlink.nested(3, bitset(_PHY, _MAC))
        where = f"ethtool STATS_GET {name}"
        return self._ask(where, question(STATS_GET, header(2, name), groups), decode_statistics)

    def module(self, name: str, page: int, offset: int, length: int, address: int) -> bytes:
        where = f"ethtool MODULE_EEPROM_GET {name} page {page:#04x} offset {offset}"
        place = (
            netlink.attribute(2, struct.pack("=I", offset)),
            netlink.attribute(3, struct.pack("=I", length)),
            netlink.attribute(4, bytes((page,))),
            netlink.attribute(5, b"\0"),
            netlink.attribute(6, bytes((address,))),
        )
        return self._ask(where, question(MODULE_EEPROM_GET, header(1, name), *place), decode_module)

    def _get(
        self, what: str, command: int, name: str, decode: Callable[[bytes], _T], flags: int = _WITH_STATISTICS
    ) -> _T:
        return self._ask(f"ethtool {what} {name}", question(command, header(1, name, flags)), decode)

    def _ask(self, where: str, payload: bytes, decode: Callable[[bytes], _T]) -> _T:
        (answer,) = self._asker.ask(where, self._number(where), payload)
        return _decoded(where, answer, decode)

    def _number(self, where: str) -> int:
        """The number this kernel gave the family "ethtool"."""
        with self._lock:
            if not self._family:
                asked = question(_GETFAMILY, netlink.attribute(_FAMILY_NAME, b"ethtool\0"))
                try:
                    (answer,) = self._asker.ask(where, _CONTROL, asked)
                except HostError as error:
                    if error.errno == errno.ENOENT:
                        raise Unsupported(where, errno.ENOENT, "this kernel has no ethtool netlink") from None
                    raise
                self._family = _decoded(where, answer, decode_family)
            return self._family


def _decoded(where: str, payload: bytes, decode: Callable[[bytes], _T]) -> _T:
    try:
        return decode(payload)
    except NetlinkError as error:
        raise HostError(where, errno.EBADMSG, str(error)) from None
