"""Whether the kernel knows the way to an address up to the hardware address of the next hop.

Making an address handle asks the kernel for that address and waits for it up to a second, in which both Python
libraries for RDMA verbs keep all threads of the program waiting. So it is asked here first, over rtnetlink.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Callable

from fabricmon.host.messages import netlink
from fabricmon.host.netlink_socket import ROUTE, Asker
from fabricmon.host.protocol import HostError

# linux/rtnetlink.h, linux/neighbour.h
_GET_ROUTE, _GET_NEIGHBOUR = 26, 30
_DESTINATION, _SOURCE, _INTERFACE, _GATEWAY, _NEIGHBOUR = 1, 2, 4, 5, 1
_ROUTE = struct.Struct("=BBBBBBBBI")
_ENTRY = struct.Struct("=BxxxiHBB")
_UNUSABLE = 0x00 | 0x01 | 0x20  # NUD_NONE, NUD_INCOMPLETE, NUD_FAILED
_OLD_KERNEL = (errno.EOPNOTSUPP, errno.EINVAL)  # one entry can be asked for since Linux 5.0

Ask = Callable[[str, int, bytes], list[bytes]]


def asker() -> Ask:
    made = Asker(ROUTE, "rtnetlink", 0.5)
    return lambda where, kind, payload: made.ask(where, kind, payload)


def known(ask: Ask, source: str, target: str) -> bool:
    """Whether packets from an own address to another can leave at once. OSError without a route."""
    try:
        interface, hop = _hop(ask, source, target)
        return _usable(ask, interface, hop)
    except HostError as error:
        raise OSError(error.errno, error.text) from None
    except (ValueError, struct.error) as error:
        raise OSError(errno.EBADMSG, str(error)) from None


def resolve(source: str, target: str) -> None:
    """Let the kernel ask for the hardware address of the next hop: an empty datagram to the discard port."""
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.bind((source, 0))
        sending.setblocking(False)
        sending.sendto(b"", (target, 9))


def _hop(ask: Ask, source: str, target: str) -> tuple[int, bytes]:
    """Index of the interface, and address of the gateway or of the target itself."""
    here, there = ipaddress.ip_address(source).packed, ipaddress.ip_address(target).packed
    head = _ROUTE.pack(_family(there), 8 * len(there), 8 * len(here), 0, 0, 0, 0, 0, 0)
    payload = head + netlink.attribute(_DESTINATION, there) + netlink.attribute(_SOURCE, here)
    (found,) = ask("route", _GET_ROUTE, payload)
    have = dict(netlink.attributes(found[_ROUTE.size :]))
    return netlink.number(have.get(_INTERFACE, b"\0")), have.get(_GATEWAY, there)


def _usable(ask: Ask, interface: int, hop: bytes) -> bool:
    payload = _ENTRY.pack(_family(hop), interface, 0, 0, 0) + netlink.attribute(_NEIGHBOUR, hop)
    try:
        (found,) = ask("neighbour", _GET_NEIGHBOUR, payload)
    except HostError as error:
        if error.errno in _OLD_KERNEL:
            return True
        if error.errno == errno.ENOENT:
            return False
        raise
    state = _ENTRY.unpack_from(found)[2]
    return not (state == 0 or state & _UNUSABLE)


def _family(address: bytes) -> int:
    return socket.AF_INET if len(address) == 4 else socket.AF_INET6
