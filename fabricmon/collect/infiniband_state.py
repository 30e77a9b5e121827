"""State of RDMA ports, once a second: logical and physical state, LIDs, rate, and how often the link went down.

One question each port where the kernel has RDMA netlink (PORT_GET), the files of the port otherwise. `rate` has a file
only, and a read of it costs as much as the whole state: it is read when the state changed and every `rate_interval`.
A port that is up, and whose network interface would tell of a change, is asked every `confirm` only: each question
costs its adapter firmware commands. A change of the interface makes a read at once. In between, `link_downed` of an
InfiniBand port is read every `recount`, and if it moved the port is asked; a RoCE port's link is its interface's own.
"""

from __future__ import annotations

import errno
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from fabricmon.collect import attributes, rdma_device
from fabricmon.collect.hardware_cost import Cost, cost_of
from fabricmon.collect.link_witness import LinkWitness
from fabricmon.collect.refusal import Patience
from fabricmon.host.protocol import BulkReader, Host, HostError, RdmaPort, Unsupported
from fabricmon.model import Component, Event, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "infiniband_state"
_T = TypeVar("_T")
_GONE = frozenset({errno.ENOENT, errno.ENODEV})
_STATE, _PHYS, _LID, _SM_LID, _RATE, _WIDTH, _DOWNED = range(7)
_COLUMNS = ("state", "phys_state", "lid", "sm_lid", "rate", "width")
_FILES: tuple[tuple[int, str, Callable[[str], float]], ...] = (
    (_STATE, "state", attributes.state),
    (_PHYS, "phys_state", attributes.phys_state),
    (_LID, "lid", attributes.identifier),
    (_SM_LID, "sm_lid", attributes.identifier),
)


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.infiniband_state

    enabled        read the state of RDMA ports at all
    interval       between two reads
    deadline       for one device; after it the device's values are unknown until it answers
    rediscover     between two looks for new devices and ports
    rate_interval  between two reads of a port's rate while its state stays
    confirm        between two questions to a port that is up and whose network interface would tell of a change
    recount        between two reads of link_downed of such a port, where it is InfiniBand
    netlink        ask over RDMA netlink where the kernel has it
    """

    enabled: bool = True
    interval: Duration = Duration(1)
    deadline: Duration = Duration(2)
    rediscover: Duration = Duration(300)
    rate_interval: Duration = Duration(120)
    confirm: Duration = Duration(30)
    recount: Duration = Duration(10)
    netlink: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._sessions: dict[str, Session] = {}
        self._witness = LinkWitness(host)

    def sessions(self) -> dict[str, Session]:
        """A Session for each RDMA device that is to be read now."""
        names = rdma_device.devices(self._host)
        self._sessions = {
            n: self._sessions.get(n) or Session(self._host, self._config, n, self._witness) for n in names
        }
        return dict(self._sessions)

    def watch(self, tell: Callable[[Event | None], None]) -> Callable[[], None]:
        """Read at once when the network interface of a port changed. Where the host has no events this does nothing."""

        def changed(netdev: str) -> None:
            if not netdev or any(netdev in session.netdevs for session in tuple(self._sessions.values())):
                tell(None)

        try:
            return self._witness.watch(changed)
        except HostError:
            return lambda: None

    def close(self) -> None:
        self._sessions.clear()


@dataclass(slots=True)
class _Port:
    number: int
    row: str
    path: str
    base: int
    size: int
    link_layer: str
    files: tuple[tuple[int, str, Callable[[str], float]], ...]  # those that are there
    downed: BulkReader | None  # counters/link_downed, where the driver has it
    has_rate: bool
    netdev: str
    witnessed: int | None = None  # the interface's number when the port was asked, None: it was no witness
    asked_at: float = -math.inf
    counted_at: float = -math.inf  # when link_downed was read
    kept: tuple[float, ...] = ()  # what it answered
    state: tuple[float, float] = (math.nan, math.nan)  # (state, phys_state) when the rate was read
    rate: tuple[float, float] = (math.nan, math.nan)
    rate_at: float = -math.inf
    rate_fault: Fault | None = None


@dataclass(slots=True)
class _Run:
    """What one run gathers."""

    values: array[float]
    faults: list[Fault] = field(default_factory=list)
    errnos: list[int] = field(default_factory=list)
    asked: int = 0
    queries: int = 0

    def failed(self, row: str, source: str, text: str, number: int) -> None:
        self.faults.append(Fault(NAME, row, source, text))
        self.errnos.append(number)


class Session:
    """One device."""

    def __init__(self, host: Host, config: Config, device: str, witness: LinkWitness) -> None:
        self._host, self._config, self._device, self._witness = host, config, device, witness
        self.netdevs: frozenset[str] = frozenset()  # safe from any thread
        self._parts: tuple[Part, ...] = ()
        self._ports: list[_Port] = []
        self._size = 0
        self._index = -1
        self._cost: Cost = cost_of("")
        self._again = -math.inf
        self._patience = Patience()

    def read(self) -> Reading:
        now = self._host.monotonic()
        if now >= self._again:
            self._discover(now)
        run = _Run(array("d", [math.nan]) * self._size)
        if self._patience.waits(now):
            return Reading(self._parts, run.values, now)
        start = self._host.monotonic()
        for port in self._ports:
            witnessed = self._witness.number(port.netdev)  # before the port: a change in between is seen next time
            if self._stands(port, witnessed, now) and not self._downed_again(port, run, now):
                run.values[port.base : port.base + len(port.kept)] = array("d", port.kept)
                continue
            before = len(run.errnos)
            if not self._by_netlink(port, run):
                self._by_files(port, run)
            if port.counted_at < now:
                self._link_downed(port, run)
                port.counted_at = now
            self._rate(port, run, now)
            port.asked_at, port.witnessed = now, witnessed if len(run.errnos) == before else None
            port.kept = tuple(run.values[port.base : port.base + port.size])
        taken = (start + self._host.monotonic()) / 2
        if _GONE.intersection(run.errnos):
            self._again = -math.inf
        self._patience.saw(run.asked, run.errnos, now)
        return Reading(self._parts, run.values, taken, tuple(run.faults), run.queries)

    def _stands(self, port: _Port, witnessed: int | None, now: float) -> bool:
        """The port was up when it was asked, not long ago, and its interface has not changed since."""
        return (
            witnessed is not None
            and witnessed == port.witnessed
            and port.kept[_STATE] == attributes.ACTIVE
            and now - port.asked_at < float(self._config.confirm)
        )

    def _downed_again(self, port: _Port, run: _Run, now: float) -> bool:
        """Whether link_downed of a port that stands has moved, or cannot be read; looked at every `recount`."""
        if port.downed is None or port.link_layer == "Ethernet" or now - port.counted_at < float(self._config.recount):
            return False
        self._link_downed(port, run)
        port.counted_at = now
        moved = run.values[port.base + _DOWNED] != port.kept[_DOWNED]
        if moved:
            port.rate_at = now  # the link may have come back at another rate
        return moved

    def close(self) -> None:
        for port in self._ports:
            if port.downed is not None:
                port.downed.close()
        self._ports = []

    def _by_netlink(self, port: _Port, run: _Run) -> bool:
        """False where this port has to be read from its files."""
        if self._index < 0:
            return False
        run.asked += 1
        run.queries += self._cost.port(port.link_layer)
        try:
            told = self._host.rdma_port(self._index, port.number)
        except Unsupported:
            self._index = -1
            return False
        except HostError as error:
            run.failed(port.row, error.path, error.text, error.errno)
            self._again = -math.inf  # the number may be another device's now
            return True
        _put(port, told, run.values)
        return True

    def _by_files(self, port: _Port, run: _Run) -> None:
        for at, name, parse in port.files:
            run.asked += 1
            run.queries += self._cost.port(port.link_layer)
            value = self._file(port, name, parse, run)
            if value is not None:
                run.values[port.base + at] = value

    def _link_downed(self, port: _Port, run: _Run) -> None:
        if port.downed is None:
            return
        run.asked += 1
        run.queries += self._cost.counter_file
        for _, error in port.downed.read(run.values, port.base + _DOWNED):
            run.failed(port.row, error.path, error.text, error.errno)

    def _rate(self, port: _Port, run: _Run, now: float) -> None:
        """The rate of a port that is down says nothing (counters-ib.md section 4): it is not even read."""
        state = (run.values[port.base + _STATE], run.values[port.base + _PHYS])
        if state[0] == attributes.DOWN:
            port.state, port.rate, port.rate_fault = state, (math.nan, math.nan), None
            return
        if not port.has_rate:
            return
        if state != port.state or now >= port.rate_at:
            before = len(run.faults)
            run.asked += 1
            run.queries += self._cost.port(port.link_layer)
            value = self._file(port, "rate", attributes.rate, run)
            port.state, port.rate_at = state, now + float(self._config.rate_interval)
            port.rate = value or (math.nan, math.nan)
            port.rate_fault = run.faults[before] if value is None else None
        elif port.rate_fault is not None:
            run.faults.append(port.rate_fault)
        run.values[port.base + _RATE], run.values[port.base + _WIDTH] = port.rate

    def _file(self, port: _Port, name: str, parse: Callable[[str], _T], run: _Run) -> _T | None:
        path = f"{port.path}/{name}"
        try:
            return parse(self._host.read(path, 256).decode("utf-8", "replace"))
        except HostError as error:
            run.failed(port.row, path, error.text, error.errno)
        except ValueError as error:
            run.failed(port.row, path, str(error), 0)
        return None

    def _discover(self, now: float) -> None:
        """Look which ports the device has. HostError where it has gone."""
        numbers = rdma_device.ports(self._host, self._device)
        self.close()
        self._index = self._netlink_index()
        self._cost = cost_of(rdma_device.driver_of(self._host, self._device))
        parts: list[Part] = []
        base = 0
        for number in numbers:
            row = rdma_device.row_name(self._device, number)
            path = f"{rdma_device.CLASS}/{self._device}/ports/{number}"
            labels = rdma_device.labels(self._host, self._device, number)
            try:
                present = set(self._host.list(path))
            except HostError:
                continue  # went between two looks
            downed = None
            if "link_downed" in self._names(f"{path}/counters"):
                downed = self._host.bulk([f"{path}/counters/link_downed"])
            link_layer, has_rate = labels.get("link_layer", ""), "rate" in present
            # Ethernet has no LIDs; its files say 0, which on InfiniBand means that no subnet manager came by
            useless = (_LID, _SM_LID) if link_layer == "Ethernet" else ()
            files = tuple(f for f in _FILES if f[1] in present and f[0] not in useless)
            columns = (*_COLUMNS, "link_downed") if downed else _COLUMNS
            netdev = labels.get("netdev", "")
            self._ports.append(
                _Port(number, row, path, base, len(columns), link_layer, files, downed, has_rate, netdev)
            )
            parts.append(Part(NAME, Kind.PORT, columns, (Component(row, labels),), float(self._config.interval)))
            base += len(columns)
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
        self._size = base
        self.netdevs = frozenset(port.netdev for port in self._ports if port.netdev)
        self._again = now + float(self._config.rediscover)

    def _names(self, path: str) -> list[str]:
        try:
            return self._host.list(path)
        except HostError:
            return []

    def _netlink_index(self) -> int:
        if not self._config.netlink:
            return -1
        try:
            known = self._host.rdma_devices()
        except HostError:
            return -1
        return next((d.index for d in known if d.name == self._device), -1)


def _put(port: _Port, told: RdmaPort, values: array[float]) -> None:
    values[port.base + _STATE], values[port.base + _PHYS] = told.state, told.phys_state
    if told.lid is not None:
        values[port.base + _LID] = told.lid
    if told.sm_lid is not None:
        values[port.base + _SM_LID] = told.sm_lid
