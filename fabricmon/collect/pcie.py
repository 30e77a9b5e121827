"""PCIe: the link of every network adapter, GPU and NVSwitch, of the bridges above it, and the errors the kernel counts.

The possible speed and width of a link are the smaller ones of its two ends, so an adapter with 16 lanes in a slot of 8
is not a fault. A device without a bridge above it (most virtual machines) has no visible far end and is not compared.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fabricmon.catalogue.pcie import ABOVE, CORRECTABLE, SEVERITIES, UNCORRECTABLE
from fabricmon.collect.collector import CollectorConfig, Session
from fabricmon.collect.machine import pci
from fabricmon.collect.machine.files import names
from fabricmon.collect.machine.rows import filled
from fabricmon.host.protocol import Host, HostError, reason
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.topology import affinity

NAME = "pcie"
MOST_NEAR = 8  # names in the label `nearest`
_LINK = ("pcie_speed", "pcie_max_speed", "pcie_width", "pcie_max_width")
_SHARES = {
    "pcie_path_width": ("pcie_width", "pcie_max_width"),
    "pcie_path_speed": ("pcie_speed", "pcie_max_speed"),
}
_UNREAD = "pcie_unread_files"
_TOTALS = tuple(f"pcie_aer_{severity}_errors" for severity in SEVERITIES)
_BY_SORT = tuple(f"pcie_aer_correctable_{name}" for name in CORRECTABLE)
_WORSE_BY_SORT = tuple(f"pcie_aer_{severity}_{name}" for severity in SEVERITIES[1:] for name in UNCORRECTABLE)
_FILES: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("pcie_speed", "current_link_speed", pci.speed),
    ("pcie_width", "current_link_width", pci.width),
)
_LIMITS: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("pcie_max_speed", "max_link_speed", pci.speed),
    ("pcie_max_width", "max_link_width", pci.width),
)


@dataclass(slots=True)
class _End:
    """A function with a link.

    above     bridges above it, the root port first
    limits    column -> maximum of this end
    files     severities with an error file
    unread    faults of the limits
    possible  column -> maximum of both ends; NaN where the far end is not visible
    values    column -> value of this run
    failed    deciding files that this run could not read
    """

    address: str
    directory: str
    above: tuple[str, ...]
    limits: dict[str, float]
    files: tuple[str, ...]
    unread: tuple[Fault, ...] = ()
    possible: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    failed: int = 0


class PcieSession(Session[CollectorConfig]):
    """All devices of the machine."""

    def __init__(self, host: Host, config: CollectorConfig) -> None:
        super().__init__(host, config)
        self._functions: list[pci.Function] = []
        self._ends: dict[str, _End] = {}
        self._spoilt: frozenset[str] = frozenset()  # addresses with an uncorrectable error: shown by type

    def read(self) -> Reading:
        start = self._host.monotonic()
        faults: list[Fault] = []
        if self._discovers(start):
            self._discover(start)
        start = self._host.monotonic()
        for end in self._ends.values():
            self._read_end(end, faults)
        taken = (start + self._host.monotonic()) / 2
        spoilt = frozenset(a for a, end in self._ends.items() if any(end.values.get(c, 0) > 0 for c in _TOTALS[1:]))
        if spoilt != self._spoilt:
            self._spoilt = spoilt
            self._shape()
        for function in self._functions:
            self._path(function)
        values = array("d")
        for part in self._parts:
            for component in part.components:
                known = self._ends[component.name].values
                values.extend([known.get(column, math.nan) for column in part.columns])
        return Reading(self._parts, values, taken, tuple(faults))

    def _read_end(self, end: _End, faults: list[Fault]) -> None:
        end.values = dict(end.limits)
        faults.extend(end.unread)
        end.failed = len(end.unread)
        for column, name, parse in _FILES:
            path = f"{end.directory}/{name}"
            try:
                end.values[column] = parse(self._host.read(path, 64).decode("ascii", "replace"))
            except (HostError, ValueError) as error:
                if end.limits or isinstance(error, ValueError):  # a function without a link has neither file
                    faults.append(Fault(NAME, end.address, path, reason(error)))
                    end.failed += 1
        unread = 0
        for severity in end.files:
            path = f"{end.directory}/aer_dev_{severity}"
            try:
                self._errors(end, severity, self._host.read(path, 4096).decode("ascii", "replace"))
            except (HostError, ValueError) as error:
                faults.append(Fault(NAME, end.address, path, reason(error)))
                unread += 1
        if unread and unread == len(end.files):
            end.failed += unread

    @staticmethod
    def _errors(end: _End, severity: str, text: str) -> None:
        """The total is the kernel's line, or the sum where the kernel has none."""
        total, line = 0, None
        for name, count in pci.errors(text):
            if name.startswith("TOTAL_ERR"):
                line = count
            else:
                total += count
                end.values[f"pcie_aer_{severity}_{name}"] = float(count)
        end.values[f"pcie_aer_{severity}_errors"] = float(total if line is None else line)

    def _path(self, function: pci.Function) -> None:
        """The worst link on the path, as a share of its maximum; unknown where no link can be compared."""
        values = self._ends[function.address].values
        for share, (now, limit) in _SHARES.items():
            shares = [
                end.values.get(now, math.nan) / end.possible.get(limit, math.nan)
                for end in (self._ends[address] for address in (function.address, *function.path))
            ]
            values[share] = min((each for each in shares if not math.isnan(each)), default=math.nan)
        for column, severities in ABOVE.items():
            above = [(self._ends[address], severity) for address in function.path for severity in severities]
            counts = [end.values.get(f"pcie_aer_{s}_errors", math.nan) for end, s in above if s in end.files]
            values[column] = sum(counts) if counts else math.nan
        values[_UNREAD] = float(
            sum(self._ends[address].failed for address in (function.address, *function.path))
        ) + (function.kind == pci.UNREADABLE)
        if function.kind == "gpu":  # it lowers its speed to save power
            values["pcie_path_speed"] = math.nan

    # --- shape

    def _discover(self, now: float) -> None:
        self._functions = pci.functions(self._host)
        ends: dict[str, _End] = {}
        for function in self._functions:
            for depth, address in enumerate((*function.path, function.address)):
                if address not in ends:
                    ends[address] = self._end(address, function.path[:depth])
        self._ends = ends
        _compare(ends)
        self._shape()
        self._settle(now)

    def _end(self, address: str, above: tuple[str, ...]) -> _End:
        directory = f"{pci.DEVICES}/{address}"
        present = set(names(self._host, directory))
        limits, unread = {}, []
        for column, name, parse in _LIMITS:
            if name in present:
                try:
                    limits[column] = parse(self._host.read(f"{directory}/{name}", 64).decode("ascii", "replace"))
                except (HostError, ValueError) as error:
                    limits[column] = math.nan
                    unread.append(Fault(NAME, address, f"{directory}/{name}", reason(error)))
        files = tuple(severity for severity in SEVERITIES if f"aer_dev_{severity}" in present)
        return _End(address, directory, above, limits, files, tuple(unread))

    def _shape(self) -> None:
        period, near = self._period, _near(self._functions)
        devices = tuple(Component(f.address, _labels(f) | near.get(f.address, {})) for f in self._functions)
        named = {f.address for f in self._functions}
        over = tuple(
            Component(a, filled({"device": a, "class": "bridge", "path": " ".join(end.above)}))
            for a, end in self._ends.items() if a not in named
        )
        rows = {c.name: c for c in (*devices, *over)}
        counted = tuple(rows[a] for a, end in self._ends.items() if end.files)
        spoilt = tuple(rows[a] for a in self._ends if a in self._spoilt)
        parts = (
            Part(NAME, Kind.PCIE, (*_LINK, *_SHARES, _UNREAD, *_TOTALS, *ABOVE), devices, period),
            Part(NAME, Kind.PCIE, (*_LINK, *_TOTALS), over, period, wire=False),
            Part(NAME, Kind.PCIE, _BY_SORT, counted, period, wire=False),
            Part(NAME, Kind.PCIE, _WORSE_BY_SORT, spoilt, period, wire=False),
        )
        self._shape_is(tuple(part for part in parts if part.components))


