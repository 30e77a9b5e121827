"""Full-screen mode of a terminal: keys without line buffering, the alternate screen, restored afterwards."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType
from typing import Any

from fabricmon.terminal.keys import keys

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, no cursor, no wrapping
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
FALLBACK = (80, 24)
MAX_KEYS = 4096  # bytes of one read
SEQUENCE_GAP = 0.03  # seconds for the remaining bytes of a key, also over a slow line


class Screen:
    """A context manager. A byte written to the file descriptor `woken` ends a `wait`."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout
        self._before: list[Any] = []
        self._reader, self.woken = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(self._reader, False)
        self._handlers: dict[int, object] = {}
        self._shown: list[str] = []
        self._size = (0, 0)

    def __enter__(self) -> Screen:
        self._before = termios.tcgetattr(self._in)
        tty.setcbreak(self._in, termios.TCSANOW)
        for number in (signal.SIGWINCH, signal.SIGCONT):
            self._handlers[number] = signal.signal(number, self._wake)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _end)
        self._write(ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        with contextlib.suppress(OSError):
            self._write(LEAVE)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)
        os.close(self._reader)
        os.close(self.woken)

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        try:
            found = os.get_terminal_size(self._out.fileno())
        except OSError:
            found = shutil.get_terminal_size(FALLBACK)
        return max(found.columns, 1), max(found.lines, 1)

    def wake(self) -> None:
        """End a `wait` from another thread."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: nothing waits
            os.write(self.woken, b"x")

    def wait(self, seconds: float) -> list[str]:
        """The keys pressed; [] after that time or on `wake`. EOFError if the terminal is closed."""
        ready, _, _ = select.select([self._in, self._reader], [], [], seconds)
        if self._reader in ready:
            with contextlib.suppress(OSError):
                os.read(self._reader, MAX_KEYS)
        if self._in not in ready:
            return []
        typed = os.read(self._in, MAX_KEYS)
        if not typed:
            raise EOFError
        if typed.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([self._in], [], [], SEQUENCE_GAP)[0]:
            typed += os.read(self._in, MAX_KEYS)
        return keys(typed)

    def draw(self, lines: Sequence[str], *, anew: bool = False) -> None:
        """Show these lines from the top. Only changed lines are written, for slow connections."""
        size = self.size()
        if anew or size != self._size:
            self._size, self._shown = size, []
            self._write("\x1b[2J")
        lines = list(lines[: size[1]])
        out = []
        for row in range(max(len(lines), len(self._shown))):
            line = lines[row] if row < len(lines) else ""
            if row >= len(self._shown) or self._shown[row] != line:
                out.append(f"\x1b[{row + 1};1H{line}\x1b[0m\x1b[K")
        self._shown = lines
        if out:
            self._write("".join(out))

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "replace").decode(encoding))
        self._out.flush()

    def _wake(self, _number: int, _frame: FrameType | None) -> None:
        self._size = (0, 0)
        self.wake()


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
