"""A machine from an archive, with the recorded answers."""

from __future__ import annotations

import builtins
import errno
import math
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fabricmon.host.archive import Archive
from fabricmon.host.archive.archived import Archived, as_bytes, as_text
from fabricmon.host.archive.gpus import ArchivedGpus
from fabricmon.host.archive.interfaces import ArchivedInterfaces
from fabricmon.host.archive_file import load
from fabricmon.host.protocol import BulkReader, Host, HostError, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.protocol.gpus import Gpus
from fabricmon.host.protocol.interfaces import Interfaces
from fabricmon.host.protocol.not_asked import NoEvents

_T = TypeVar("_T")


class RecordedHost(Archived[Host], NoEvents):
    """Host from an archive or its file (ArchiveError, OSError as `load`). Its clock starts at the recording's."""

    _why = "a recorded machine has no events"

    def __init__(self, archive: Archive | str, source: Host | None = None) -> None:
        super().__init__(load(archive) if isinstance(archive, str) else archive, source)
        self.name = self.archive.name
        self.interfaces: Interfaces = ArchivedInterfaces(self.archive, source.interfaces if source else None)
        self.gpus: Gpus = ArchivedGpus(self.archive, source.gpus if source else None)
        self._offset = self.archive.monotonic - time.monotonic()

    def boot_id(self) -> str:
        return self.archive.boot_id

    def machine_id(self) -> str:
        return self.archive.machine_id

    def monotonic(self) -> float:
        return time.monotonic() + self._offset

    def list(self, path: str) -> list[str]:
        return self._file("lists", path, lambda host: host.list(path)).copy()

    def read(self, path: str, limit: int = 65536) -> bytes:
        return as_bytes(self._file("reads", path, lambda host: host.read(path, limit), as_text))[:limit]

    def realpath(self, path: str) -> str:
        return self._file("realpaths", path, lambda host: host.realpath(path))

    def bulk(self, paths: Sequence[str]) -> BulkReader:
        return RecordedBulk([self._number(p) for p in paths])

    def rdma_devices(self) -> builtins.list[RdmaDevice]:
        if self._source is not None:
            self.archive.devices = self.archive.ask("devices", self._source.rdma_devices)
        return self.archive.answer("devices", self.archive.devices)

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        return self._ask("ports", f"{device}/{port}", lambda host: host.rdma_port(device, port))

    def rdma_counters(self, device: int, port: int) -> dict[str, int]:
        return self._ask("counters", f"{device}/{port}", lambda host: host.rdma_counters(device, port))

    def links(self) -> builtins.list[Link]:
        if self._source is not None:
            self.archive.links = self.archive.ask("links", self._source.links)
        return self.archive.answer("links", self.archive.links)

    def _number(self, path: str) -> int | HostError:
        try:
            return self._recorded("numbers", path)
        except HostError as error:
            return error

    def _file(
        self, field: str, path: str, ask: Callable[[Host], _T], store: Callable[[_T], Any] = lambda found: found
    ) -> _T:
        return self._recorded(field, path) if self._source is None else self._ask(field, path, ask, store)

    def _recorded(self, field: str, path: str) -> Any:
        """A recorded file or directory; one that was not recorded does not exist."""
        answers = getattr(self.archive, field)
        if path in answers:
            return answers[path]
        trouble = self.archive.troubles.get(f"{field} {path}")
        if trouble is None:
            raise HostError(path, errno.ENOENT, "not in the recording")
        raise (Unsupported if trouble.unsupported else HostError)(path, trouble.errno, trouble.error)


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
