"""Which counters a port offers, from where each is to be had, and which collector reads it.

A port's counters lie in ports/N/counters, counters_ext (old devices) and hw_counters; those of its device in
hw_counters of the device. Which of them exist depends on the driver (counters-ib.md section 2): none is required.

Each file of counters/ costs an adapter one firmware command, so each is read as often as it is needed and no more.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from fabricmon.catalogue import CATALOGUE, RAW, column_of, counter_at
from fabricmon.collect.rdma_device import CLASS
from fabricmon.host.protocol import Host, HostError

_SETTINGS = {"lifespan"}  # lies among the hw_counters and is none (netlink.md section 4)
_ELSEWHERE = {("counters", "link_downed")}  # read once a second by infiniband_state
_READ_FIRST = ("rx_write_requests", "vport_rx_write_requests")
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
    """How often a counter is read; the value is the name of the collector that does it."""

    FAST = "infiniband"
    ERRORS = "infiniband_errors"
    RARE = "infiniband_rare"


class File(NamedTuple):
    """One counter file. `directory` and `name` as the catalogue calls source and key."""

    directory: str
    name: str
    path: str


class Found(NamedTuple):
    files: tuple[File, ...]
    errors: tuple[HostError, ...]  # directories that are there and cannot be listed
    has_counters: bool  # counters/ or counters_ext/ is there, whether or not it can be listed

    @property
    def hw_tier(self) -> Tier:
        """hw_counters hold the traffic, too, where a driver has no counters/ (EFA, bnxt_re, irdma, soft RoCE)."""
        return Tier.ERRORS if self.has_counters else Tier.FAST

    def of(self, tier: Tier, ethernet: bool) -> tuple[File, ...]:
        """The files that belong to a tier. An Ethernet port's own errors are in `roce` and `ethernet_phy`: those that
        counters/ repeats are read seldom.
        """
        named = columns(self.files)
        urgent, errors = (_TRAFFIC, frozenset[str]()) if ethernet else (_URGENT, _ERRORS)

        def tier_of(file: File) -> Tier:
            if not file.directory.startswith("counters"):
                return self.hw_tier
            return Tier.FAST if named[file] in urgent else Tier.ERRORS if named[file] in errors else Tier.RARE

        return tuple(file for file in self.files if tier_of(file) is tier)


def find(host: Host, device: str, port: int, with_device: bool) -> Found:
    """All counter files of a port, in the order they should be read; those of the device too where `with_device`."""
    files: list[File] = []
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
            errors.append(HostError(path, 0, f"{len(names)} files, the first {_MOST_FILES} are read"))
        files.extend(
            File(directory, name, f"{path}/{name}")
            for name in _read_order(names[:_MOST_FILES])
            if name not in _SETTINGS and (directory, name) not in _ELSEWHERE
        )
    return Found(tuple(files), tuple(errors), has_counters)


def _read_order(names: list[str]) -> list[str]:
    """mlx5 fills its cache of hw_counters, good for 10 ms, only when the first of them is read (counters-ib.md 5.1)."""
    first = [n for n in _READ_FIRST if n in names]
    return first + [n for n in names if n not in first]


def columns(files: Collection[File]) -> dict[File, str]:
    """The column of each file. Where two files of a port are one concept, the better one has it, the other is raw."""
    best: dict[str, tuple[int, File]] = {}
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
    """What a raw value is multiplied with to be in the column's unit."""
    counter = CATALOGUE.get(column)
    return counter.scale if counter else 1.0
