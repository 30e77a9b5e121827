"""Reads the counters of one tier (port_counters.Tier) of each RDMA device: what the collectors `infiniband`,
`infiniband_errors` and `infiniband_rare` have in common.

One Session a device, so that a device whose firmware answers late, or never, delays itself only. Where the kernel has
RDMA netlink, all hw_counters of a port come in one STAT_GET instead of a file each; counters/ is in files only.
Counters of a whole device are on the row of its lowest port. `link_downed` belongs to `infiniband_state`.
"""

from __future__ import annotations

import errno
import math
from array import array
from dataclasses import dataclass
from typing import Protocol

from fabricmon.collect import port_counters, rdma_device
from fabricmon.collect.hardware_cost import cost_of
from fabricmon.collect.port_counters import File, Tier
from fabricmon.collect.refusal import Patience
from fabricmon.host.protocol import BulkReader, Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration

_ALL_ONES = 2**64 - 1
_GONE = frozenset({errno.ENOENT, errno.ENODEV})
_SUPPORTED = "supported"


class Config(Protocol):
    """What the Config of each of the three collectors has."""

    @property
    def interval(self) -> Duration: ...

    @property
    def rediscover(self) -> Duration: ...

    @property
    def netlink(self) -> bool: ...


class Collector:
    """All devices' counters of one tier."""

    def __init__(self, host: Host, config: Config, tier: Tier) -> None:
        self._host, self._config, self._tier = host, config, tier
        self._sessions: dict[str, Session] = {}

    def sessions(self) -> dict[str, Session]:
        """A Session for each RDMA device that is to be read now."""
        names = rdma_device.devices(self._host)
        self._sessions = {n: self._sessions.get(n) or Session(self._host, self._config, self._tier, n) for n in names}
        return dict(self._sessions)

    def close(self) -> None:
        self._sessions.clear()


@dataclass(slots=True)
class _Port:
    """How one port is read. Its values begin at `base`: `supported` where the tier has it, then the files, then what
    netlink tells.
    """

    number: int
    row: str
    base: int
    first: int  # place of the first counter
    files: tuple[File, ...]
    bulk: BulkReader
    told: dict[str, int]  # driver's name: place among the device's values
    asked: int  # counters


class Session:
    """One device."""

    def __init__(self, host: Host, config: Config, tier: Tier, device: str) -> None:
        self._host, self._config, self._tier, self._device = host, config, tier, device
        self._name = tier.value
        self._lead = (_SUPPORTED,) if tier is Tier.FAST else ()
        self._parts: tuple[Part, ...] = ()
        self._ports: list[_Port] = []
        self._scaled: list[tuple[int, float]] = []
        self._blank: array[float] = array("d")
        self._index = -1  # RDMA netlink's number of the device
        self._queries = 0
        self._again = -math.inf  # node time of the next discovery
        self._patience = Patience()
        self._lasting: tuple[Fault, ...] = ()  # faults of the discovery

    def read(self) -> Reading:
        now = self._host.monotonic()
        if self._patience.waits(now):
            return Reading(self._parts, self._refused(), now)
        if now >= self._again:
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
            if port.told:
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

    def _ask(self, port: _Port, values: array[float], faults: list[Fault]) -> list[int]:
        """Fill in what STAT_GET tells of a port; returns the errno of each value that it does not."""
        try:
            counters = self._host.rdma_counters(self._index, port.number)
        except HostError as error:
            faults.append(Fault(self._name, port.row, error.path, error.text))
            self._again = -math.inf  # the number may be another device's now, or the files the better way
            return [error.errno] * len(port.told)
        missing = 0
        for name, at in port.told.items():
            value = counters.get(name)
            if value is None or value == _ALL_ONES:
                missing += 1
                told = "not in the answer" if value is None else "all 64 bits are set: not a value"
                faults.append(Fault(self._name, port.row, f"STAT_GET {name}", told))
            else:
                values[at] = value
        if len(counters) != len(port.told):
            self._again = -math.inf  # an optional counter was switched on or off
        return [0] * missing

    def _discover(self, now: float) -> None:
        """Look what the device offers. HostError where it has gone."""
        numbers = rdma_device.ports(self._host, self._device)
        self.close()
        self._index = self._netlink_index()
        driver = rdma_device.driver_of(self._host, self._device)
        cost = cost_of(driver)
        parts: list[Part] = []
        lasting: list[Fault] = []
        self._scaled, self._queries = [], 0
        base = 0
        for number in numbers:
            row = rdma_device.row_name(self._device, number)
            found = port_counters.find(self._host, self._device, number, number == numbers[0])
            if self._tier is Tier.FAST:
                lasting += [Fault(self._name, row, e.path, e.text) for e in found.errors]
            labels = rdma_device.labels(self._host, self._device, number)
            chosen = found.of(self._tier, labels.get("link_layer") == "Ethernet")
            told_names = self._told(number) if self._tier is found.hw_tier else ()
            names = {f.name for f in chosen if f.directory == "hw_counters"}
            files = tuple(f for f in chosen if f.directory != "hw_counters" or f.name not in told_names)
            told = [File("hw_counters", n, f"STAT_GET {n}") for n in told_names]
            if not files and not told:
                continue
            order = (*files, *told)
            columns = port_counters.columns([*(f for f in found.files if f not in chosen), *order])
            first = base + len(self._lead)
            self._scaled += [
                (first + i, scale) for i, f in enumerate(order) if (scale := port_counters.scale_of(columns[f])) != 1.0
            ]
            bulk = self._host.bulk([f.path for f in files])
            places = {f.name: first + len(files) + i for i, f in enumerate(told)}
            self._ports.append(_Port(number, row, base, first, files, bulk, places, len(order)))
            self._queries += cost.counter_file * sum(f.directory.startswith("counters") for f in files)
            self._queries += cost.hw_refresh if told or names else 0
            parts.append(
                Part(
                    self._name,
                    Kind.PORT,
                    (*self._lead, *(columns[f] for f in order)),
                    (Component(row, labels if self._tier is Tier.FAST else _naming(labels)),),
                    float(self._config.interval),
                )
            )
            base = first + len(order)
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
        self._blank = array("d", [math.nan]) * base
        if self._lead:
            for port in self._ports:
                self._blank[port.base] = 1.0
        self._lasting = tuple(lasting)
        self._again = now + float(self._config.rediscover)

    def _netlink_index(self) -> int:
        if not self._config.netlink:
            return -1
        try:
            known = self._host.rdma_devices()
        except HostError:
            return -1
        return next((d.index for d in known if d.name == self._device), -1)

    def _told(self, port: int) -> tuple[str, ...]:
        """Names STAT_GET has of a port; none where it cannot be had, then the files are read."""
        if self._index < 0:
            return ()
        try:
            return tuple(self._host.rdma_counters(self._index, port))
        except HostError:
            return ()


def _naming(labels: dict[str, str]) -> dict[str, str]:
    """What names the row; its other facts come with `infiniband` and `infiniband_state`."""
    return {key: labels[key] for key in ("device", "port", "netdev") if key in labels}
