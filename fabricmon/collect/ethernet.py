"""Network interfaces: carrier and its changes, state, speed, traffic; link events at once.

One rtnetlink dump a run, /sys/class/net where there is none. Rows are physical interfaces (those with a device), the
interface of each RDMA port under the port's row name, and those in `include`. A bond of RDMA ports and its legs are
rows: the RDMA port's state follows the bond, so a lost leg shows on the leg only.

An event only triggers a read: the kernel merges fast changes of a carrier, and only CARRIER_DOWN_COUNT has their number
(docs/methods.md#link-events).
"""

from __future__ import annotations

import errno
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fabricmon.catalogue.port import OPER_STATES
from fabricmon.collect.collector import Collector, InterfaceConfig, Notify, Session
from fabricmon.collect.devices import whole_machine
from fabricmon.collect.link_events import LinkEvents
from fabricmon.collect.machine import netdev_files, rdma_device
from fabricmon.collect.machine.files import names
from fabricmon.collect.machine.interfaces import NET, REPRESENTOR, driver_of, rdma_ports
from fabricmon.collect.machine.rows import filled, known
from fabricmon.host.protocol import Host, HostError, Link, Unsupported
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "ethernet"
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
_SPEED_SECONDS = 60.0  # between two reads of a speed while the carrier is unchanged: each is a driver call
_MOST_ROWS = 1024  # bound for a node with thousands of container interfaces included by mistake


class EthernetConfig(InterfaceConfig, frozen=True):
    """collect.ethernet; a link event triggers a read at once.

    include  further interfaces to read, with wildcards: ["bond*", "veth*"]; it wins over exclude
    """

    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)
    exclude: tuple[str, ...] = (
        "lo", "veth*", "docker*", "br-*", "virbr*", "cali*", "cni*", "flannel*", "cilium*", "lxc*", "tunl*", "kube-*",
        "usb*", "idrac*",
    )  # fmt: skip
    include: tuple[str, ...] = ()


def open(host: Host, config: EthernetConfig) -> Collector[None]:
    """A collector with link events: of links that changed; None where some were lost or a link is new."""
    session = EthernetSession(host, config)

    def watch(notify: Notify) -> Callable[[], None]:
        try:
            return host.watch_links(LinkEvents(session.row_of, session.wants, notify))
        except Unsupported:
            return lambda: None

    return whole_machine(session, watch)


@dataclass(frozen=True, slots=True)
class _Speed:
    rate: float
    read_at: float
    carrier_ups: int | None
    fault: Fault | None


class EthernetSession(Session[EthernetConfig]):
    """All interfaces of the machine."""

    def __init__(self, host: Host, config: EthernetConfig) -> None:
        super().__init__(host, config)
        self._chosen: tuple[tuple[int, str, str, int | None], ...] | None = None
        self._rows: dict[str, str] = {}  # netdev: row name
        self._rdma: dict[str, tuple[str, int]] = {}  # netdev: RDMA device and port
        self._speeds: dict[str, _Speed] = {}

    def row_of(self, netdev: str) -> str | None:
        """The row of an interface; None where it is not read. Safe from any thread."""
        return self._rows.get(netdev)

    def read(self) -> Reading:
        now = self._host.monotonic()
        due = self._discovers(now)
        links, faults = self._links()
        taken = (now + self._host.monotonic()) / 2
        shape = tuple((k.index, k.name, k.kind, k.master) for k in links)
        if due or shape != self._chosen:
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

    def wants(self, link: Link) -> bool:
        """Whether an interface gets a row."""
        for patterns, wanted in ((self._config.include, True), (self._config.exclude, False)):
            if any(fnmatchcase(link.name, pattern) for pattern in patterns):
                return wanted
        if link.name in self._rdma:
            return True
        if link.kind or REPRESENTOR.match(link.port_name):
            return False
        below = names(self._host, f"{NET}/{link.name}/device")
        return bool(below) and "physfn" not in below

    def _discover(self, links: list[Link], now: float) -> None:
        """Choose the rows and name them."""
        self._rdma = rdma_ports(self._host)
        routed = rdma_device.default_route_netdevs(self._host)
        bonds = {k.index: k.name for k in links if k.kind == "bond"}
        legs = {k.name for k in links if k.master in bonds}
        chosen = [k for k in links if k.name in legs or self.wants(k)][:_MOST_ROWS]
        rows: dict[str, str] = {}
        components = []
        for link in chosen:
            port = self._rdma.get(link.name)
            rows[link.name] = rdma_device.row_name(*port) if port else link.name
            bond = bonds.get(link.master or -1, "")
            labels = {"netdev": link.name}
            if port:
                labels |= {"device": port[0], "port": str(port[1])}
            else:
                labels |= self._labels(link, link.name in routed or bond in routed)
            if bond:
                labels["bond"] = bond
            components.append(Component(rows[link.name], labels))
        self._shape_is((Part(NAME, Kind.PORT, COLUMNS, tuple(components), self._period),))
        self._rows = rows
        self._speeds = {name: speed for name, speed in self._speeds.items() if name in rows}
        self._settle(now)

    def _labels(self, link: Link, routed: bool) -> dict[str, str]:
        """Labels of an interface without an RDMA port; those of a port come with its counters."""
        return filled({
            "link_layer": "Ethernet",
            "pci": link.parent if link.parent.count(":") == 2 else "",
            "driver": driver_of(self._host, link.name),
            "role": "management" if routed else "unknown",
        })  # fmt: skip

    def _speed(self, link: Link, now: float) -> _Speed:
        """Bytes a second from the file `speed` (Mb/s), which asks the driver: read after each change of the carrier."""
        if not link.carrier:
            self._speeds.pop(link.name, None)
            return _Speed(math.nan, now, link.carrier_up_count, None)
        known = self._speeds.get(link.name)
        if known and known.carrier_ups == link.carrier_up_count and now < known.read_at + _SPEED_SECONDS:
            return known
        path = f"{NET}/{link.name}/speed"
        rate, fault = math.nan, None
        try:
            text = self._host.read(path, 64).decode("ascii", "replace").strip()
        except HostError as error:
            # EINVAL: an interface without a speed, such as a tunnel, or one that has just gone down
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


def _values(link: Link, rate: float) -> list[float]:
    """One row, in the order of COLUMNS."""
    return [
        known(link.carrier),
        _OPER_NUMBER.get(link.operstate, math.nan),
        float(link.admin_up),
        known(link.carrier_down_count),
        known(link.carrier_up_count),
        rate,
        known(link.mtu),
        *(known(link.stats.get(key)) for _, key in _STATISTICS),
    ]
