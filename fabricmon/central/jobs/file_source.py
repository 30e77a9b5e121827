"""Jobs from a file of the site (format in fabricmon/jobs/file.py)."""

from __future__ import annotations

import os
from collections.abc import Callable

from fabricmon.central.jobs.source import JobsError, Parser
from fabricmon.jobs import file
from fabricmon.jobs.model import Listing

PERIOD = 5.0  # seconds between two checks for a change
MAX_BYTES = 64 << 20


class JobFile:
    """Reads the file when it changed. Without `as_of` in it, it is current as long as it is readable."""

    def __init__(self, path: str, deadline: float) -> None:
        self.path, self.name, self.period = path, f"file {path}", PERIOD
        self._parser = Parser("jobs file", float(deadline))
        self._seen: tuple[int, int, int] | None = None
        self._last: Listing | None = None

    async def follow(self, deliver: Callable[[Listing], None]) -> None:
        deliver(await self._parser.parse(self._poll))

    def close(self) -> None:
        self._parser.close()

    def _poll(self) -> Listing:
        try:
            with open(self.path, "rb") as opened:
                state = os.fstat(opened.fileno())
                mark = (state.st_ino, state.st_size, state.st_mtime_ns)
                if mark == self._seen and self._last is not None:
                    return self._last
                data = opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise JobsError(f"cannot be read: {error.strerror}") from error
        if len(data) > MAX_BYTES:
            raise JobsError(f"larger than {MAX_BYTES} bytes")
        self._last = file.parse(data)
        self._seen = mark  # only now: a half-written file is read again
        return self._last
