"""State of RDMA ports, once a second: logical and physical state, LIDs, rate, and how often the link went down.

One PORT_GET a port where the kernel has RDMA netlink, the files of the port otherwise. `rate` is in a file only and
costs as much as the whole state: it is read after a change of state and every `rate_interval`. Each question costs the
adapter firmware commands, so a port that is up and whose network interface reports changes is asked every `confirm`
only, and at once after an event of the interface. In between, `link_downed` of an InfiniBand port is read every
`recount`; if it increased, the port is asked. The link of a RoCE port is that of its interface.
"""

from __future__ import annotations

import errno
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fabricmon.collect.collector import Collector, Notify, RdmaConfig, Session
from fabricmon.collect.cost.firmware import AdapterCost, adapter_cost
from fabricmon.collect.cost.refusal import Patience
from fabricmon.collect.link_witness import LinkWitness
from fabricmon.collect.machine import rdma_device
from fabricmon.collect.machine.files import names
from fabricmon.collect.machine.rows import known
from fabricmon.collect.parse import attributes
from fabricmon.host.protocol import BulkReader, Host, HostError, Unsupported
from fabricmon.model import Component, Fault, Kind, Part, Reading
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


class InfinibandStateConfig(RdmaConfig, frozen=True):
    """collect.infiniband_state

    rate_interval  between two reads of a port's rate while its state is unchanged
    confirm        between two questions to a port that is up and whose network interface reports changes
    recount        between two reads of link_downed of such an InfiniBand port
    """

    interval: Duration = Duration(1)
    deadline: Duration = Duration(2)
    rate_interval: Duration = Duration(120)
    confirm: Duration = Duration(30)
    recount: Duration = Duration(10)


def open(host: Host, config: InfinibandStateConfig) -> Collector[str]:
    """A collector that reads at once after a change of a port's network interface."""
    witness = LinkWitness(host)
    sessions: dict[str, InfinibandStateSession] = {}

    def find() -> dict[str, str]:
        found = {name: name for name in rdma_device.devices(host)}
        for gone in sessions.keys() - found:
            del sessions[gone]
        return found

    def make(device: str) -> InfinibandStateSession:
        sessions[device] = InfinibandStateSession(host, config, device, witness)
        return sessions[device]

    def watch(notify: Notify) -> Callable[[], None]:
        def changed(netdev: str) -> None:
            if not netdev or any(netdev in session.netdevs for session in tuple(sessions.values())):
                notify(None)

        try:
            return witness.watch(changed)
        except HostError:
            return lambda: None

    return Collector(find, make, watch=watch)


@dataclass(slots=True)
class _StatePort:
    number: int
    row: str
    path: str
    base: int
    size: int
    link_layer: str
    files: tuple[tuple[int, str, Callable[[str], float]], ...]  # those that exist
    downed: BulkReader | None  # counters/link_downed, where the driver has it
    has_rate: bool
    netdev: str
    witnessed: int | None = None  # LinkWitness.number when the port was asked
    asked_at: float = -math.inf
    counted_at: float = -math.inf  # when link_downed was read
    kept: tuple[float, ...] = ()  # the last answer
    state: tuple[float, float] = (math.nan, math.nan)  # (state, phys_state) when the rate was read
    rate: tuple[float, float] = (math.nan, math.nan)
    rate_at: float = -math.inf
    rate_fault: Fault | None = None


@dataclass(slots=True)
class _Run:
    """Results of one run."""

    values: array[float]
    faults: list[Fault] = field(default_factory=list)
    errnos: list[int] = field(default_factory=list)
    asked: int = 0
    queries: int = 0

    def failed(self, row: str, source: str, text: str, number: int) -> None:
        self.faults.append(Fault(NAME, row, source, text))
        self.errnos.append(number)


