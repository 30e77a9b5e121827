"""GPUs: NVLink fabric registration and health, PCIe link and its errors, recovery action, Xid errors.

A run costs eight NVML calls a GPU, one of them a batch of fields, most of which are read once a minute only. An Xid
error is an event at once; it carries only the number, the text is in the kernel log (docs/methods.md#gpu-fabric-state).
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.gpu import FIELDS, HEALTH_BITS, NO_FABRIC, fabric_health
from fabricmon.collect.collector import Collector, CollectorConfig, Notify, Session
from fabricmon.collect.machine import gpus, rows
from fabricmon.collect.machine.rows import known
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.host.protocol.gpus import LACKING, SUCCESS, Gpu, GpuEvent, GpuFabric
from fabricmon.model import Component, Event, Fault, Kind, Reading

NAME = "gpu"
DETAILS_S = 60.0
"""Between two readings of the PCIe error fields that only /metrics has: each costs 170 to 440 us of processor time
(docs/methods.md#gpu-pcie-traffic)."""
_FABRIC = (
    "gpu_fabric_state", "gpu_fabric_status", "gpu_fabric_health_verdict", *HEALTH_BITS,
    "gpu_fabric_incorrect_configuration",
)  # fmt: skip
_PCIE = ("gpu_pcie_generation", "gpu_pcie_max_generation", "gpu_pcie_width", "gpu_pcie_max_width")
_TRAFFIC = ("gpu_pcie_tx", "gpu_pcie_rx")
_XID = ("gpu_xid_events", "gpu_last_xid")


class GpuConfig(CollectorConfig, frozen=True):
    """collect.gpu

    xid  listen for Xid errors
    """

    xid: bool = True


def open(host: Host, config: GpuConfig) -> Collector[Gpu]:
    """A collector with Xid errors as events."""
    xids = Xids()

    def watch(notify: Notify) -> Callable[[], None]:
        def receive(event: GpuEvent) -> None:
            xids.add(event)
            row = gpus.row_name(event.index) if event.index >= 0 else ""
            at = f"GPU {event.index} ({event.pci})" if row else "a GPU"
            text = f"Xid {event.xid} on {at}"
            notify(Event(0, time.time(), "xid", row, text, {"xid": float(event.xid)}, of=Kind.GPU))

        try:
            stop = host.gpus.watch(receive) if config.xid else None
        except Unsupported:
            stop = None
        xids.watched = stop is not None
        return stop or (lambda: None)

    return Collector(lambda: gpus.found(host), lambda gpu: GpuSession(host, config, xids, gpu), gpus.same, watch)


class Xids:
    """Xid errors since the start of the agent, by the GPU's number. `watched`: NVML reports them."""

    def __init__(self) -> None:
        self.watched = False
        self._counts: dict[int, tuple[int, int]] = {}

    def add(self, event: GpuEvent) -> None:
        self._counts[event.index] = self._counts.get(event.index, (0, 0))[0] + 1, event.xid

    def count(self, index: int) -> tuple[float, float]:
        """How many, and the number of the last; NaN where unknown."""
        if not self.watched:
            return math.nan, math.nan
        count, last = self._counts.get(index, (0, 0))
        return float(count), float(last) if count else math.nan


class GpuSession(Session[GpuConfig]):
    """One GPU."""

    def __init__(self, host: Host, config: GpuConfig, xids: Xids, gpu: Gpu) -> None:
        super().__init__(host, config)
        self._xids, self.gpu = xids, gpu
        self._columns: tuple[str, ...] = ()
        self._fields: tuple[str, ...] = ()
        self._details_again = -math.inf  # node time of the next reading of all fields
        self._answers: dict[str, float] = {}  # column: the newest value
        self._faulty: dict[str, Fault] = {}  # of columns whose newest question failed
        self._traffic: tuple[str, ...] = ()
        self._identity: tuple[object, ...] = ()

    def read(self) -> Reading:
        host, index = self._host, self.gpu.index
        if self.gpu.lost:
            raise HostError(gpus.row_name(index), 0, self.gpu.lost)
        start = host.monotonic()
        faults: list[Fault] = []
        self._ask(start)
        fabric = self._fabric(faults)
        pcie = host.gpus.pcie(index)
        taken = (start + host.monotonic()) / 2
        self._traffic = _TRAFFIC if pcie.measured else ()
        self._shape(fabric)
        found = self._answers | _of_fabric(fabric)
        links = (pcie.generation, pcie.max_generation, pcie.width, pcie.max_width)
        found.update(zip((*_PCIE, *_XID), (*map(known, links), *self._xids.count(index)), strict=True))
        found.update(zip(_TRAFFIC, map(known, (pcie.tx, pcie.rx)), strict=True))
        values = array("d", [found.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, (*self._faulty.values(), *faults))

    def _ask(self, now: float) -> None:
        """Read the fields that are due: all of them at a discovery, those that only /metrics has every DETAILS_S."""
        due = self._discovers(now)
        detailed = due or now >= self._details_again
        asked = tuple(FIELDS) if due else tuple(c for c in self._fields if detailed or CATALOGUE[c].wire)
        answers = self._host.gpus.fields(self.gpu.index, [(FIELDS[column], 0) for column in asked])
        if due:
            self._fields = tuple(c for c, code in zip(asked, answers.codes, strict=True) if code not in LACKING)
            self._settle(now)
        if detailed:
            self._details_again = now + DETAILS_S
        row = gpus.row_name(self.gpu.index)
        for column, value, code in zip(asked, answers.values, answers.codes, strict=True):
            self._answers[column] = value
            self._faulty.pop(column, None)
            if code != SUCCESS and column in self._fields:
                self._faulty[column] = Fault(NAME, row, f"NVML field {FIELDS[column]}", f"NVML error {code}")

    def _fabric(self, faults: list[Fault]) -> GpuFabric | None:
        """None where the GPU is in no NVLink fabric, or the question fails."""
        try:
            fabric = self._host.gpus.fabric(self.gpu.index)
            return fabric if fabric.state != NO_FABRIC else None
        except Unsupported:
            return None
        except HostError as error:
            faults.append(Fault(NAME, gpus.row_name(self.gpu.index), error.path, error.text))
            return None

    def _shape(self, fabric: GpuFabric | None) -> None:
        """Set rows and columns; the fabric manager may change the GPU's clique at any time."""
        labels = gpus.labels(self.gpu, fabric)
        identity = (tuple(labels.items()), self._fields, self._traffic, fabric is None)
        if identity == self._identity:
            return
        self._identity = identity
        columns = (*(() if fabric is None else _FABRIC), *_PCIE, *self._traffic, *_XID, *self._fields)
        self._columns = rows.ordered(columns)
        row = Component(gpus.row_name(self.gpu.index), labels)
        self._parts = rows.parts(NAME, Kind.GPU, (row,), columns, self._period)


def _of_fabric(fabric: GpuFabric | None) -> dict[str, float]:
    if fabric is None:
        return {}
    return {
        "gpu_fabric_state": float(fabric.state),
        "gpu_fabric_status": known(fabric.status),
        "gpu_fabric_health_verdict": known(fabric.summary),
    } | fabric_health(fabric.health)
