"""GPUs as ends of links: place in the NVLink fabric, PCIe link and its errors, what the driver wants done, Xid errors.

A run costs six NVML calls a GPU, one of them a batch of fields. An Xid error is told at once by an event; it carries
its number only, the text is in the kernel log (counters-nvlink-pcie.md 2.5).
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from fabricmon.catalogue.gpu import FIELDS, HEALTH_BITS, fabric_health
from fabricmon.collect import gpus
from fabricmon.host.gpus import LACKING, SUCCESS, Gpu, GpuEvent, GpuFabric, GpuPcie
from fabricmon.host.protocol import Host, HostError, Unsupported
from fabricmon.model import Component, Event, Fault, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "gpu"
_FABRIC = (
    "gpu_fabric_state", "gpu_fabric_status", "gpu_fabric_health_verdict", *HEALTH_BITS,
    "gpu_fabric_incorrect_configuration",
)  # fmt: skip
_PCIE = ("gpu_pcie_generation", "gpu_pcie_max_generation", "gpu_pcie_width", "gpu_pcie_max_width")
_XID = ("gpu_xid_events", "gpu_last_xid")


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.gpu

    enabled     ask NVML for the GPUs at all
    interval    between two reads
    deadline    for one GPU; after it its values are unknown until it answers
    rediscover  between two looks for new GPUs and for what they can tell
    xid         listen for Xid errors
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    xid: bool = True


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._sessions: dict[str, Session] = {}
        self._xids = Xids()

    def sessions(self) -> dict[str, Session]:
        make = partial(Session, self._host, self._config, self._xids)
        self._sessions = gpus.sessions(self._host, self._sessions, make)
        return dict(self._sessions)

    def watch(self, tell: Callable[[Event | None], None]) -> Callable[[], None]:
        """Tell of Xid errors from another thread. Where the host has no such events this does nothing."""
        if not self._config.xid:
            return lambda: None

        def heard(event: GpuEvent) -> None:
            self._xids.add(event)
            row = gpus.row_name(event.index) if event.index >= 0 else ""
            at = f"GPU {event.index} ({event.pci})" if row else "a GPU"
            text = f"Xid {event.xid} on {at}"
            tell(Event(0, time.time(), "xid", row, text, {"xid": float(event.xid)}, of=Kind.GPU))

        try:
            stop = self._host.gpus.watch(heard)
        except Unsupported:
            return lambda: None
        self._xids.heard = True
        return stop

    def close(self) -> None:
        self._sessions.clear()


class Xids:
    """Xid errors since the agent listens, by the GPU's number. `heard`: somebody listens."""

    def __init__(self) -> None:
        self.heard = False
        self._counts: dict[int, tuple[int, int]] = {}

    def add(self, event: GpuEvent) -> None:
        self._counts[event.index] = self._counts.get(event.index, (0, 0))[0] + 1, event.xid

    def of(self, index: int) -> tuple[float, float]:
        """How many, and the last one's number; NaN what is not known."""
        if not self.heard:
            return math.nan, math.nan
        count, last = self._counts.get(index, (0, 0))
        return float(count), float(last) if count else math.nan


class Session:
    """One GPU."""

    def __init__(self, host: Host, config: Config, xids: Xids, gpu: Gpu) -> None:
        self.gpu = gpu
        self._host, self._config, self._xids = host, config, xids
        self._parts: tuple[Part, ...] = ()
        self._columns: tuple[str, ...] = ()
        self._fields: tuple[str, ...] = ()
        self._identity: tuple[object, ...] = ()
        self._again = -math.inf

    def read(self) -> Reading:
        host, index = self._host, self.gpu.index
        if self.gpu.lost:
            raise HostError(gpus.row_name(index), 0, self.gpu.lost)
        start = host.monotonic()
        faults: list[Fault] = []
        asked = tuple(FIELDS) if start >= self._again else self._fields
        answers = host.gpus.fields(index, [(FIELDS[column], 0) for column in asked])
        fabric = self._fabric(faults)
        pcie = host.gpus.pcie(index)
        taken = (start + host.monotonic()) / 2
        if start >= self._again:
            self._fields = tuple(c for c, code in zip(asked, answers.codes, strict=True) if code not in LACKING)
            self._again = start + float(self._config.rediscover)
        self._shape(fabric)
        known = dict(zip(asked, answers.values, strict=True)) | _of_fabric(fabric) | _of_pcie(pcie)
        known.update(zip(_XID, self._xids.of(index), strict=True))
        for column, code in zip(asked, answers.codes, strict=True):
            if code != SUCCESS and column in self._fields:
                source = f"NVML field {FIELDS[column]}"
                faults.append(Fault(NAME, gpus.row_name(index), source, f"NVML error {code}"))
        values = array("d", [known.get(column, math.nan) for column in self._columns])
        return Reading(self._parts, values, taken, tuple(faults))

    def close(self) -> None:
        """Nothing is open."""

    def _fabric(self, faults: list[Fault]) -> GpuFabric | None:
        """None where the GPU is of no NVLink fabric, or cannot tell now."""
        try:
            return self._host.gpus.fabric(self.gpu.index)
        except Unsupported:
            return None
        except HostError as error:
            faults.append(Fault(NAME, gpus.row_name(self.gpu.index), error.path, error.text))
            return None

    def _shape(self, fabric: GpuFabric | None) -> None:
        """Rows and columns; the fabric manager may give the GPU another clique at any time."""
        labels = gpus.labels(self.gpu, fabric)
        identity = (tuple(labels.items()), self._fields, fabric is None)
        if identity == self._identity:
            return
        self._identity = identity
        columns = (*(() if fabric is None else _FABRIC), *_PCIE, *_XID, *self._fields)
        wired, staying = gpus.by_wire(columns)
        row = (Component(gpus.row_name(self.gpu.index), labels),)
        period = float(self._config.interval)
        parts = [Part(NAME, Kind.GPU, wired, row, period)]
        if staying:
            parts.append(Part(NAME, Kind.GPU, staying, row, period, wire=False))
        self._parts, self._columns = tuple(parts), (*wired, *staying)


def _of_fabric(fabric: GpuFabric | None) -> dict[str, float]:
    if fabric is None:
        return {}
    return {
        "gpu_fabric_state": float(fabric.state),
        "gpu_fabric_status": _known(fabric.status),
        "gpu_fabric_health_verdict": _known(fabric.summary),
    } | fabric_health(fabric.health)


def _of_pcie(pcie: GpuPcie) -> dict[str, float]:
    told = (pcie.generation, pcie.max_generation, pcie.width, pcie.max_width)
    return dict(zip(_PCIE, map(_known, told), strict=True))


def _known(value: int | None) -> float:
    return math.nan if value is None else float(value)
