"""The counter files of a port and the collector that reads each.

A port's counters are in ports/N/counters, counters_ext (old devices) and hw_counters; those of its device in
hw_counters of the device. Drivers differ in what they have (docs/methods.md#rdma-driver-differences); none is required.
Each file of counters/ costs an adapter one firmware command, so rarely needed ones are read rarely.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from fabricmon.catalogue import CATALOGUE, RAW, column_of, counter_at
from fabricmon.collect.machine.rdma_device import CLASS
from fabricmon.host.protocol import Host, HostError

_SETTINGS = {"lifespan"}  # a setting among the hw_counters (docs/methods.md#rdma-driver-differences)
_ELSEWHERE = {("counters", "link_downed")}  # read once a second by infiniband_state
_READ_FIRST = ("rx_write_requests", "vport_rx_write_requests")
"""mlx5 fills its cache of hw_counters, for 10 ms, when one of these is read (docs/methods.md#firmware-commands)."""
_MOST_FILES = 1024  # of one directory; hfi1 has some hundreds

PORT_DIRECTORIES = ("counters", "counters_ext", "hw_counters")
DEVICE_DIRECTORY = "device_hw_counters"

_TRAFFIC = frozenset({"xmit", "rcv"})
_URGENT = _TRAFFIC | {"symbol_errors", "xmit_wait_ticks"}
_ERRORS = frozenset({
    "link_error_recoveries", "rcv_errors", "xmit_discards", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
})  # fmt: skip


class Tier(Enum):
    """How often a counter is read; the value is the name of its collector."""

    FAST = "infiniband"
    ERRORS = "infiniband_errors"
    RARE = "infiniband_rare"


class CounterFile(NamedTuple):
    """One counter file. `directory` and `name` are source and key in the catalogue."""

    directory: str
    name: str
    path: str


class PortFiles(NamedTuple):
    files: tuple[CounterFile, ...]
    errors: tuple[HostError, ...]  # existing directories that cannot be listed
    has_counters: bool  # counters/ or counters_ext/ exists, even if it cannot be listed

    @property
    def hw_tier(self) -> Tier:
        """hw_counters include the traffic where a driver has no counters/ (EFA, bnxt_re, irdma, soft RoCE)."""
        return Tier.ERRORS if self.has_counters else Tier.FAST

    def of_tier(self, tier: Tier, ethernet: bool) -> tuple[CounterFile, ...]:
        """The files of a tier. An Ethernet port's errors come from `roce` and `ethernet_phy`; those that counters/
        repeats are in the rare tier."""
        named = columns(self.files)
        urgent, errors = (_TRAFFIC, frozenset[str]()) if ethernet else (_URGENT, _ERRORS)

        def tier_of(file: CounterFile) -> Tier:
            if not file.directory.startswith("counters"):
                return self.hw_tier
            return Tier.FAST if named[file] in urgent else Tier.ERRORS if named[file] in errors else Tier.RARE

        return tuple(file for file in self.files if tier_of(file) is tier)


def find(host: Host, device: str, port: int, with_device: bool) -> PortFiles:
    """All counter files of a port in read order; `with_device`: and those of the device."""
    files: list[CounterFile] = []
    errors: list[HostError] = []
    has_counters = False
    places = [(d, f"{CLASS}/{device}/ports/{port}/{d}") for d in PORT_DIRECTORIES]
    if with_device:
        places.append((DEVICE_DIRECTORY, f"{CLASS}/{device}/hw_counters"))
    for directory, path in places:
        try:
            names = host.list(path)
        except HostError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                errors.append(error)
                has_counters |= directory.startswith("counters")
            continue
        has_counters |= directory.startswith("counters")
        if len(names) > _MOST_FILES:
            # those of the catalogue before others, which are the ones that a rule can use
            names.sort(key=lambda name: counter_at(directory, name) is None)
            errors.append(HostError(path, 0, f"{len(names)} files, {_MOST_FILES} of them are read"))
        files.extend(
            CounterFile(directory, name, f"{path}/{name}")
            for name in sorted(names[:_MOST_FILES], key=lambda name: name not in _READ_FIRST)
            if name not in _SETTINGS and (directory, name) not in _ELSEWHERE
        )
    return PortFiles(tuple(files), tuple(errors), has_counters)


def columns(files: Collection[CounterFile]) -> dict[CounterFile, str]:
    """The column of each file. Where two files have one column, the preferred one gets it, the other is raw."""
    best: dict[str, tuple[int, CounterFile]] = {}
    for file in files:
        counter = counter_at(file.directory, file.name)
        if counter is None:
            continue
        key = file.name if file.name in counter.keys else file.name.removeprefix("vport_")
        rank = counter.keys.index(key)
        if counter.name not in best or rank < best[counter.name][0]:
            best[counter.name] = (rank, file)
    taken = {file for _, file in best.values()}
    return {f: column_of(f.directory, f.name) if f in taken else f"{RAW}{f.directory}/{f.name}" for f in files}


def scale_of(column: str) -> float:
    """The factor from a raw value to the column's unit."""
    counter = CATALOGUE.get(column)
    return counter.scale if counter else 1.0
