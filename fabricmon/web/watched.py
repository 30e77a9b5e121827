"""Settings that stand in files and are read again when one of these changes, under the running process.

A new state that cannot be used changes nothing: the one before stays, and that is said. Files of one state are often
written one after the other (a certificate, then its key), so what fails once is looked at again before it is told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fabricmon.config.source import ConfigError
from fabricmon.runtime import logs
from fabricmon.runtime.reader import Busy, Overdue, Reader

PERIOD = 5.0
"""Seconds between two looks whether a file changed."""

LIMIT = 30.0
"""Seconds for a look; a file on a dead mount never comes."""

T = TypeVar("T")
Mark = tuple[int, int, int] | None


class Watched(Generic[T]):
    """What `load` makes of files. `load` answers it and the files it came from; ConfigError or ValueError for a bad
    state. The constructor calls it, and so raises the same.

    value    the newest good state
    error    "" or why the newest state of the files is not in use
    changed  called with each new good state
    """

    def __init__(
        self, name: str, load: Callable[[], tuple[T, Sequence[str]]], changed: Callable[[T], None] = lambda _: None
    ) -> None:
        self._name, self._load, self._changed = name, load, changed
        self._log = logs.get(part="listener" if name == "web" else name)
        self.error = ""
        self.reloads = self.failures = 0
        self.succeeded = time.time()
        self._failed_before = False
        self.value, self._files = load()
        self._marks = _marks(self._files)

    @property
    def files(self) -> Sequence[str]:
        """Where the present state came from."""
        return self._files

    def take(self, other: Watched[T]) -> None:
        """What another one read holds from now on: other settings, checked before anything is changed."""
        self._load = other._load
        self._take(other.value, other._files, other._marks)

    async def run(self) -> None:
        """Look again and again until cancelled. Without files there is nothing to look at, and no thread to do it."""
        reader: Reader | None = None
        try:
            while True:
                await asyncio.sleep(PERIOD)
                if self._files:
                    reader = reader or Reader(f"files of {self._name}")
                    await self.look(reader)
        finally:
            if reader is not None:
                reader.close()

    async def look(self, reader: Reader) -> None:
        """Look once whether a file changed, and read all of them if so."""
        load = self._load
        try:
            found = await reader.call(self._again, LIMIT)
        except (ConfigError, ValueError, Overdue, Busy) as error:
            if load is self._load:
                self._refuse(str(error))
            return
        if found is not None and load is self._load:  # else other settings came while these were read
            self._take(*found)

    def _again(self) -> tuple[T, Sequence[str], list[Mark]] | None:
        marks = _marks(self._files)
        if marks == self._marks and not self._failed_before:
            return None
        # Marks from before the reading: what is written meanwhile shows at the next look.
        value, files = self._load()
        return value, files, marks if list(files) == list(self._files) else _marks(files)

    def _take(self, value: T, files: Sequence[str], marks: list[Mark]) -> None:
        self.value, self._files, self._marks = value, files, marks
        self.reloads += 1
        self.succeeded = time.time()
        self._failed_before = False
        self.error = ""
        self._log.info("security settings read again", of=self._name)
        self._changed(value)

    def _refuse(self, error: str) -> None:
        if not self._failed_before:
            self._failed_before = True
            return
        if error != self.error:
            self.failures += 1
            self._log.error("security settings refused; those before stay in use", of=self._name, problems=error)
        self.error = error


def _marks(files: Sequence[str]) -> list[Mark]:
    """What tells one state of each file from another; links are followed, as a mounted secret is swapped by one."""
    found: list[Mark] = []
    for path in files:
        try:
            state = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
    return found
