"""Ports that carry storage traffic, by the configuration of file systems on the node (docs/methods.md#port-roles).

Only world-readable files: LNet's module parameters, GPFS' and BeeGFS' configuration, NFS mounts over RDMA. None is
proof: a port that shares a PCIe switch with a GPU stays a compute port.
"""

from __future__ import annotations

import re
import sys
from ipaddress import IPv4Address
from typing import NamedTuple

from fabricmon.host.protocol import Host, HostError

_LNET = ("/sys/module/lnet/parameters/networks", "/sys/module/lnet/parameters/ip2nets")
_GPFS = "/var/mmfs/gen/mmfs.cfg"
_BEEGFS = "/etc/beegfs/beegfs-client.conf"
_LIMIT = 262144  # bytes read of any of them

_LNET_NETWORK = re.compile(r"\b(?:o2ib|tcp|kfi)\d*\(([^)]{1,200})\)")
_GPFS_PORTS = re.compile(r"^\s*verbsPorts\s+(.{1,1000})$", re.M)
_BEEGFS_FILE = re.compile(r"^\s*connInterfacesFile\s*=\s*(\S{1,400})\s*$", re.M)
_RDMA_MOUNT = re.compile(r"^\S+ \S+ nfs4? (\S*)", re.M)
_SERVER = re.compile(r"\baddr=([0-9.]+)")


class Hints(NamedTuple):
    """Names of ports that carry storage. `devices` as "mlx5_0" or "mlx5_0/1"."""

    netdevs: frozenset[str]
    devices: frozenset[str]

    def name(self, netdev: str, device: str, port: int) -> bool:
        return netdev in self.netdevs or device in self.devices or f"{device}/{port}" in self.devices


NONE = Hints(frozenset(), frozenset())


def hints(host: Host) -> Hints:
    """The ports that the node's file systems use."""
    netdevs: set[str] = set()
    devices: set[str] = set()
    for path in _LNET:
        netdevs.update(lnet_interfaces(_text(host, path)))
    for port in gpfs_ports(_text(host, _GPFS)):
        devices.add(port)
    if listed := _BEEGFS_FILE.search(_text(host, _BEEGFS)):
        netdevs.update(_text(host, listed[1]).split())
    servers = nfs_servers(_text(host, "/proc/mounts"))
    if servers:
        routes = _text(host, "/proc/net/route")
        netdevs.update(netdev for server in servers if (netdev := route_to(server, routes)))
    return Hints(frozenset(netdevs), frozenset(devices))


def lnet_interfaces(text: str) -> list[str]:
    """ "o2ib0(ib0,ib1),tcp1(eth0)" -> the interfaces, without a range of processors ("ib0[0]")."""
    return [
        re.sub(r"\[[^\]]*\]", "", name).strip().split(":")[0]
        for found in _LNET_NETWORK.finditer(text)
        for name in re.sub(r"\[[^\]]*\]", "", found[1]).split(",")
        if name.strip()
    ]


def gpfs_ports(text: str) -> list[str]:
    """ "verbsPorts mlx5_0/1 mlx5_1/1/2" (device, port, fabric) -> "mlx5_0/1", "mlx5_1/1"; without a port the device."""
    found = _GPFS_PORTS.search(text)
    return ["/".join(word.split("/")[:2]) for word in found[1].split()] if found else []


def nfs_servers(mounts: str) -> set[str]:
    """IPv4 addresses of servers mounted over RDMA."""
    return {
        server[1]
        for found in _RDMA_MOUNT.finditer(mounts)
        if "proto=rdma" in found[1] and (server := _SERVER.search(found[1]))
    }


def route_to(address: str, routes: str) -> str:
    """The interface of the narrowest IPv4 route to an address; "" where only the default route covers it."""
    try:
        wanted = int.from_bytes(IPv4Address(address).packed, sys.byteorder)
    except ValueError:
        return ""
    best = (0, "")
    for line in routes.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        try:
            target, mask = int(fields[1], 16), int(fields[7], 16)  # in the machine's byte order, as `wanted`
        except ValueError:
            continue
        if mask and wanted & mask == target:
            best = max(best, (mask.bit_count(), fields[0]))
    return best[1]


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path, _LIMIT).decode("utf-8", "replace")
    except HostError:
        return ""
