"""A machine out of an archive. It answers what was asked when it was recorded, the same way each time."""

from __future__ import annotations

import builtins
import errno
import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TypeVar

from fabricmon.host.archive import Archive, Trouble, load
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort, Unsupported

_T = TypeVar("_T")


class RecordedHost:
    """Host from an archive, or from a file that holds one (ArchiveError or OSError as `archive.load` raises them).

    Its clock starts at the recording's and goes on at the pace of this machine's.
    """

    def __init__(self, archive: Archive | str) -> None:
        if isinstance(archive, str):
            archive = load(archive)
        self.name = archive.name
        self._archive = archive
        self._offset = archive.monotonic - time.monotonic()

    def boot_id(self) -> str:
        return self._archive.boot_id

    def machine_id(self) -> str:
        return self._archive.machine_id

    def monotonic(self) -> float:
        return time.monotonic() + self._offset

    def list(self, path: str) -> list[str]:
        return _answer(path, self._archive.lists).copy()

    def read(self, path: str, limit: int = 65536) -> bytes:
        return _answer(path, self._archive.reads).encode("latin-1")[:limit]

    def realpath(self, path: str) -> str:
        return _answer(path, self._archive.realpaths)

    def bulk(self, paths: Sequence[str]) -> RecordedBulk:
        return RecordedBulk(paths, self._archive.numbers)

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        return _told("RDMA GET", self._archive.devices)

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        return _told(f"RDMA PORT_GET {device}/{port}", self._archive.ports.get(f"{device}/{port}"))

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        return _told(f"RDMA STAT_GET {device}/{port}", self._archive.counters.get(f"{device}/{port}"))

    def links(self) -> builtins.list[Link]:
        return _told("rtnetlink RTM_GETLINK", self._archive.links)

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        raise Unsupported("rtnetlink group LINK", 0, "a recorded machine has no events")

    def close(self) -> None:
        """Nothing is open."""


class RecordedBulk:
    """BulkReader on recorded numbers."""

    def __init__(self, paths: Sequence[str], numbers: dict[str, int | Trouble]) -> None:
        self._values = array("d", [math.nan]) * len(paths)
        self._bad: list[tuple[int, HostError]] = []
        for i, path in enumerate(paths):
            try:
                self._values[i] = _answer(path, numbers)
            except HostError as error:
                self._bad.append((i, error))

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        out[base : base + len(self._values)] = self._values
        return self._bad

    def close(self) -> None:
        """Nothing is open."""


def _answer(path: str, answers: dict[str, _T | Trouble]) -> _T:
    if path not in answers:
        raise HostError(path, errno.ENOENT, "not in the recording")
    found = answers[path]
    if isinstance(found, Trouble):
        raise HostError(path, found.errno, found.error)
    return found


def _told(question: str, found: _T | Trouble | None) -> _T:
    if found is None:
        raise Unsupported(question, 0, "not in the recording")
    if isinstance(found, Trouble):
        raise (Unsupported if found.unsupported else HostError)(question, found.errno, found.error)
    return found
