"""Settings that stand in files and are read again when one of these changes, under the running process.

An invalid state changes nothing and is reported. Files are often written one after the other (a certificate, then its
key), so a failure is retried once before it is reported.
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
"""Seconds between two checks for changed files."""

LIMIT = 30.0
"""Seconds for a check; a file on a dead mount blocks forever."""

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
        """Files of the current state."""
        return self._files

    def adopt(self, other: Watched[T]) -> None:
        """Use the state of another one: other settings, already checked."""
        self._load = other._load
        self._adopt(other.value, other._files, other._marks)

    async def run(self) -> None:
        """Check for changes until cancelled. Without files no thread is started."""
        reader: Reader | None = None
        try:
            while True:
                await asyncio.sleep(PERIOD)
                if self._files:
                    reader = reader or Reader(f"files of {self._name}")
                    await self.check_files(reader)
        finally:
            if reader is not None:
                reader.close()

    async def check_files(self, reader: Reader) -> None:
        """Reload all files if one of them changed."""
        load = self._load
        try:
            found = await reader.call(self._again, LIMIT)
        except (ConfigError, ValueError, Overdue, Busy) as error:
            if load is self._load:
                self._refuse(str(error))
            return
        if found is not None and load is self._load:  # else other settings arrived meanwhile
            self._adopt(*found)

    def _again(self) -> tuple[T, Sequence[str], list[Mark]] | None:
        marks = _marks(self._files)
        if marks == self._marks and not self._failed_before:
            return None
        # Marks from before the read: later writes show at the next check.
        value, files = self._load()
        return value, files, marks if list(files) == list(self._files) else _marks(files)

    def _adopt(self, value: T, files: Sequence[str], marks: list[Mark]) -> None:
        self.value, self._files, self._marks = value, files, marks
        self.reloads += 1
        self.succeeded = time.time()
        self._failed_before = False
        self.error = ""
        self._log.info("security settings reloaded", of=self._name)
        self._changed(value)

    def _refuse(self, error: str) -> None:
        if not self._failed_before:
            self._failed_before = True
            return
        if error != self.error:
            self.failures += 1
            self._log.error("security settings rejected; the previous ones stay in use", of=self._name, problems=error)
        self.error = error


def _marks(files: Sequence[str]) -> list[Mark]:
    """Identity of each file's state; links are followed, because mounted secrets are swapped by a link."""
    found: list[Mark] = []
    for path in files:
        try:
            state = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
    return found
