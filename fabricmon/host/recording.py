"""A host that answers as another one does and keeps every answer: how an archive is made."""

from __future__ import annotations

import builtins
import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import TypeVar

from fabricmon import __version__
from fabricmon.fabric.transport import Transport
from fabricmon.host.archive import FORMAT, VERSION, Archive, Trouble
from fabricmon.host.gpus import Gpus
from fabricmon.host.interfaces import Interfaces
from fabricmon.host.protocol import BulkReader, Host, HostError, KernelMessage, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.recorded_gpus import RecordingGpus
from fabricmon.host.recorded_interfaces import RecordingInterfaces

_T = TypeVar("_T")
_MOST_ANSWERS = 200_000  # of one recording


class RecordingHost:
    """Host in front of another. Not for events: they are of no use in a file."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self._host = host
        self.archive = Archive(FORMAT, VERSION, __version__, host.name, time.time(), host.monotonic())
        self.interfaces: Interfaces = RecordingInterfaces(host.interfaces, self.archive, _MOST_ANSWERS)
        self.gpus: Gpus = RecordingGpus(host.gpus, self.archive)

    def boot_id(self) -> str:
        self.archive.boot_id = self._host.boot_id()
        return self.archive.boot_id

    def machine_id(self) -> str:
        self.archive.machine_id = self._host.machine_id()
        return self.archive.machine_id

    def monotonic(self) -> float:
        return self._host.monotonic()

    def list(self, path: str) -> list[str]:
        return self._keep("lists", self.archive.lists, path, lambda: self._host.list(path))

    def read(self, path: str, limit: int = 65536) -> bytes:
        text = self._keep("reads", self.archive.reads, path, lambda: self._host.read(path, limit).decode("latin-1"))
        return text.encode("latin-1")

    def realpath(self, path: str) -> str:
        return self._keep("realpaths", self.archive.realpaths, path, lambda: self._host.realpath(path))

    def bulk(self, paths: Sequence[str]) -> BulkReader:
        return _RecordingBulk(tuple(paths), self._host.bulk(paths), self.archive)

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        try:
            found = self._host.rdma_devices()
        except HostError as error:
            self.archive.troubles["devices"] = _trouble(error)
            raise
        self.archive.devices = found
        return found

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        key = f"{device}/{port}"
        return self._keep("ports", self.archive.ports, key, lambda: self._host.rdma_port(device, port))

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        key = f"{device}/{port}"
        return self._keep("counters", self.archive.counters, key, lambda: self._host.rdma_counters(device, port))

    def links(self) -> builtins.list[Link]:
        try:
            found = self._host.links()
        except HostError as error:
            self.archive.troubles["links"] = _trouble(error)
            raise
        self.archive.links = found
        return found

    def watch_links(self, tell: Callable[[Link | None], None]) -> Callable[[], None]:
        raise Unsupported("rtnetlink group LINK", 0, "a recording has no events")

    def watch_kmsg(self, tell: Callable[[KernelMessage | None], None]) -> Callable[[], None]:
        raise Unsupported("/dev/kmsg", 0, "a recording has no events")

    def fabric_port(self, device: str = "", port: int = 0) -> Transport:
        raise Unsupported("umad", 0, "a recording holds one machine, not the fabric around it")

    def close(self) -> None:
        self._host.close()

    def _keep(self, field: str, answers: dict[str, _T], key: str, ask: Callable[[], _T]) -> _T:
        if len(answers) >= _MOST_ANSWERS and key not in answers:
            raise HostError(key, 0, f"a recording has at most {_MOST_ANSWERS} {field}")
        try:
            found = ask()
        except HostError as error:
            self.archive.troubles[f"{field} {key}"] = _trouble(error)
            raise
        answers[key] = found
        return found


class _RecordingBulk:
    def __init__(self, paths: tuple[str, ...], reader: BulkReader, archive: Archive) -> None:
        self._paths, self._reader, self._archive = paths, reader, archive

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        bad = self._reader.read(out, base)
        for i, path in enumerate(self._paths):
            if not math.isnan(out[base + i]):
                self._archive.numbers[path] = int(out[base + i])
        self._archive.troubles.update({f"numbers {self._paths[i]}": _trouble(error) for i, error in bad})
        return bad

    def close(self) -> None:
        self._reader.close()


def _trouble(error: HostError) -> Trouble:
    return Trouble(error.errno, error.text, isinstance(error, Unsupported))
