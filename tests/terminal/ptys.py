"""A program in a real pseudo-terminal, and what a person would see of it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

PATIENCE = 120.0


def _as_a_login_shell_would() -> None:
    """Ctrl-C works also where the tests themselves run in the background, with SIGINT ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """`command` in a terminal of that size; the screen is kept by an emulator, as it would be shown."""

    def __init__(self, command: Sequence[object], columns: int = 80, lines: int = 24, **environment: str) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=5000)
        self.stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self.master, slave = pty.openpty()
        self._resize(columns, lines)
        kept: Mapping[str, str] = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**kept, "TERM": "xterm-256color", **environment},
            preexec_fn=_as_a_login_shell_would,
        )  # fmt: skip
        os.close(slave)

    def _resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._resize(columns, lines)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read(self, seconds: float = 0.1) -> bool:
        """Take what was written within that time; False when the program has closed the terminal."""
        poll = select.poll()  # which knows descriptors above 1023, too
        poll.register(self.master, select.POLLIN)
        if not poll.poll(1e3 * seconds):
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.sent += data
        self.stream.feed(data)
        return bool(data)

    @property
    def shown(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, what: Callable[[str], object] | str) -> str:
        """Until the screen holds a text, or something is true of it; the screen."""
        look = (lambda shown: what in shown) if isinstance(what, str) else what
        end = time.monotonic() + PATIENCE
        while not look(self.shown):
            alive = self.read()
            if not alive or time.monotonic() > end:
                if look(self.shown):
                    break
                raise AssertionError(f"{what!r} did not come; the screen:\n{self.shown}")
        return self.shown

    def end(self) -> int:
        """Wait for the program's own end; its exit code."""
        end = time.monotonic() + PATIENCE
        while self.read() and time.monotonic() < end:
            pass
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
