"""The address of each PORT row's interface: what probes are bound to."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from fabricmon.agent.probing.backend import ProbeRow
from fabricmon.model import Kind, Part

_SIOCGIFADDR = 0x8915
_IPV6 = "/proc/net/if_inet6"


def rows_of(parts: Iterable[Part], exclude: Sequence[str]) -> list[ProbeRow]:
    """The node's own PORT rows that have a network interface or an RDMA port; several collectors may have one."""
    found: dict[str, dict[str, str]] = {}
    for part in parts:
        for component in part.components if part.kind is Kind.PORT else ():
            if not component.labels.get("swept"):
                found.setdefault(component.name, {}).update(component.labels)
    rows = [
        ProbeRow(name, labels.get("netdev", ""), labels.get("device", ""), labels.get("port", ""))
        for name, labels in found.items()
    ]
    return [
        row for row in rows
        if (row.netdev or row.device) and not any(fnmatchcase(row.netdev, pattern) for pattern in exclude)
    ]  # fmt: skip


def addresses_of(rows: Iterable[ProbeRow]) -> dict[str, str]:
    """PORT row -> IPv4 address of its interface, else its first global IPv6 address; rows without one are left out."""
    six: dict[str, str] | None = None
    found: dict[str, str] = {}
    for row in rows:
        address = _ipv4(row.netdev) if row.netdev else ""
        if row.netdev and not address:
            six = _ipv6() if six is None else six
            address = six.get(row.netdev, "")
        if address:
            found[row.name] = address
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
