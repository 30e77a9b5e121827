"""Writes a recording: takes records from the event loop; a thread encodes, compresses and writes them.

The event loop never waits for the disk: where it is too slow or full, records are lost and counted, and the next
segment has their number. A segment is whole up to its last block whenever the process dies; a block is written once a
second at least.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabricmon.replay import records
from fabricmon.replay.records import PackedRecord, RecordMark
from fabricmon.replay.settings import RecordConfig
from fabricmon.runtime import logs

WAITING = 64 << 20  # bytes of records that wait for the thread; more are lost and counted
BLOCK = 1 << 20  # bytes of records in a block, packed before compression
FLUSH = 1.0  # seconds until a record is written
RETRY = 10.0  # seconds after an error of the disk until a new segment is begun
CLOSE_LIMIT = 5.0  # seconds; a disk that does not answer must not block the end of the process
OVERHEAD = 64  # bytes that a waiting record counts for beside its content
SEGMENTS = 100_000  # files of a directory that are read


@dataclass(slots=True)
class TapeStatus:
    """State of the recording since the start of the process.

    bytes     written; kept: bytes of all segments in the directory; removed: segments removed for their total
    lost      records that are in no segment
    error     of the last attempt to write, "" none
    """

    records: int = 0
    bytes: int = 0
    kept: int = 0
    segments: int = 0
    removed: int = 0
    lost: int = 0
    error: str = ""


class Tape:
    """One recording. `put` and `wants_segment` belong to one thread, the rest is the writer's.

    The first record must be a START, and so must the next after `wants_segment`. Raises OSError where the directory
    cannot be made or written.
    """

    def __init__(self, config: RecordConfig) -> None:
        self.config, self.status = config, TapeStatus()
        self._directory = Path(config.directory)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._directory, os.W_OK | os.X_OK):
            raise PermissionError(13, "the directory of the recording cannot be written", str(self._directory))
        self._items: deque[tuple[RecordMark, float, str, Any, int]] = deque()
        self._handed = self._taken = 0  # bytes; each is written by one side only
        self._skipping = False
        self._lost_here = 0  # on the way in; the writer's own are `_lost_there`
        self._lost_there = 0
        self._began = time.monotonic()
        self._segment_bytes = 0
        self._failed_at: float | None = None
        self._file: int | None = None
        self._path = self._directory
        self._graph: tuple[object, bytes] = None, b""
        self._closing = False
        self._wake = threading.Event()
        self._log = logs.get(part="recording")
        self._transitions = logs.Transitions(self._log)
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------------- the event loop's side

    def put(self, mark: RecordMark, now: float, node: str, thing: Any, size: int) -> None:
        """Queue one record. `thing` must not be changed any more; `size` is its approximate bytes."""
        waiting = self._handed - self._taken
        if self._skipping or waiting > WAITING:
            self._skipping = True
            self._lost_here += 1
            return
        self._handed += size + OVERHEAD
        self._items.append((mark, now, node, thing, size + OVERHEAD))
        if waiting > BLOCK and not self._wake.is_set():
            self._wake.set()

    def begin(self, now: float, start: Any) -> None:
        """Begin a new segment."""
        self._skipping = False
        self._began = time.monotonic()
        self._segment_bytes = 0
        self._failed_at = None
        self.put(RecordMark.START, now, "", start, 4096)

    def wants_segment(self) -> bool:
        """Whether a new segment is due: the present one is large or old, or records were lost."""
        if self._failed_at is not None:
            return time.monotonic() - self._failed_at >= RETRY
        if self._skipping:
            return self._handed - self._taken < WAITING // 4
        long = time.monotonic() - self._began >= self.config.every
        return long or self._segment_bytes >= self.config.segment

    def lost(self) -> int:
        """Records that were lost since the start of the process."""
        self.status.lost = self._lost_here + self._lost_there
        return self.status.lost

    def close(self) -> None:
        """Write the queued records and end, within CLOSE_LIMIT."""
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_LIMIT)

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        while True:
            self._wake.wait(FLUSH)
            self._wake.clear()
            closing = self._closing
            try:
                self._drain()
            except Exception as error:  # a defect must not end the recording
                self._shut()
                self.status.error = f"{type(error).__name__}: {error}"
                self._failed_at = time.monotonic()
            if closing:
                self._shut()
                return

    def _drain(self) -> None:
        pieces: list[bytes] = []
        size = 0
        while self._items:
            mark, now, node, thing, taken = self._items.popleft()
            if mark is RecordMark.START:
                self._write(pieces)
                pieces, size = [], 0
                self._open(now, thing)
            if self._file is None:
                self._lost_there += 1
            else:
                piece = self._packed(mark, now, node, thing)
                pieces.append(piece)
                size += len(piece)
            self._taken += taken
            if size >= BLOCK:
                self._write(pieces)
                pieces, size = [], 0
        self._write(pieces)

    def _packed(self, mark: RecordMark, now: float, node: str, thing: Any) -> bytes:
        """A record's bytes; b"" for one that cannot be encoded: a defect, which costs that record only."""
        try:
            if mark is RecordMark.GRAPH:
                # Encoding a large one delays the event loop, and every segment begins with it.
                if self._graph[0] is not thing:
                    self._graph = thing, records.body(mark, thing)
                return records.pack(PackedRecord(mark, now, node, self._graph[1]))
            return records.pack(PackedRecord(mark, now, node, records.body(mark, thing)))
        except Exception as error:
            self._lost_there += 1
            self._transitions.note(mark.name, "failing", "a record cannot be written", bad=True, error=str(error))
            return b""

    def _open(self, now: float, start: Any) -> None:
        self._shut()
        self._path = self._directory / f"{int(now * 1000):015d}-{start.run}-{start.index:06d}{records.SUFFIX}"
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _write_all(self._file, records.header())
        except OSError as error:
            self._failed(error)
            return
        self.status.segments += 1
        self._make_room()

    def _write(self, pieces: list[bytes]) -> None:
        if not pieces or self._file is None:
            return
        data = records.block(pieces)
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            _write_all(self._file, data)
        except OSError as error:
            self._lost_there += len(pieces)
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)  # no half block
            self._failed(error)
            return
        self.status.records += len(pieces)
        self.status.bytes += len(data)
        self.status.kept += len(data)
        self._segment_bytes += len(data)
        self.status.error = ""
        self._transitions.note("disk", "working", "the recording goes on", bad=False)

    def _failed(self, error: OSError) -> None:
        self._shut()
        self._failed_at = time.monotonic()
        self.status.error = f"{self._path}: {error.strerror or error}"
        self._transitions.note("disk", "failing", "the recording has a gap", bad=True, error=self.status.error)

    def _shut(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def _make_room(self) -> None:
        """Remove the oldest segments beyond the total, never the present one."""
        found: list[tuple[str, int]] = []
        with contextlib.suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name.endswith(records.SUFFIX) and len(found) < SEGMENTS:
                    found.append((entry.name, entry.stat().st_size))
        found.sort()
        kept = sum(size for _, size in found)
        for name, size in found:
            if kept + self.config.segment <= self.config.total or name == self._path.name:
                break
            with contextlib.suppress(OSError):
                os.unlink(self._directory / name)
                kept -= size
                self.status.removed += 1
        self.status.kept = kept


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
