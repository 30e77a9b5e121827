"""Messages of RDMA netlink: devices, state of a port, all hw_counters of a port.

Numbers: rdma/rdma_netlink.h (docs/methods.md#kernel-interfaces).
"""

from __future__ import annotations

import struct

from fabricmon.host.messages import netlink
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol import RdmaDevice, RdmaPort

GET, PORT_GET, STAT_GET = 1, 5, 17
CLIENT = 5 << 10  # RDMA_NL_NLDEV; a message is of type CLIENT + command

DEV_INDEX, DEV_NAME, PORT_INDEX, FW_VERSION, NODE_GUID = 1, 2, 3, 5, 6
LID, SM_LID, PORT_STATE, PORT_PHYS_STATE = 9, 10, 12, 13
NDEV_NAME, DEV_PROTOCOL = 51, 67
HWCOUNTERS, ENTRY, NAME, VALUE = 80, 81, 82, 83


def request(device: int, port: int) -> bytes:
    """Attributes of a question about a port."""
    asked = ((DEV_INDEX, device), (PORT_INDEX, port))
    return b"".join(netlink.attribute(kind, struct.pack("=I", number)) for kind, number in asked)


def decode_device(payload: bytes) -> RdmaDevice:
    """One entry of a GET dump. NetlinkError for invalid bytes."""
    found = dict(netlink.attributes(payload))
    index, name = _number(found, DEV_INDEX), netlink.text(found.get(DEV_NAME, b""))
    guid = _number(found, NODE_GUID)
    if index is None or not name:
        raise NetlinkError("an RDMA device without index or name")
    return RdmaDevice(
        index,
        name,
        _number(found, PORT_INDEX) or 0,
        netlink.text(found.get(FW_VERSION, b"")),
        ":".join(f"{guid:016x}"[at : at + 4] for at in range(0, 16, 4)) if guid is not None else "",
        netlink.text(found.get(DEV_PROTOCOL, b"")),
    )


def decode_port(payload: bytes) -> RdmaPort:
    """The answer to PORT_GET."""
    found = dict(netlink.attributes(payload))
    state, phys = _number(found, PORT_STATE), _number(found, PORT_PHYS_STATE)
    if state is None or phys is None:
        raise NetlinkError("an RDMA port without state")
    netdev = netlink.text(found[NDEV_NAME]) if NDEV_NAME in found else None
    return RdmaPort(state, phys, _number(found, LID), _number(found, SM_LID), netdev)


def _number(found: dict[int, bytes], kind: int) -> int | None:
    return netlink.number(found[kind]) if kind in found else None


def decode_counters(payload: bytes) -> dict[str, int]:
    """The answer to STAT_GET: {driver's name: value}."""
    found: dict[str, int] = {}
    for kind, table in netlink.attributes(payload):
        if kind != HWCOUNTERS:
            continue
        for entry_kind, entry in netlink.attributes(table):
            if entry_kind != ENTRY:
                continue
            parts = dict(netlink.attributes(entry))
            if parts.get(NAME) and VALUE in parts:
                found[netlink.text(parts[NAME])] = netlink.number(parts[VALUE])
    return found
