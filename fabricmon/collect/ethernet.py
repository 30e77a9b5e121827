"""Network interfaces: carrier and its changes, state, speed, traffic; and each link event at once.

One rtnetlink dump a run, /sys/class/net where there is none. Rows are physical interfaces (those with a device), the
interface of each RDMA port under the port's own row name, and whatever `include` names. A bond of RDMA ports is a row
too, and its legs are: the RDMA port's state follows the bond, so a lost leg shows on the leg only.

An event says "look", no more: the kernel merges fast changes of a carrier, and CARRIER_DOWN_COUNT alone tells how many
there were (netlink.md section 3).
"""

from __future__ import annotations

import errno
import math
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msgspec import Struct

from fabricmon.catalogue.port import OPER_STATES
from fabricmon.collect import netdev_files, rdma_device
from fabricmon.collect.link_events import LinkEvents
from fabricmon.collect.physical import rdma_ports
from fabricmon.host.protocol import Host, HostError, Link, Unsupported
from fabricmon.model import Component, Event, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "ethernet"
_NET = netdev_files.CLASS
_STATISTICS = (
    ("netdev_rx", "rx_bytes"),
    ("netdev_tx", "tx_bytes"),
    ("netdev_rx_packets", "rx_packets"),
    ("netdev_tx_packets", "tx_packets"),
    ("netdev_rx_errors", "rx_errors"),
    ("netdev_tx_errors", "tx_errors"),
    ("netdev_rx_dropped", "rx_dropped"),
    ("netdev_tx_dropped", "tx_dropped"),
    ("netdev_rx_crc_errors", "rx_crc_errors"),
)
COLUMNS = (
    "carrier", "operstate", "admin_up", "carrier_down_changes", "carrier_up_changes", "netdev_rate", "mtu",
    *(column for column, _ in _STATISTICS),
)  # fmt: skip
_OPER_NUMBER = {word: float(number) for number, word in OPER_STATES.items()}
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+")  # phys_port_name of what stands for a virtual or sub function in a switch
_SPEED_SECONDS = 60.0  # between two reads of a speed whose carrier did not change: each is a driver call
_MOST_ROWS = 1024  # a node with thousands of container interfaces included by mistake stays bounded


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.ethernet

    enabled     read network interfaces at all
    interval    between two reads; an event of the kernel makes one at once
    deadline    for one read
    rediscover  between two looks for what belongs to which RDMA port
    include     further interfaces to read, with wildcards: ["bond*", "veth*"]; it wins over exclude
    exclude     interfaces to leave out, with wildcards
    """

    enabled: bool = True
    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)
    rediscover: Duration = Duration(300)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = (
        "lo", "veth*", "docker*", "br-*", "virbr*", "cali*", "cni*", "flannel*", "cilium*", "lxc*", "tunl*", "kube-*",
        "usb*", "idrac*",
    )  # fmt: skip


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._host = host
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def watch(self, tell: Callable[[Event | None], None]) -> Callable[[], None]:
        """Tell of links that changed, from another thread; None where some were lost or a new one came.

        Where the host has no events this does nothing.
        """
        listener = LinkEvents(self._session.row_of, self._session.wants, tell)
        try:
            return self._host.watch_links(listener)
        except Unsupported:
            return lambda: None

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Speed:
    rate: float
    read_at: float
    carrier_ups: int | None
    fault: Fault | None


class Session:
    """All interfaces of the machine."""

    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._parts: tuple[Part, ...] = ()
        self._chosen: tuple[tuple[int, str, str, int | None], ...] | None = None
        self._rows: dict[str, str] = {}  # netdev: row name
        self._rdma: dict[str, tuple[str, int]] = {}  # netdev: RDMA device and port
        self._speeds: dict[str, _Speed] = {}
        self._again = -math.inf

    def row_of(self, netdev: str) -> str | None:
        """The row an interface is read into; None where it is not read. Safe from any thread."""
        return self._rows.get(netdev)

    def wants(self, link: Link) -> bool:
        """An interface that was not there at the last read would be one of the rows."""
        return self._wanted(link)

    def read(self) -> Reading:
        now = self._host.monotonic()
        links, faults = self._links()
        taken = (now + self._host.monotonic()) / 2
        shape = tuple((k.index, k.name, k.kind, k.master) for k in links)
        if shape != self._chosen or now >= self._again:
            self._discover(links, now)
            self._chosen = shape
        links = [k for k in links if k.name in self._rows]
        values = array("d")
        for link in links:
            speed = self._speed(link, now)
            if speed.fault:
                faults.append(speed.fault)
            values.extend(_values(link, speed.rate))
        return Reading(self._parts if links else (), values, taken, tuple(faults))

    def close(self) -> None:
        pass

    def _links(self) -> tuple[list[Link], list[Fault]]:
        try:
            return self._host.links(), []
        except Unsupported:
            pass
        try:
            return netdev_files.links(self._host), []
        except HostError as error:
            if error.errno == errno.ENOENT:
                return [], []
            raise

    def _wanted(self, link: Link) -> bool:
        if any(fnmatchcase(link.name, pattern) for pattern in self._config.include):
            return True
        if any(fnmatchcase(link.name, pattern) for pattern in self._config.exclude):
            return False
        if link.name in self._rdma:
            return True
        if link.kind or _REPRESENTOR.match(link.port_name):
            return False
        device = f"{_NET}/{link.name}/device"
        return self._exists(device) and not rdma_device.is_virtual_function(self._host, device)

    def _exists(self, path: str) -> bool:
        try:
            self._host.list(path)
        except HostError:
            return False
        return True

    def _discover(self, links: list[Link], now: float) -> None:
        """Choose the rows and name them."""
        self._rdma = rdma_ports(self._host)
        routed = rdma_device.default_route_netdevs(self._host)
        by_index = {k.index: k for k in links}
        legs = {k.name for k in links if _is_bond(by_index.get(k.master or -1))}
        chosen = [k for k in links if k.name in legs or self._wanted(k)][:_MOST_ROWS]
        rows: dict[str, str] = {}
        components = []
        for link in chosen:
            port = self._rdma.get(link.name)
            rows[link.name] = rdma_device.row_name(*port) if port else link.name
            bond = by_index[link.master].name if link.name in legs and link.master is not None else ""
            labels = {"netdev": link.name}
            if port:
                labels |= {"device": port[0], "port": str(port[1])}
            else:
                labels |= self._labels(link, link.name in routed or bond in routed)
            if bond:
                labels["bond"] = bond
            components.append(Component(rows[link.name], labels))
        parts = (Part(NAME, Kind.PORT, COLUMNS, tuple(components), float(self._config.interval)),)
        if parts != self._parts:
            self._parts = parts
        self._rows = rows
        self._speeds = {name: speed for name, speed in self._speeds.items() if name in rows}
        self._again = now + float(self._config.rediscover)

    def _labels(self, link: Link, routed: bool) -> dict[str, str]:
        """Labels of an interface without an RDMA port; those of a port come with its counters."""
        try:
            driver = self._host.realpath(f"{_NET}/{link.name}/device/driver").rsplit("/", 1)[-1]
        except HostError:
            driver = ""
        found = {
            "link_layer": "Ethernet",
            "pci": link.parent if link.parent.count(":") == 2 else "",
            "driver": driver,
            "role": "management" if routed else "unknown",
        }
        return {name: value for name, value in found.items() if value}

    def _speed(self, link: Link, now: float) -> _Speed:
        """Bytes a second from the file `speed` (Mb/s), which asks the driver: read when the carrier came anew."""
        if not link.carrier:
            self._speeds.pop(link.name, None)
            return _Speed(math.nan, now, link.carrier_up_count, None)
        known = self._speeds.get(link.name)
        if known and known.carrier_ups == link.carrier_up_count and now < known.read_at + _SPEED_SECONDS:
            return known
        path = f"{_NET}/{link.name}/speed"
        rate, fault = math.nan, None
        try:
            text = self._host.read(path, 64).decode("ascii", "replace").strip()
        except HostError as error:
            # EINVAL: an interface without a speed, such as a tunnel, or one that went down a moment ago
            if error.errno not in (errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP):
                fault = Fault(NAME, self._rows[link.name], path, error.text)
        else:
            if text.isascii() and text.isdigit() and int(text) < 0xFFFFFFFF:
                rate = int(text) * 1e6 / 8
            elif text not in ("", "-1", "4294967295"):
                fault = Fault(NAME, self._rows[link.name], path, f"expected a speed in Mb/s, got {text[:40]!r}")
        found = _Speed(rate, now, link.carrier_up_count, fault)
        self._speeds[link.name] = found
        return found


def _is_bond(link: Link | None) -> bool:
    return link is not None and link.kind == "bond"


def _values(link: Link, rate: float) -> list[float]:
    """One row, in the order of COLUMNS."""
    return [
        _known(link.carrier),
        _OPER_NUMBER.get(link.operstate, math.nan),
        float(link.admin_up),
        _known(link.carrier_down_count),
        _known(link.carrier_up_count),
        rate,
        _known(link.mtu),
        *(_known(link.stats.get(key)) for _, key in _STATISTICS),
    ]


def _known(value: int | None) -> float:
    return math.nan if value is None else float(value)