def _compare(ends: dict[str, _End]) -> None:
    """Set `possible` of both ends of each link. Levels alternate: root port, upstream port of a switch, downstream
    port, ..., device; the link of a downstream port is the one below it."""
    for end in ends.values():
        if len(end.above) % 2 == 0:
            continue
        far = ends[end.above[-1]]
        both = {column: (limit, far.limits.get(column, math.nan)) for column, limit in end.limits.items()}
        end.possible = {c: math.nan if math.isnan(sum(pair)) else min(pair) for c, pair in both.items()}
        far.possible = end.possible


def _near(functions: Sequence[pci.Function]) -> dict[str, dict[str, str]]:
    """Address -> labels: the GPUs closest to an adapter, the adapters closest to a GPU, and the relation."""
    every = [pci.placed(function) for function in functions]
    found: dict[str, dict[str, str]] = {}
    for mine, theirs in (("nic", "gpu"), ("gpu", "nic")):
        others = affinity.of_kind(every, theirs)
        for device in affinity.of_kind(every, mine):
            relation, close = affinity.nearest(device, others)
            if close:
                titles = " ".join(other.title for other in close[:MOST_NEAR])
                found[device.address] = {"nearest": titles, "relation": str(relation)}
    return found


def _labels(function: pci.Function) -> dict[str, str]:
    return filled({
        "device": function.address,
        "class": function.kind,
        "owner": function.owner,
        "rdma": function.rdma,
        "driver": "none" if function.unbound else "",
        "path": " ".join(function.path),
        "numa": str(function.numa) if function.numa >= 0 else "",
    })  # fmt: skip
