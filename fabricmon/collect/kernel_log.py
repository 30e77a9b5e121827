"""New messages of the kernel log about ports, GPUs, NVSwitches and PCIe: counted; severe ones are events at once.

Reads /dev/kmsg, which most systems restrict to root (CAP_SYSLOG). Without permission, or on a host without it,
fabricmon_node_kernel_log_readable is 0 and the label `kernel_log` of the node has the reason.
"""

from __future__ import annotations

import errno
import math
import threading
import time
from array import array
from collections.abc import Callable

from fabricmon.catalogue.kernel_log import COLUMNS, LOST, READABLE
from fabricmon.collect.collector import Collector, CollectorConfig, Notify, Session
from fabricmon.collect.devices import whole_machine
from fabricmon.collect.machine import gpus, rdma_device
from fabricmon.collect.machine.files import names
from fabricmon.collect.machine.rows import parts as row_parts
from fabricmon.collect.parse.kernel_events import DeviceRows, KernelEvents, Row
from fabricmon.host.protocol import Host, HostError, KernelMessage, Unsupported
from fabricmon.model import Component, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "kernel_log"
_GPU_DRIVERS = "/sys/bus/pci/drivers/nvidia"
_QUIET_ERRORS = {errno.EPERM: "permission denied", errno.EACCES: "permission denied", errno.ENOENT: "no /dev/kmsg"}


class KernelLogConfig(CollectorConfig, frozen=True):
    """collect.kernel_log; an event triggers a read of the counts at once."""

    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)


class KernelCounts:
    """Counts by row and column. Written by the log's thread, read by the collector's."""

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

    def values(self, row: Row, columns: tuple[str, ...]) -> list[float]:
        with self._lock:
            return [float(self._counts.get((row, column), 0)) for column in columns]


def open(host: Host, config: KernelLogConfig) -> Collector[None]:
    """A collector with severe messages as events, if the log can be read."""
    counts = KernelCounts()
    session = KernelLogSession(host, config, counts)

    def watch(notify: Notify) -> Callable[[], None]:
        events = KernelEvents()

        def receive(message: KernelMessage | None) -> None:
            if message is None:
                counts.lose()
                return
            match = events.receive(message, session.places, time.time())
            if match is not None and match.column:
                counts.add(match.row, match.column)
            if match is not None and match.event is not None:
                notify(match.event)

        session.discover()  # so that a message before the first read is counted on its row
        try:
            stop = host.watch_kmsg(receive)
        except HostError as error:
            unsupported = isinstance(error, Unsupported)
            session.set_readable("not available" if unsupported else _QUIET_ERRORS.get(error.errno, error.text))
            return lambda: None
        session.set_readable("")
        return stop

    return whole_machine(session, watch)


class KernelLogSession(Session[KernelLogConfig]):
    """The counts as rows. `places`: the rows of devices, replaced as a whole, safe from any thread."""

    def __init__(self, host: Host, config: KernelLogConfig, counts: KernelCounts) -> None:
        super().__init__(host, config)
        self._counts = counts
        self.places = DeviceRows({}, {}, {})
        self._devices: list[str] = []
        self._readable, self._why = False, "not opened yet"

    def set_readable(self, why_not: str) -> None:
        """Set whether the log can be read: `why_not` is "" where it can."""
        self._readable, self._why = not why_not, why_not
        self._again = -math.inf

    def read(self) -> Reading:
        now = self._host.monotonic()
        if self._discovers(now) or rdma_device.known_devices(self._host) != self._devices:
            self._shape()
            self._settle(now)
        values = array("d", [float(self._readable), float(self._counts.lost) if self._readable else math.nan])
        for part in self._parts:
            for component in part.components:
                columns = tuple(c for c in part.columns if c not in (READABLE, LOST))
                values.extend(self._counts.values((part.kind, component.name), columns))
        return Reading(self._parts, values, now)

    def discover(self) -> None:
        """Find the PCI address of each device. Messages about unknown devices are counted on the node's row."""
        pci: dict[str, Row] = {}
        netdev: dict[str, Row] = {}
        device: dict[str, Row] = {}
        self._devices = rdma_device.known_devices(self._host)
        for name, port in rdma_device.every_port(self._host):
            row = (Kind.PORT, rdma_device.row_name(name, port))
            device.setdefault(name, row)
            device[row[1]] = row
            if address := rdma_device.pci_address(self._host, name):
                pci.setdefault(address, row)
            if interface := rdma_device.netdev_of(self._host, name, port):
                netdev.setdefault(interface, row)
        addresses = [name for name in names(self._host, _GPU_DRIVERS) if name.count(":") == 2]
        for index, address in enumerate(addresses):  # NVML also numbers GPUs by address
            pci[address] = (Kind.GPU, gpus.row_name(index))
        self.places = DeviceRows(pci, netdev, device)

    def _shape(self) -> None:
        self.discover()
        node = Component("", {} if self._readable else {"kernel_log": self._why})
        own: tuple[str, ...] = (READABLE, LOST)
        if not self._readable:
            parts = [Part(NAME, Kind.NODE, own, (node,), self._period, wire=False)]
        else:
            parts = [Part(NAME, Kind.NODE, (*own, *COLUMNS[Kind.NODE]), (node,), self._period, wire=False)]
            for kind in (Kind.PORT, Kind.GPU):
                rows = {row[1]: address for address, row in self.places.pci.items() if row[0] is kind}
                if kind is Kind.PORT:
                    rows = {row[1]: rows.get(row[1], "") for row in self.places.device.values()}
                components = [Component(name, _labels(kind, name, pci)) for name, pci in sorted(rows.items())]
                if components:
                    parts += row_parts(NAME, kind, components, COLUMNS[kind], self._period)
        self._shape_is(tuple(parts))


def _labels(kind: Kind, name: str, pci: str) -> dict[str, str]:
    if kind is Kind.GPU:
        return {"gpu": name.removeprefix("gpu"), "pci": pci}
    device, _, port = name.rpartition("/")
    return {"device": device, "port": port} | ({"pci": pci} if pci else {})