class InfinibandStateSession(Session[InfinibandStateConfig]):
    """One device."""

    def __init__(self, host: Host, config: InfinibandStateConfig, device: str, witness: LinkWitness) -> None:
        super().__init__(host, config)
        self._device, self._witness = device, witness
        self.netdevs: frozenset[str] = frozenset()  # safe from any thread
        self._ports: list[_StatePort] = []
        self._size = 0
        self._index = -1
        self._cost: AdapterCost = adapter_cost("")
        self._patience = Patience()

    def read(self) -> Reading:
        now = self._host.monotonic()
        if self._discovers(now):
            self._discover(now)
        run = _Run(array("d", [math.nan]) * self._size)
        if self._patience.waits(now):
            return Reading(self._parts, run.values, now)
        start = self._host.monotonic()
        for port in self._ports:
            witnessed = self._witness.number(port.netdev)  # before the port: a change in between counts next time
            if self._stands(port, witnessed, now) and not self._downed_again(port, run, now):
                run.values[port.base : port.base + len(port.kept)] = array("d", port.kept)
                continue
            before = len(run.errnos)
            if not self._by_netlink(port, run):
                for at, name, parse in port.files:
                    run.asked += 1
                    run.queries += self._cost.port(port.link_layer)
                    run.values[port.base + at] = known(self._file(port, name, parse, run))
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

    def _stands(self, port: _StatePort, witnessed: int | None, now: float) -> bool:
        """Whether the port was up less than `confirm` ago and its interface has not changed since."""
        return (
            witnessed is not None
            and witnessed == port.witnessed
            and port.kept[_STATE] == attributes.ACTIVE
            and now - port.asked_at < float(self._config.confirm)
        )

    def _downed_again(self, port: _StatePort, run: _Run, now: float) -> bool:
        """Whether link_downed of a port that stands has changed, or cannot be read; checked every `recount`."""
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

    def _by_netlink(self, port: _StatePort, run: _Run) -> bool:
        """False where this port has to be read from its files."""
        if self._index < 0:
            return False
        run.asked += 1
        run.queries += self._cost.port(port.link_layer)
        try:
            answer = self._host.rdma_port(self._index, port.number)
        except Unsupported:
            self._index = -1
            return False
        except HostError as error:
            run.failed(port.row, error.path, error.text, error.errno)
            self._again = -math.inf  # the number may now belong to another device
            return True
        values, base = run.values, port.base
        values[base + _STATE], values[base + _PHYS] = answer.state, answer.phys_state
        values[base + _LID], values[base + _SM_LID] = known(answer.lid), known(answer.sm_lid)
        return True

    def _link_downed(self, port: _StatePort, run: _Run) -> None:
        if port.downed is None:
            return
        run.asked += 1
        run.queries += self._cost.counter_file
        for _, error in port.downed.read(run.values, port.base + _DOWNED):
            run.failed(port.row, error.path, error.text, error.errno)

    def _rate(self, port: _StatePort, run: _Run, now: float) -> None:
        """The rate of a port that is down has no meaning (docs/methods.md#port-attributes) and is not read."""
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

    def _file(self, port: _StatePort, name: str, parse: Callable[[str], _T], run: _Run) -> _T | None:
        path = f"{port.path}/{name}"
        try:
            return parse(self._host.read(path, 256).decode("utf-8", "replace"))
        except HostError as error:
            run.failed(port.row, path, error.text, error.errno)
        except ValueError as error:
            run.failed(port.row, path, str(error), 0)
        return None

    def _discover(self, now: float) -> None:
        """Lay out the ports. HostError where the device has gone."""
        numbers = rdma_device.ports(self._host, self._device)
        self.close()
        self._index = rdma_device.netlink_index(self._host, self._device) if self._config.netlink else -1
        self._cost = adapter_cost(rdma_device.driver_of(self._host, self._device))
        parts: list[Part] = []
        base = 0
        for number in numbers:
            row = rdma_device.row_name(self._device, number)
            path = f"{rdma_device.CLASS}/{self._device}/ports/{number}"
            labels = rdma_device.labels(self._host, self._device, number)
            try:
                present = set(self._host.list(path))
            except HostError:
                continue  # removed meanwhile
            downed = None
            if "link_downed" in names(self._host, f"{path}/counters"):
                downed = self._host.bulk([f"{path}/counters/link_downed"])
            link_layer, has_rate = labels.get("link_layer", ""), "rate" in present
            # Ethernet has no LIDs; its files contain 0, which on InfiniBand means that no subnet manager assigned one
            useless = (_LID, _SM_LID) if link_layer == "Ethernet" else ()
            files = tuple(f for f in _FILES if f[1] in present and f[0] not in useless)
            columns = (*_COLUMNS, "link_downed") if downed else _COLUMNS
            netdev = labels.get("netdev", "")
            self._ports.append(
                _StatePort(number, row, path, base, len(columns), link_layer, files, downed, has_rate, netdev)
            )
            parts.append(Part(NAME, Kind.PORT, columns, (Component(row, labels),), self._period))
            base += len(columns)
        self._shape_is(tuple(parts))
        self._size = base
        self.netdevs = frozenset(port.netdev for port in self._ports if port.netdev)
        self._settle(now)

