"""A machine out of an archive. It answers what was asked when it was recorded, the same way each time."""

from __future__ import annotations

import builtins
import errno
import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TypeVar

from fabricmon.fabric.transport import Transport
from fabricmon.host.archive import Archive, load
from fabricmon.host.gpus import Gpus
from fabricmon.host.interfaces import Interfaces
from fabricmon.host.protocol import HostError, KernelMessage, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.recorded_gpus import RecordedGpus
from fabricmon.host.recorded_interfaces import RecordedInterfaces

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
        self.interfaces: Interfaces = RecordedInterfaces(archive)
        self.gpus: Gpus = RecordedGpus(archive)
        self._offset = archive.monotonic - time.monotonic()

    def boot_id(self) -> str:
        return self._archive.boot_id

    def machine_id(self) -> str:
        return self._archive.machine_id

    def monotonic(self) -> float:
        return time.monotonic() + self._offset

    def list(self, path: str) -> list[str]:
        return self._answer("lists", self._archive.lists, path).copy()

    def read(self, path: str, limit: int = 65536) -> bytes:
        return self._answer("reads", self._archive.reads, path).encode("latin-1")[:limit]

    def realpath(self, path: str) -> str:
        return self._answer("realpaths", self._archive.realpaths, path)

    def bulk(self, paths: Sequence[str]) -> RecordedBulk:
        return RecordedBulk([self._number(p) for p in paths])

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        return self._told("devices", self._archive.devices)

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        return self._told(f"ports {device}/{port}", self._archive.ports.get(f"{device}/{port}"))

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        return self._told(f"counters {device}/{port}", self._archive.counters.get(f"{device}/{port}"))

    def links(self) -> builtins.list[Link]:
        return self._told("links", self._archive.links)

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        raise Unsupported("rtnetlink group LINK", 0, "a recorded machine has no events")

    def watch_kmsg(self, tell: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        raise Unsupported("/dev/kmsg", 0, "a recorded machine has no events")

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        raise Unsupported("umad", 0, "a recorded machine has no fabric around it")

    def close(self) -> None:
        """Nothing is open."""

    def _number(self, path: str) -> int | HostError:
        try:
            return self._answer("numbers", self._archive.numbers, path)
        except HostError as error:
            return error

    def _answer(self, field: str, answers: dict[str, _T], path: str) -> _T:
        if path in answers:
            return answers[path]
        trouble = self._archive.troubles.get(f"{field} {path}")
        if trouble is None:
            raise HostError(path, errno.ENOENT, "not in the recording")
        raise HostError(path, trouble.errno, trouble.error)

    def _told(self, question: str, found: _T | None) -> _T:
        if found is not None:
            return found
        trouble = self._archive.troubles.get(question)
        if trouble is None:
            raise Unsupported(question, 0, "not in the recording")
        raise (Unsupported if trouble.unsupported else HostError)(question, trouble.errno, trouble.error)


class RecordedBulk:
    """BulkReader on recorded numbers."""

    def __init__(self, found: Sequence[int | HostError]) -> None:
        self._values = array("d", (math.nan if isinstance(f, HostError) else f for f in found))
        self._bad = [(i, f) for i, f in enumerate(found) if isinstance(f, HostError)]

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        out[base : base + len(self._values)] = self._values
        return self._bad

    def close(self) -> None:
        """Nothing is open."""
