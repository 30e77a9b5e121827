"""Which network interfaces are hardware, and under which row name each is read.

The interface of an RDMA port has the port's row name, every other one its own; as in `ethernet`, so that the columns of
all collectors meet in one row. Nothing here asks a driver: the kernel answers from memory.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Generic, NamedTuple, Protocol, TypeVar

from fabricmon.collect import rdma_device
from fabricmon.collect.sparing import Session, Spared
from fabricmon.host.protocol import Host, HostError

NET = "/sys/class/net"
_ETHERNET = "1"  # ARPHRD_ETHER in the file `type`
_INFINIBAND = "32"  # ARPHRD_INFINIBAND
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+")  # phys_port_name of what stands for a virtual or sub function in a switch
_MOST = 256  # interfaces of one machine that are read


class Interface(NamedTuple):
    """One interface. `device` and `port` are those of its RDMA port, "" and 0 where it has none."""

    name: str
    row: str
    device: str
    port: int
    driver: str

    @property
    def labels(self) -> dict[str, str]:
        """What names the row; the other facts of a row come with `infiniband` or `ethernet`."""
        found = {"netdev": self.name}
        if self.device:
            found |= {"device": self.device, "port": str(self.port)}
        return found


def interfaces(host: Host, exclude: tuple[str, ...] = (), infiniband: bool = False) -> list[Interface]:
    """Ethernet interfaces of physical functions and of RDMA ports, sorted by name; `infiniband`: the IPoIB ones of
    InfiniBand ports, too. HostError where they cannot be listed.
    """
    try:
        names = host.list(NET)
    except HostError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return []
        raise
    ports = rdma_ports(host)
    found = []
    for name in names:
        if any(fnmatchcase(name, pattern) for pattern in exclude):
            continue
        if name not in ports and not _physical(host, name):
            continue
        kind = rdma_device.text(host, f"{NET}/{name}/type")
        if kind not in (_ETHERNET, "") and not (infiniband and kind == _INFINIBAND and name in ports):
            continue
        device, port = ports.get(name, ("", 0))
        row = rdma_device.row_name(device, port) if device else name
        found.append(Interface(name, row, device, port, driver_of(host, name)))
    return found[:_MOST]


def rdma_ports(host: Host) -> dict[str, tuple[str, int]]:
    """Which RDMA device and port each interface belongs to."""
    found: dict[str, tuple[str, int]] = {}
    try:
        devices = rdma_device.devices(host)
    except HostError:
        return found
    for device in devices:
        try:
            numbers = rdma_device.ports(host, device)
        except HostError:
            continue
        for number in numbers:
            netdev = rdma_device.netdev_of(host, device, number)
            if netdev:
                found.setdefault(netdev, (device, number))
    return found


def driver_of(host: Host, name: str) -> str:
    try:
        return host.realpath(f"{NET}/{name}/device/driver").rsplit("/", 1)[-1]
    except HostError:
        return ""


def _physical(host: Host, name: str) -> bool:
    try:
        below = host.list(f"{NET}/{name}/device")
    except HostError:
        return False
    return "physfn" not in below and not _REPRESENTOR.match(rdma_device.text(host, f"{NET}/{name}/phys_port_name"))


class _Config(Protocol):
    @property
    def exclude(self) -> tuple[str, ...]: ...


C = TypeVar("C", bound=_Config)


class OnePerInterface(Generic[C]):
    """A collector with a Session an interface, so that a driver that answers late delays only its own values."""

    def __init__(
        self,
        host: Host,
        name: str,
        config: C,
        make: Callable[[Host, C, Interface], Session],
        infiniband: bool = False,
    ) -> None:
        self._host, self._name, self._config, self._make = host, name, config, make
        self._infiniband = infiniband
        self._sessions: dict[Interface, Spared] = {}

    def sessions(self) -> dict[str, Spared]:
        there = interfaces(self._host, self._config.exclude, self._infiniband)
        self._sessions = {i: self._sessions.get(i) or self._new(i) for i in there}
        return {interface.name: session for interface, session in self._sessions.items()}

    def close(self) -> None:
        self._sessions.clear()

    def _new(self, interface: Interface) -> Spared:
        session = self._make(self._host, self._config, interface)
        return Spared(self._host, session, self._name, interface.row)
