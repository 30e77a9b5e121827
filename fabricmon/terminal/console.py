"""The terminal that a command prints to: its width, whether it takes colours, and lines that outlive nothing."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from fabricmon.terminal.style import Style, wanted
from fabricmon.terminal.text import clean
from fabricmon.terminal.view import View

COLOURS = ("auto", "always", "never")
FALLBACK = (100, 24)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Colour or none."""
    parser.add_argument(
        "--colour",
        "--color",
        choices=COLOURS,
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set (default %(default)s)",
    )


def view(args: argparse.Namespace, now: float) -> View:
    """How this command prints. Into a pipe or a file nothing is cut off, unless COLUMNS says how wide it is."""
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size(FALLBACK).columns if terminal or os.environ.get("COLUMNS") else None
    return View(Style(wanted(args.colour, terminal, os.environ)), columns, now)


def show(lines: Iterable[str]) -> None:
    """Print them; what the terminal's encoding has not is a question mark."""
    text = "".join(f"{line}\n" for line in lines)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


@contextlib.contextmanager
def elapsed(text: str) -> Iterator[None]:
    """Say what goes on, and for how long, while something runs that cannot tell how far it is."""
    with Progress() as progress:
        if not progress.live:
            yield
            return
        ended, began = threading.Event(), time.monotonic()

        def tell() -> None:
            while not ended.wait(Progress.EVERY):
                progress.tell(f"{text}, {time.monotonic() - began:.0f} s")

        thread = threading.Thread(target=tell, name="progress", daemon=True)
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
    """One line on standard error where that is a terminal, from one second after the beginning on and at most twice a
    second; nothing elsewhere. `with Progress() as progress: progress.tell("3 of 10")`."""

    AFTER, EVERY = 1.0, 0.5  # seconds

    def __init__(self, after: float = AFTER) -> None:
        self.live = sys.stderr.isatty()
        self._next = time.monotonic() + after
        self._said = False

    def due(self) -> bool:
        """Whether `tell` would print now: for who has to make the text first."""
        return self.live and time.monotonic() >= self._next

    def tell(self, text: str) -> None:
        """What is going on now, in place of what was said before."""
        if not self.due():
            return
        self._next, self._said = time.monotonic() + self.EVERY, True
        columns = shutil.get_terminal_size(FALLBACK).columns
        _to_stderr(f"\r\x1b[K{clean(text)[: columns - 1]}")

    def clear(self) -> None:
        """Take the line away, before something else is printed."""
        if self._said:
            self._said = False
            _to_stderr("\r\x1b[K")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
