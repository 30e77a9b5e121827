"""RDMA netlink: which RDMA devices there are, the state of a port, all hw_counters of a port in one question.

Numbers from rdma/rdma_netlink.h, as netlink.md section 2 lists them.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import TypeVar

from fabricmon.host import netlink
from fabricmon.host.netlink import NetlinkError
from fabricmon.host.netlink_socket import Asker
from fabricmon.host.protocol import HostError, RdmaDevice, RdmaPort

NETLINK_RDMA = 20
GET, PORT_GET, STAT_GET = 1, 5, 17
_CLIENT = 5 << 10  # RDMA_NL_NLDEV

DEV_INDEX, DEV_NAME, PORT_INDEX, FW_VERSION, NODE_GUID = 1, 2, 3, 5, 6
LID, SM_LID, PORT_STATE, PORT_PHYS_STATE = 9, 10, 12, 13
NDEV_NAME, DEV_PROTOCOL = 51, 67
HWCOUNTERS, ENTRY, NAME, VALUE = 80, 81, 82, 83

_T = TypeVar("_T")

_LIMIT_SECONDS = 2.0  # for one answer; a port query is a few firmware commands, milliseconds each


def request(command: int, device: int | None = None, port: int | None = None) -> bytes:
    """The attributes of a question."""
    out = b""
    if device is not None:
        out += netlink.attribute(DEV_INDEX, struct.pack("=I", device))
    if port is not None:
        out += netlink.attribute(PORT_INDEX, struct.pack("=I", port))
    return out


def decode_device(payload: bytes) -> RdmaDevice:
    """One entry of a GET dump. NetlinkError for bytes that are none."""
    index, name, ports, firmware, guid, protocol = -1, "", 0, "", "", ""
    for kind, value in netlink.attributes(payload):
        if kind == DEV_INDEX:
            index = netlink.number(value)
        elif kind == DEV_NAME:
            name = netlink.text(value)
        elif kind == PORT_INDEX:
            ports = netlink.number(value)
        elif kind == FW_VERSION:
            firmware = netlink.text(value)
        elif kind == NODE_GUID:
            guid = _guid(netlink.number(value))
        elif kind == DEV_PROTOCOL:
            protocol = netlink.text(value)
    if index < 0 or not name:
        raise NetlinkError("an RDMA device without index or name")
    return RdmaDevice(index, name, ports, firmware, guid, protocol)


def decode_port(payload: bytes) -> RdmaPort:
    """The answer to PORT_GET."""
    state = phys = lid = sm_lid = None
    netdev = None
    for kind, value in netlink.attributes(payload):
        if kind == PORT_STATE:
            state = netlink.number(value)
        elif kind == PORT_PHYS_STATE:
            phys = netlink.number(value)
        elif kind == LID:
            lid = netlink.number(value)
        elif kind == SM_LID:
            sm_lid = netlink.number(value)
        elif kind == NDEV_NAME:
            netdev = netlink.text(value)
    if state is None or phys is None:
        raise NetlinkError("an RDMA port without state")
    return RdmaPort(state, phys, lid, sm_lid, netdev)


def decode_counters(payload: bytes) -> dict[str, int]:
    """The answer to STAT_GET: {driver's name: value}."""
    found: dict[str, int] = {}
    for kind, table in netlink.attributes(payload):
        if kind != HWCOUNTERS:
            continue
        for entry_kind, entry in netlink.attributes(table):
            if entry_kind != ENTRY:
                continue
            name, value = "", None
            for part, content in netlink.attributes(entry):
                if part == NAME:
                    name = netlink.text(content)
                elif part == VALUE:
                    value = netlink.number(content)
            if name and value is not None:
                found[name] = value
    return found


class RdmaNetlink:
    """Asks the kernel."""

    def __init__(self, limit: float = _LIMIT_SECONDS) -> None:
        self._asker = Asker(NETLINK_RDMA, "RDMA netlink", limit)

    def devices(self) -> list[RdmaDevice]:
        payloads = self._ask("RDMA GET", GET, dump=True)
        return _decoded("RDMA GET", lambda: [decode_device(p) for p in payloads])

    def port(self, device: int, port: int) -> RdmaPort:
        where = f"RDMA PORT_GET device {device} port {port}"
        (payload,) = self._ask(where, PORT_GET, device, port)
        return _decoded(where, lambda: decode_port(payload))

    def counters(self, device: int, port: int) -> dict[str, int]:
        where = f"RDMA STAT_GET device {device} port {port}"
        (payload,) = self._ask(where, STAT_GET, device, port)
        return _decoded(where, lambda: decode_counters(payload))

    def _ask(
        self, where: str, command: int, device: int | None = None, port: int | None = None, dump: bool = False
    ) -> list[bytes]:
        return self._asker.ask(where, _CLIENT + command, request(command, device, port), dump)


def _guid(value: int) -> str:
    """As sysfs prints it; the kernel hands the number on in the machine's byte order."""
    digits = f"{value:016x}"
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def _decoded(where: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except NetlinkError as error:
        raise HostError(where, errno.EBADMSG, str(error)) from None
