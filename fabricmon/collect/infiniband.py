"""Counters of RDMA ports, in three tiers (port_counters.Tier), each a collector.

`infiniband`         bytes, symbol errors and credit wait. Of a driver without counters/ (EFA, bnxt_re, irdma, soft
                     RoCE) all hw_counters, which include its bytes and errors. Of an Ethernet port bytes only: its
                     errors come from `roce` and `ethernet_phy`
`infiniband_errors`  errors, and hw_counters of drivers that also have counters/
`infiniband_rare`    packets by type, partition and management errors, errors of an earlier hop. No rule uses them

One Session a device, so that slow firmware delays only its own device. Where the kernel has RDMA netlink, all
hw_counters of a port come in one STAT_GET instead of a file each; counters/ is in files only. Counters of a whole
device are on the row of its lowest port. `link_downed` belongs to `infiniband_state`.
"""

from __future__ import annotations

import errno
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fabricmon.collect.collector import Collector, RdmaConfig, Session
from fabricmon.collect.cost.firmware import adapter_cost
from fabricmon.collect.cost.refusal import Patience
from fabricmon.collect.devices import each_rdma_device
from fabricmon.collect.machine import port_counters, rdma_device
from fabricmon.collect.machine.port_counters import CounterFile, Tier
from fabricmon.host.protocol import BulkReader, Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

_ALL_ONES = 2**64 - 1
_GONE = frozenset({errno.ENOENT, errno.ENODEV})
_SUPPORTED = "supported"


class InfinibandConfig(RdmaConfig, frozen=True):
    """collect.infiniband. Each file of counters/ costs an adapter one firmware command
    (docs/methods.md#firmware-commands)."""


class InfinibandErrorsConfig(RdmaConfig, frozen=True):
    """collect.infiniband_errors. On mlx5 a read costs 8 firmware commands an InfiniBand port, 3 an Ethernet port."""

    interval: Duration = Duration(30)


class InfinibandRareConfig(RdmaConfig, frozen=True):
    """collect.infiniband_rare. On mlx5 a read costs 11 firmware commands an InfiniBand port, 18 an Ethernet port."""

    interval: Duration = Duration(120)


@dataclass(slots=True)
class _CountedPort:
    """How one port is read. Its values begin at `base`: `supported` where the tier has it, then files, then netlink."""

    number: int
    row: str
    base: int
    first: int  # place of the first counter
    files: tuple[CounterFile, ...]
    bulk: BulkReader
    netlink: dict[str, int]  # driver's name: place among the device's values
    asked: int  # counters


