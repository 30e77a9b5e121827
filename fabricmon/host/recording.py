"""A host in front of another that keeps every answer: makes an archive."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Sequence

from fabricmon import __version__
from fabricmon.host.archive import FORMAT, VERSION, Archive, Trouble
from fabricmon.host.protocol import BulkReader, Host, HostError
from fabricmon.host.recorded import RecordedHost


class RecordingHost(RecordedHost):
    """Host in front of another, without events."""

    _why = "a recording has no events"

    def __init__(self, host: Host) -> None:
        super().__init__(Archive(FORMAT, VERSION, __version__, host.name, time.time(), host.monotonic()), host)
        self._host = host

    def boot_id(self) -> str:
        self.archive.boot_id = self._host.boot_id()
        return self.archive.boot_id

    def machine_id(self) -> str:
        self.archive.machine_id = self._host.machine_id()
        return self.archive.machine_id

    def monotonic(self) -> float:
        return self._host.monotonic()

    def bulk(self, paths: Sequence[str]) -> BulkReader:
        return _RecordingBulk(tuple(paths), self._host.bulk(paths), self.archive)


class _RecordingBulk:
    def __init__(self, paths: tuple[str, ...], reader: BulkReader, archive: Archive) -> None:
        self._paths, self._reader, self._archive = paths, reader, archive

    def read(self, out: array[float], base: int) -> list[tuple[int, HostError]]:
        bad = self._reader.read(out, base)
        for i, path in enumerate(self._paths):
            if not math.isnan(out[base + i]):
                self._archive.numbers[path] = int(out[base + i])
        self._archive.troubles.update({f"numbers {self._paths[i]}": Trouble.from_error(error) for i, error in bad})
        return bad

    def close(self) -> None:
        self._reader.close()
