"""Reads a recording: segments in order, blocks, records. Damaged parts are left out with a note."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fabricmon import frame as wire
from fabricmon.replay import records
from fabricmon.replay.records import Opening, RecordedItem, RecordError, RecordMark, Start

LEAD = 3600.0
"""Seconds before a requested time at which reading begins: rules mostly use the last hour of a link (a flap penalty
halves in 15 minutes)."""

MOST_NOTES = 100  # that are kept; further ones are counted


class RecordingError(ValueError):
    """A file that is no readable recording; the text names it."""


class Segment(NamedTuple):
    """One file, by its name."""

    began: float
    run: str
    number: int
    path: Path
    size: int


class Recording:
    """Segments below the given directories, or the given files. RecordingError where there are none.

    bytes  of all files that will be read; done: read so far
    notes  parts that were left out, and why, a line each
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], since: float | None = None) -> None:
        """`since`: begin at the last segment that began LEAD seconds before it."""
        found = [segment for path in paths for segment in _segments(Path(path))]
        if not found:
            named = ", ".join(str(path) for path in paths)
            raise RecordingError(f"{named}: no segment of a recording ({records.SUFFIX})")
        begun: dict[str, float] = {}
        for segment in found:
            begun[segment.run] = min(segment.began, begun.get(segment.run, segment.began))
        ordered = sorted(set(found), key=lambda s: (begun[s.run], s.run, s.number, s.path))
        if since is not None:
            early = [at for at, segment in enumerate(ordered) if segment.began <= since - LEAD]
            ordered = ordered[early[-1] :] if early else ordered
        self.segments = tuple(ordered)
        self.bytes = sum(segment.size for segment in ordered)
        self.done = 0
        self.notes: list[str] = []
        self.more_notes = 0

    def items(self) -> Iterator[RecordedItem]:
        """All records in order; the `thing` of a START is an Opening.

        RecordingError for a segment of another version, of the recording or of the frames in it.
        """
        self.done, self.notes, self.more_notes = 0, [], 0
        run, seen = "", 0
        for segment in self.segments:
            for record in self._records(segment):
                try:
                    item = records.meaning(record)
                except wire.VersionError as error:
                    raise RecordingError(f"{segment.path}: recorded from agents of another version: {error}") from None
                except RecordError as error:
                    self._note(f"{segment.path}: left out, {error}")
                    continue
                if item.mark is RecordMark.START:
                    start: Start = item.thing
                    if start.frame != wire.VERSION:
                        raise RecordingError(
                            f"{segment.path}: frames of version {start.frame}, recorded by fabricmon "
                            f"{start.fabricmon}; this fabricmon reads version {wire.VERSION}"
                        )
                    fresh = start.run != run
                    run, seen = start.run, start.before if fresh else seen
                    opening = Opening(start, fresh, start.before if fresh else start.before - seen)
                    if opening.missing:
                        self._note(f"{segment.path}: {_gap(opening)}")
                    seen = start.before
                    item = item._replace(thing=opening)
                elif not run:
                    raise RecordingError(f"{segment.path}: does not begin with a START record")
                seen += 1
                yield item

    def _records(self, segment: Segment) -> Iterator[records.PackedRecord]:
        """Records of one file up to its end or its first damage."""
        try:
            with open(segment.path, "rb") as file:
                head = file.read(records.HEADER_SIZE)
                if not head:
                    self._note(f"{segment.path}: empty")
                    return
                try:
                    records.check_header(head)
                except RecordError as error:
                    raise RecordingError(f"{segment.path}: {error}") from None
                self.done += len(head)
                while data := file.read(records.BLOCK_SIZE):
                    try:
                        block = self._block(file, data)
                        yield from records.unpack(block)
                    except RecordError as error:
                        left = max(0, segment.size - file.tell())
                        self._note(f"{segment.path}: ends early, {error}; {left} bytes after it are not read")
                        return
        except OSError as error:
            raise RecordingError(f"{segment.path}: {error.strerror or error}") from None

    def _block(self, file: BinaryIO, data: bytes) -> bytes:
        head = records.block_head(data)
        packed = file.read(head.packed)
        self.done += len(data) + len(packed)
        return records.block_body(head, packed)

    def _note(self, text: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.append(text)
        else:
            self.more_notes += 1


def _gap(opening: Opening) -> str:
    if opening.fresh:
        return f"begins within a run: {opening.missing} records before it are missing"
    lost = f", {opening.start.lost} of them lost while recording" if opening.start.lost else ""
    return f"{opening.missing} records before it are missing{lost}"


def _segments(path: Path) -> list[Segment]:
    """The segments at a path, by name."""
    try:
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix == records.SUFFIX)
        else:
            files = [path]
        return [_segment(file, file.stat().st_size) for file in files]
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None


def _segment(path: Path, size: int) -> Segment:
    words = path.name.removesuffix(records.SUFFIX).split("-")
    if len(words) == 3 and words[0].isdecimal() and words[2].isdecimal() and path.suffix == records.SUFFIX:
        return Segment(int(words[0]) / 1000, words[1], int(words[2]), path, size)
    raise RecordingError(f"{path}: expected a segment's name (TIME-RUN-NUMBER{records.SUFFIX})")