class CounterSession(Session[RdmaConfig]):
    """One tier of one device."""

    def __init__(self, tier: Tier, host: Host, config: RdmaConfig, device: str) -> None:
        super().__init__(host, config)
        self._tier, self._device = tier, device
        self._name = tier.value
        self._lead = (_SUPPORTED,) if tier is Tier.FAST else ()
        self._ports: list[_CountedPort] = []
        self._scaled: list[tuple[int, float]] = []
        self._blank: array[float] = array("d")
        self._index = -1  # RDMA netlink's number of the device
        self._queries = 0
        self._patience = Patience()
        self._lasting: tuple[Fault, ...] = ()  # faults of the discovery

    def read(self) -> Reading:
        now = self._host.monotonic()
        if self._patience.waits(now):
            return Reading(self._parts, self._refused(), now)
        if self._discovers(now):
            self._discover(now)
        values = self._blank[:]
        faults: list[Fault] = []
        asked, errnos = 0, []
        start = self._host.monotonic()
        for port in self._ports:
            asked += port.asked
            for i, error in port.bulk.read(values, port.first):
                faults.append(Fault(self._name, port.row, port.files[i].path, error.text))
                errnos.append(error.errno)
            if port.netlink:
                errnos += self._ask(port, values, faults)
        taken = (start + self._host.monotonic()) / 2
        for at, scale in self._scaled:
            values[at] *= scale
        if errnos:
            if _GONE.intersection(errnos):
                self._again = -math.inf
            self._patience.saw(asked, errnos, now)
            if self._patience.waits(now):
                values = self._refused()
        elif asked:
            self._patience.saw(asked, (), now)
        return Reading(self._parts, values, taken, (*self._lasting, *faults), self._queries)

    def close(self) -> None:
        for port in self._ports:
            port.bulk.close()
        self._ports = []

    def _refused(self) -> array[float]:
        values = array("d", [math.nan]) * len(self._blank)
        if self._lead:
            for port in self._ports:
                values[port.base] = 0.0
        return values

    def _ask(self, port: _CountedPort, values: array[float], faults: list[Fault]) -> list[int]:
        """Fill in the answer to STAT_GET; returns the errno of each value that is missing."""
        try:
            counters = self._host.rdma_counters(self._index, port.number)
        except HostError as error:
            faults.append(Fault(self._name, port.row, error.path, error.text))
            self._again = -math.inf  # the number may now belong to another device
            return [error.errno] * len(port.netlink)
        missing = 0
        for name, at in port.netlink.items():
            value = counters.get(name)
            if value is None or value == _ALL_ONES:
                missing += 1
                text = "not in the answer" if value is None else "all 64 bits are set: not a value"
                faults.append(Fault(self._name, port.row, f"STAT_GET {name}", text))
            else:
                values[at] = value
        if len(counters) != len(port.netlink):
            self._again = -math.inf  # an optional counter was switched on or off
        return [0] * missing

    def _discover(self, now: float) -> None:
        """Lay out the ports. HostError where the device has gone."""
        numbers = rdma_device.ports(self._host, self._device)
        self.close()
        self._index = rdma_device.netlink_index(self._host, self._device) if self._config.netlink else -1
        self._scaled, self._queries, self._lasting = [], 0, ()
        self._blank = array("d")
        parts = [part for number in numbers if (part := self._port(number, number == numbers[0])) is not None]
        self._shape_is(tuple(parts))
        self._settle(now)

    def _port(self, number: int, first: bool) -> Part | None:
        """Lay out one port after those before it; None where this tier has none of its counters. `first`: the counters
        of the whole device are on its row."""
        row = rdma_device.row_name(self._device, number)
        found = port_counters.find(self._host, self._device, number, first)
        labels = rdma_device.labels(self._host, self._device, number)
        chosen = found.of_tier(self._tier, labels.get("link_layer") == "Ethernet")
        if self._tier is Tier.FAST:
            self._lasting += tuple(Fault(self._name, row, e.path, e.text) for e in found.errors)
        else:  # labels that identify the row; the others come with `infiniband` and `infiniband_state`
            labels = {key: labels[key] for key in ("device", "port", "netdev") if key in labels}
        answered = self._netlink_names(number) if self._tier is found.hw_tier else ()
        files = tuple(f for f in chosen if f.directory != "hw_counters" or f.name not in answered)
        netlink = [CounterFile("hw_counters", n, f"STAT_GET {n}") for n in answered]
        order = (*files, *netlink)
        if not order:
            return None
        columns = port_counters.columns([*(f for f in found.files if f not in chosen), *order])
        base = len(self._blank)
        at = base + len(self._lead)
        scales = [port_counters.scale_of(columns[file]) for file in order]
        self._scaled += [(at + i, scale) for i, scale in enumerate(scales) if scale != 1.0]
        bulk = self._host.bulk([f.path for f in files])
        places = {f.name: at + len(files) + i for i, f in enumerate(netlink)}
        self._ports.append(_CountedPort(number, row, base, at, files, bulk, places, len(order)))
        cost = adapter_cost(rdma_device.driver_of(self._host, self._device))
        refreshes = any(f.directory == "hw_counters" for f in (*chosen, *netlink))
        self._queries += cost.counter_file * sum(f.directory.startswith("counters") for f in files)
        self._queries += cost.hw_refresh * refreshes
        self._blank.extend([1.0] * len(self._lead) + [math.nan] * len(order))
        names = (*self._lead, *(columns[file] for file in order))
        return Part(self._name, Kind.PORT, names, (Component(row, labels),), self._period)

    def _netlink_names(self, port: int) -> tuple[str, ...]:
        """Names in the answer to STAT_GET; none where it fails, then the files are read."""
        if self._index < 0:
            return ()
        try:
            return tuple(self._host.rdma_counters(self._index, port))
        except HostError:
            return ()


def open_tier(tier: Tier) -> Callable[[Host, RdmaConfig], Collector[str]]:
    """Opens the collector of one tier."""
    return each_rdma_device(partial(CounterSession, tier))
