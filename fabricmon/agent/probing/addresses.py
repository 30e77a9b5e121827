"""The address of each PORT row's interface: what probes are bound to."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable
from fnmatch import fnmatchcase

from fabricmon.model import Kind, Part

_SIOCGIFADDR = 0x8915
_IPV6 = "/proc/net/if_inet6"


def addresses_of(parts: Iterable[Part], exclude: tuple[str, ...]) -> dict[str, str]:
    """PORT row -> its IPv4 address, else its first global IPv6 address; rows without one are left out."""
    interfaces = {
        component.name: component.labels["netdev"]
        for part in parts
        if part.kind is Kind.PORT
        for component in part.components
        if component.labels.get("netdev") and not component.labels.get("swept")
    }
    six: dict[str, str] | None = None
    found: dict[str, str] = {}
    for row, netdev in interfaces.items():
        if any(fnmatchcase(netdev, pattern) for pattern in exclude):
            continue
        address = _ipv4(netdev)
        if not address:
            six = _ipv6() if six is None else six
            address = six.get(netdev, "")
        if address:
            found[row] = address
    return found


def _ipv4(netdev: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", netdev[:15].encode()))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])


def _ipv6() -> dict[str, str]:
    """Interface -> its first global address (proc(5), if_inet6)."""
    try:
        with open(_IPV6, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    found: dict[str, str] = {}
    for words in lines:
        if len(words) == 6 and words[3] == "00":
            found.setdefault(words[5], str(ipaddress.IPv6Address(bytes.fromhex(words[0]))))
    return found
