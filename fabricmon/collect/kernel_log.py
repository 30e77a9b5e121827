"""The kernel log from now on: messages about ports, GPUs, NVSwitches and PCIe, counted; the grave ones told at once.

Needs to read /dev/kmsg, which most systems keep for root (CAP_SYSLOG). An agent that may not says so in
fabricmon_node_kernel_log_readable and in the label `kernel_log` of the node, no more: everything else works without.
"""

from __future__ import annotations

import errno
import math
import threading
import time
from array import array
from collections.abc import Callable

from msgspec import Struct

from fabricmon.catalogue.kernel_log import COLUMNS, LOST, READABLE
from fabricmon.collect import gpus, rdma_device
from fabricmon.collect.kernel_events import Listener, Places, Row
from fabricmon.host.protocol import Host, HostError, KernelMessage, Unsupported
from fabricmon.model import Component, Event, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "kernel_log"
_GPU_DRIVERS = "/sys/bus/pci/drivers/nvidia"
_QUIET_ERRORS = {errno.EPERM: "permission denied", errno.EACCES: "permission denied", errno.ENOENT: "no /dev/kmsg"}


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.kernel_log

    enabled     read the kernel log at all
    interval    between two looks at the counts; a message that is told makes one at once
    deadline    for one look
    rediscover  between two looks for what device has which PCI address
    """

    enabled: bool = True
    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)
    rediscover: Duration = Duration(300)


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Counts:
    """What was heard: counts by row and column. Written by the log's thread, read by the collector's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[Row, str], int] = {}
        self.lost = 0

    def add(self, row: Row, column: str) -> None:
        with self._lock:
            self._counts[row, column] = self._counts.get((row, column), 0) + 1

    def lose(self) -> None:
        with self._lock:
            self.lost += 1

    def of(self, row: Row, columns: tuple[str, ...]) -> list[float]:
        with self._lock:
            return [float(self._counts.get((row, column), 0)) for column in columns]


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._host = host
        self._counts = Counts()
        self._session = Session(host, config, self._counts)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def watch(self, tell: Callable[[Event | None], None]) -> Callable[[], None]:
        """Listen to the kernel; tells of grave messages from another thread. Where the log cannot be read: nothing."""
        listener = Listener()

        def heard(message: KernelMessage | None) -> None:
            if message is None:
                self._counts.lose()
                return
            said = listener.hear(message, self._session.places, time.time())
            if said is None:
                return
            if said.column:
                self._counts.add(said.row, said.column)
            if said.event is not None:
                tell(said.event)

        self._session.discover()  # a message that comes before the first read is on the right row, too
        try:
            stop = self._host.watch_kmsg(heard)
        except Unsupported:
            self._session.listens(False, "this host has none")
            return lambda: None
        except HostError as error:
            self._session.listens(False, _QUIET_ERRORS.get(error.errno, error.text))
            return lambda: None
        self._session.listens(True, "")
        return stop

    def close(self) -> None:
        """Nothing is open."""


class Session:
    """The counts as rows. `places`: where the devices have their rows, replaced as a whole, safe from any thread."""

    def __init__(self, host: Host, config: Config, counts: Counts) -> None:
        self._host, self._config, self._counts = host, config, counts
        self.places = Places({}, {}, {})
        self._parts: tuple[Part, ...] = ()
        self._devices: list[str] = []
        self._readable, self._why = False, "not listening yet"
        self._again = -math.inf

    def listens(self, readable: bool, why: str) -> None:
        self._readable, self._why = readable, why
        self._again = -math.inf

    def read(self) -> Reading:
        now = self._host.monotonic()
        if now >= self._again or self._names() != self._devices:
            self._shape()
            self._again = now + float(self._config.rediscover)
        values = array("d", [float(self._readable), float(self._counts.lost) if self._readable else math.nan])
        for part in self._parts:
            for component in part.components:
                columns = tuple(c for c in part.columns if c not in (READABLE, LOST))
                values.extend(self._counts.of((part.kind, component.name), columns))
        return Reading(self._parts, values, now)

    def close(self) -> None:
        """Nothing is open."""

    def discover(self) -> None:
        """Look which device has which PCI address. What cannot be told is counted on the node's row."""
        pci: dict[str, Row] = {}
        netdev: dict[str, Row] = {}
        device: dict[str, Row] = {}
        self._devices = self._names()
        for name in self._devices:
            try:
                ports = rdma_device.ports(self._host, name)
            except HostError:
                continue
            for port in ports:
                row = (Kind.PORT, rdma_device.row_name(name, port))
                device.setdefault(name, row)
                if address := rdma_device.pci_address(self._host, name):
                    pci.setdefault(address, row)
                if interface := rdma_device.netdev_of(self._host, name, port):
                    netdev.setdefault(interface, row)
        for index, address in enumerate(self._gpus()):
            pci[address] = (Kind.GPU, gpus.row_name(index))
        self.places = Places(pci, netdev, device)

    def _names(self) -> list[str]:
        try:
            return rdma_device.devices(self._host)
        except HostError:
            return []

    def _gpus(self) -> list[str]:
        """PCI addresses of NVIDIA's GPUs in the order in which NVML numbers them."""
        try:
            return [name for name in self._host.list(_GPU_DRIVERS) if name.count(":") == 2]
        except HostError:
            return []

    def _shape(self) -> None:
        self.discover()
        period = float(self._config.interval)
        node = Component("", {} if self._readable else {"kernel_log": self._why})
        own: tuple[str, ...] = (READABLE, LOST)
        if not self._readable:
            parts = [Part(NAME, Kind.NODE, own, (node,), period, wire=False)]
        else:
            parts = [Part(NAME, Kind.NODE, (*own, *COLUMNS[Kind.NODE]), (node,), period, wire=False)]
            for kind in (Kind.PORT, Kind.GPU):
                rows = {row[1]: address for address, row in self.places.pci.items() if row[0] is kind}
                if kind is Kind.PORT:
                    rows = {row[1]: rows.get(row[1], "") for row in self.places.device.values()}
                components = tuple(Component(name, _labels(kind, name, pci)) for name, pci in sorted(rows.items()))
                if components:
                    travel, stay = gpus.by_wire(COLUMNS[kind])
                    parts += [Part(NAME, kind, travel, components, period)] if travel else []
                    parts.append(Part(NAME, kind, stay, components, period, wire=False))
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)


def _labels(kind: Kind, name: str, pci: str) -> dict[str, str]:
    if kind is Kind.GPU:
        return {"gpu": name.removeprefix("gpu"), "pci": pci}
    device, _, port = name.rpartition("/")
    return {"device": device, "port": port} | ({"pci": pci} if pci else {})
