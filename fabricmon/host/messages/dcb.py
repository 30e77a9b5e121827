"""Messages of dcbnl: PFC, ETS, application priorities and receive buffers of lossless Ethernet.

RTM_GETDCB on rtnetlink; structures of linux/dcbnl.h. The pause counts in it are ignored: mlx5 updates them only when
the driver statistics are read (docs/methods.md#lossless-settings).
"""

from __future__ import annotations

import struct

from fabricmon.host.messages import netlink
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol.interfaces import Dcb

RTM_GETDCB, IEEE_GET = 78, 21
_MESSAGE = struct.Struct("=BBxx")  # family, command
IFNAME, IEEE, DCBX = 1, 13, 14
ETS, PFC, APP_TABLE, MAXRATE, BUFFER = 1, 2, 3, 7, 10
_ETS = struct.Struct("=3B8B8x8B8B")  # willing, ets_cap, cbs, tc_tx_bw, tc_rx_bw, tc_tsa, prio_tc: the applied ones
_PFC = struct.Struct("=BBBxH")  # pfc_cap, pfc_en, mbc, delay
_APP = struct.Struct("=BBH")  # selector, priority, protocol
_MAXRATE = struct.Struct("=8Q")
_BUFFER = struct.Struct("=8B8I")


def request(name: str) -> bytes:
    return _MESSAGE.pack(0, IEEE_GET) + netlink.attribute(IFNAME, name.encode() + b"\0")


def decode(payload: bytes) -> Dcb:
    """The answer to IEEE_GET. NetlinkError for invalid bytes."""
    if len(payload) < _MESSAGE.size:
        raise NetlinkError(f"dcb message of {len(payload)} bytes")
    top = dict(netlink.attributes(payload[_MESSAGE.size :]))
    dcbx = netlink.number(top[DCBX]) if DCBX in top else None
    found = dict(netlink.attributes(top.get(IEEE, b"")))
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
    """Sorted: the kernel's order is that of the settings."""
    entries = [_fields(_APP, raw) for _, raw in netlink.attributes(table)]
    return tuple(sorted((selector, protocol, priority) for selector, priority, protocol in entries))
