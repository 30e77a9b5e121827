"""Physical network interfaces and their row names.

The interface of an RDMA port has the port's row name, any other its own, as in `ethernet`: columns of all collectors
are in one row. The kernel answers from memory, without the driver.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

from fabricmon.collect.machine import files, rdma_device
from fabricmon.host.protocol import Host

NET = "/sys/class/net"
_ETHERNET = "1"  # ARPHRD_ETHER in the file `type`
_INFINIBAND = "32"  # ARPHRD_INFINIBAND
REPRESENTOR = re.compile(r"(c\d+)?pf\d+")  # phys_port_name of the representor of a virtual or sub function
_MOST = 256  # interfaces of one machine that are read


class Interface(NamedTuple):
    """One interface. `device` and `port` of its RDMA port, "" and 0 without one."""

    name: str
    row: str
    device: str
    port: int
    driver: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels that identify the row; the others come with `infiniband` or `ethernet`."""
        found = {"netdev": self.name}
        if self.device:
            found |= {"device": self.device, "port": str(self.port)}
        return found


def interfaces(host: Host, exclude: tuple[str, ...] = (), infiniband: bool = False) -> list[Interface]:
    """Ethernet interfaces of physical functions and RDMA ports, sorted by name; `infiniband`: also IPoIB interfaces.
    HostError where they cannot be listed."""
    ports = rdma_ports(host)
    found = []
    for name in files.names_if_there(host, NET):
        if any(fnmatchcase(name, pattern) for pattern in exclude):
            continue
        if name not in ports and not _physical(host, name):
            continue
        kind = files.text(host, f"{NET}/{name}/type")
        if kind not in (_ETHERNET, "") and not (infiniband and kind == _INFINIBAND and name in ports):
            continue
        device, port = ports.get(name, ("", 0))
        row = rdma_device.row_name(device, port) if device else name
        found.append(Interface(name, row, device, port, driver_of(host, name)))
    return found[:_MOST]


def rdma_ports(host: Host) -> dict[str, tuple[str, int]]:
    """Interface -> RDMA device and port."""
    found: dict[str, tuple[str, int]] = {}
    for device, number in rdma_device.every_port(host):
        if netdev := rdma_device.netdev_of(host, device, number):
            found.setdefault(netdev, (device, number))
    return found


def driver_of(host: Host, name: str) -> str:
    """The driver of an interface's adapter; "" where there is none."""
    return files.last_of(host, f"{NET}/{name}/device/driver")


def _physical(host: Host, name: str) -> bool:
    below = files.names(host, f"{NET}/{name}/device")
    if not below or "physfn" in below:
        return False
    return not REPRESENTOR.match(files.text(host, f"{NET}/{name}/phys_port_name"))
