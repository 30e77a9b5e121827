"""The protocol of a job source, and the parser thread that sources share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fabricmon.jobs.model import Listing
from fabricmon.runtime.reader import Busy, Overdue, Reader

MAX_ANSWER = 128 << 20  # bytes of one answer; squeue --json has about 6 KiB a job


class JobsError(Exception):
    """A source that does not respond, or with an invalid answer; the text has the reason."""


class JobSource(Protocol):
    """A source of jobs.

    name    in incidents, API and log
    period  seconds between the end of one `follow` and the next
    """

    name: str
    period: float

    async def follow(self, deliver: Callable[[Listing], None]) -> None:
        """Request once, or watch; `deliver` every good answer. JobsError or ListingError where there is none."""

    def close(self) -> None:
        """Release threads."""


class Parser:
    """Parses answers in its own thread: a large one takes seconds, and evaluation must go on."""

    def __init__(self, name: str, deadline: float) -> None:
        self._reader: Reader | None = None
        self._name, self._deadline = name, deadline

    async def parse(self, parse: Callable[[], Listing]) -> Listing:
        if self._reader is None:
            self._reader = Reader(self._name[:15])
        try:
            return await self._reader.call(parse, self._deadline)
        except (Overdue, Busy) as error:
            raise JobsError(f"takes too long: {error}") from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
