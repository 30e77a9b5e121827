"""PCIe: the link of every network adapter, GPU and NVSwitch, of the bridges above it, and the errors the kernel counts.

A link is as good as both its ends: its possible speed and width are the smaller of the device's and of the bridge's
port above it, so an adapter with 16 lanes in a slot of 8 is no fault. A device with no bridge above it (most virtual
machines) has a far end that nobody sees; it is not compared.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from fabricmon.catalogue.pcie import CORRECTABLE, SEVERITIES, UNCORRECTABLE
from fabricmon.collect import pci
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.topology import affinity
from fabricmon.units import Duration

NAME = "pcie"
MOST_NEAR = 8  # names in the label of a device that is equally close to many
_LINK = ("pcie_speed", "pcie_max_speed", "pcie_width", "pcie_max_width")
_SHARES = {
    "pcie_path_width": ("pcie_width", "pcie_max_width"),
    "pcie_path_speed": ("pcie_speed", "pcie_max_speed"),
}
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


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.pcie

    enabled     read PCIe links at all
    interval    between two reads
    deadline    for one read
    rediscover  between two looks for devices and for what their links can do
    """

    enabled: bool = True
    interval: Duration = Duration(10)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def close(self) -> None:
        pass


@dataclass(slots=True)
class _End:
    """A function with a link, and what it showed last.

    above     bridges above it, the root port first
    limits    what this end itself can do, by column
    files     severities of which it has an error file
    possible  what its link can do, which is what both ends can; NaN where the far end is not seen
    values    column -> value of this run
    """

    address: str
    directory: str
    above: tuple[str, ...]
    limits: dict[str, float]
    files: tuple[str, ...]
    possible: dict[str, float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)


class Session:
    """All devices of the machine."""

    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._parts: tuple[Part, ...] = ()
        self._functions: list[pci.Function] = []
        self._ends: dict[str, _End] = {}
        self._spoilt: frozenset[str] = frozenset()  # addresses with an uncorrectable error: their sorts are shown
        self._again = -math.inf

    def read(self) -> Reading:
        start = self._host.monotonic()
        faults: list[Fault] = []
        if start >= self._again:
            self._discover(start)
        start = self._host.monotonic()
        for end in self._ends.values():
            self._look(end, faults)
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

    def close(self) -> None:
        """Nothing is open."""

    def _look(self, end: _End, faults: list[Fault]) -> None:
        end.values = dict(end.limits)
        for column, name, parse in _FILES:
            path = f"{end.directory}/{name}"
            try:
                end.values[column] = parse(self._host.read(path, 64).decode("ascii", "replace"))
            except HostError as error:
                if end.limits:  # a function without a link has neither file
                    faults.append(Fault(NAME, end.address, path, error.text))
            except ValueError as error:
                faults.append(Fault(NAME, end.address, path, str(error)))
        for severity in end.files:
            path = f"{end.directory}/aer_dev_{severity}"
            try:
                text = self._host.read(path, 4096).decode("ascii", "replace")
                self._errors(end, severity, text)
            except HostError as error:
                faults.append(Fault(NAME, end.address, path, error.text))
            except ValueError as error:
                faults.append(Fault(NAME, end.address, path, str(error)))

    @staticmethod
    def _errors(end: _End, severity: str, text: str) -> None:
        """The total is the kernel's line; a kernel that has none leaves the sum."""
        total, told = 0, None
        for name, count in pci.errors(text):
            if name.startswith("TOTAL_ERR"):
                told = count
            else:
                total += count
                end.values[f"pcie_aer_{severity}_{name}"] = float(count)
        end.values[f"pcie_aer_{severity}_errors"] = float(total if told is None else told)

    def _path(self, function: pci.Function) -> None:
        """The worst link on the way up, as a share of what it could do; unknown where no link can be compared."""
        values = self._ends[function.address].values
        for share, (now, limit) in _SHARES.items():
            shares = [
                end.values.get(now, math.nan) / end.possible.get(limit, math.nan)
                for end in (self._ends[address] for address in (function.address, *function.path))
            ]
            values[share] = min((each for each in shares if not math.isnan(each)), default=math.nan)
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
        self._again = now + float(self._config.rediscover)

    def _end(self, address: str, above: tuple[str, ...]) -> _End:
        directory = f"{pci.DEVICES}/{address}"
        try:
            present = set(self._host.list(directory))
        except HostError:
            present = set()
        limits = {}
        for column, name, parse in _LIMITS:
            if name in present:
                try:
                    limits[column] = parse(self._host.read(f"{directory}/{name}", 64).decode("ascii", "replace"))
                except (HostError, ValueError):
                    limits[column] = math.nan
        files = tuple(severity for severity in SEVERITIES if f"aer_dev_{severity}" in present)
        return _End(address, directory, above, limits, files)

    def _shape(self) -> None:
        period = float(self._config.interval)
        near = _near(self._functions)
        devices = tuple(Component(f.address, _labels(f) | near.get(f.address, {})) for f in self._functions)
        named = {f.address for f in self._functions}
        over = tuple(
            Component(a, {"device": a, "class": "bridge", "path": " ".join(end.above)} if end.above else
                      {"device": a, "class": "bridge"})
            for a, end in self._ends.items() if a not in named
        )
        rows = {c.name: c for c in (*devices, *over)}
        counted = tuple(rows[a] for a, end in self._ends.items() if end.files)
        spoilt = tuple(rows[a] for a in self._ends if a in self._spoilt)
        parts = tuple(
            part
            for part in (
                Part(NAME, Kind.PCIE, (*_LINK, *_SHARES, *_TOTALS), devices, period),
                Part(NAME, Kind.PCIE, (*_LINK, *_TOTALS), over, period, wire=False),
                Part(NAME, Kind.PCIE, _BY_SORT, counted, period, wire=False),
                Part(NAME, Kind.PCIE, _WORSE_BY_SORT, spoilt, period, wire=False),
            )
            if part.components
        )
        if parts != self._parts:
            self._parts = parts


def _compare(ends: dict[str, _End]) -> None:
    """Join the two ends of each link. Levels alternate: root port, switch port up, switch port down, ..., device; the
    link of a port that leads down is the one below it."""
    for end in ends.values():
        if len(end.above) % 2 == 0:
            continue
        far = ends[end.above[-1]]
        both = {column: (limit, far.limits.get(column, math.nan)) for column, limit in end.limits.items()}
        end.possible = {c: math.nan if math.isnan(sum(pair)) else min(pair) for c, pair in both.items()}
        far.possible = end.possible


def _near(functions: Sequence[pci.Function]) -> dict[str, dict[str, str]]:
    """Address -> labels that say which GPU is closest to an adapter, which adapter to a GPU, and how close."""
    every = [pci.placed(function) for function in functions]
    found: dict[str, dict[str, str]] = {}
    for mine, theirs in (("nic", "gpu"), ("gpu", "nic")):
        others = affinity.of_kind(every, theirs)
        for device in affinity.of_kind(every, mine):
            relation, close = affinity.nearest(device, others)
            if close:
                names = " ".join(other.title for other in close[:MOST_NEAR])
                found[device.address] = {"nearest": names, "relation": str(relation)}
    return found


def _labels(function: pci.Function) -> dict[str, str]:
    found = {
        "device": function.address,
        "class": function.kind,
        "owner": function.owner,
        "path": " ".join(function.path),
        "numa": str(function.numa) if function.numa >= 0 else "",
    }
    return {name: value for name, value in found.items() if value}
