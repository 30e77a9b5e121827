"""Settings of lossless Ethernet over dcbnl: PFC, ETS, application priorities, receive buffers.

RTM_GETDCB on rtnetlink; structures of linux/dcbnl.h. The counts in it (pause frames sent and received) are left aside:
on mlx5 they move only when somebody reads the driver's statistics (netlink.md section 5).
"""

from __future__ import annotations

import errno
import struct

from fabricmon.host import netlink
from fabricmon.host.interfaces import Dcb
from fabricmon.host.netlink import NetlinkError
from fabricmon.host.netlink_socket import Asker
from fabricmon.host.protocol import HostError

NETLINK_ROUTE = 0
RTM_GETDCB, IEEE_GET = 78, 21
_MESSAGE = struct.Struct("=BBxx")  # family, command
IFNAME, IEEE, DCBX = 1, 13, 14
ETS, PFC, APP_TABLE, MAXRATE, BUFFER = 1, 2, 3, 7, 10
_ETS = struct.Struct("=3B8B8x8B8B")  # willing, ets_cap, cbs, tc_tx_bw, tc_rx_bw, tc_tsa, prio_tc: the applied ones
_PFC = struct.Struct("=BBBxH")  # pfc_cap, pfc_en, mbc, delay
_APP = struct.Struct("=BBH")  # selector, priority, protocol
_MAXRATE = struct.Struct("=8Q")
_BUFFER = struct.Struct("=8B8I")
_LIMIT_SECONDS = 5.0


def request(name: str) -> bytes:
    return _MESSAGE.pack(0, IEEE_GET) + netlink.attribute(IFNAME, name.encode() + b"\0")


def decode(payload: bytes) -> Dcb:
    """The answer to IEEE_GET. NetlinkError for bytes that are none."""
    if len(payload) < _MESSAGE.size:
        raise NetlinkError(f"dcb message of {len(payload)} bytes")
    dcbx, found = None, {}
    for kind, value in netlink.attributes(payload[_MESSAGE.size :]):
        if kind == DCBX:
            dcbx = netlink.number(value)
        elif kind == IEEE:
            found = dict(netlink.attributes(value))
    pfc = _fields(_PFC, found.get(PFC))
    ets = _fields(_ETS, found.get(ETS))
    buffer = _fields(_BUFFER, found.get(BUFFER))
    return Dcb(
        dcbx=dcbx,
        pfc_classes=pfc[0] if pfc else None,
        pfc_enabled=pfc[1] if pfc else None,
        delay=pfc[3] if pfc else None,
        willing=bool(ets[0]) if ets else None,
        bandwidth=ets[3:11],
        algorithm=ets[11:19],
        class_of=ets[19:27],
        apps=_apps(found[APP_TABLE]) if APP_TABLE in found else None,
        max_rate=_fields(_MAXRATE, found.get(MAXRATE)),
        buffer_of=buffer[:8],
        buffers=buffer[8:],
    )


def _fields(layout: struct.Struct, raw: bytes | None) -> tuple[int, ...]:
    if raw is None:
        return ()
    if len(raw) < layout.size:
        raise NetlinkError(f"{len(raw)} bytes where {layout.size} are needed")
    return layout.unpack_from(raw)


def _apps(table: bytes) -> tuple[tuple[int, int, int], ...]:
    """Sorted, for the kernel's order is that in which they were set."""
    entries = [_fields(_APP, raw) for _, raw in netlink.attributes(table)]
    return tuple(sorted((selector, protocol, priority) for selector, priority, protocol in entries))


class DcbNetlink:
    """Asks the kernel."""

    def __init__(self, limit: float = _LIMIT_SECONDS) -> None:
        self._asker = Asker(NETLINK_ROUTE, "rtnetlink", limit)

    def ask(self, name: str) -> Dcb:
        where = f"dcbnl IEEE_GET {name}"
        (answer,) = self._asker.ask(where, RTM_GETDCB, request(name))
        try:
            return decode(answer)
        except NetlinkError as error:
            raise HostError(where, errno.EBADMSG, str(error)) from None
