"""Progress of a running command, on one line of standard error."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

from fabricmon.console.output import FALLBACK
from fabricmon.terminal.fitted_text import clean


@contextlib.contextmanager
def elapsed(text: str) -> Iterator[None]:
    """Show `text` and the elapsed time while the block runs."""
    with Progress() as progress:
        if not progress.live:
            yield
            return
        ended, began = threading.Event(), time.monotonic()

        def show() -> None:
            while not ended.wait(Progress.EVERY):
                progress.show(f"{text}, {time.monotonic() - began:.0f} s")

        thread = threading.Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class Progress:
    """One line on standard error if that is a terminal, after the first second and at most twice a second; else
    nothing."""

    AFTER, EVERY = 1.0, 0.5  # seconds

    def __init__(self, after: float = AFTER) -> None:
        self.live = sys.stderr.isatty()
        self._next = time.monotonic() + after
        self._shown = False

    def due(self) -> bool:
        """Whether `show` would print now: to skip making the text."""
        return self.live and time.monotonic() >= self._next

    def show(self, text: str) -> None:
        """Replace the line."""
        if not self.due():
            return
        self._next, self._shown = time.monotonic() + self.EVERY, True
        columns = shutil.get_terminal_size(FALLBACK).columns
        _to_stderr(f"\r\x1b[K{clean(text)[: columns - 1]}")

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._shown:
            self._shown = False
            _to_stderr("\r\x1b[K")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
