"""Messages to systemd (sd_notify(3)): READY, STATUS, WATCHDOG, RELOADING, STOPPING.

Without NOTIFY_SOCKET nothing is sent. A message that cannot be sent is dropped, as the service must go on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Sends messages to the service manager of this process, if there is one."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._watchdog = _microseconds(environ)
        self._status = ""

    @property
    def enabled(self) -> bool:
        """Whether there is a service manager to notify."""
        return bool(self._address)

    @property
    def watchdog(self) -> float | None:
        """Seconds between two WATCHDOG messages, half of the service manager's limit; None without a limit."""
        return self._watchdog / 2 if self._watchdog else None

    def ready(self, status: str = "") -> None:
        self._send("READY=1", status)

    def reloading(self, monotonic_usec: int) -> None:
        """A reload begins; `ready` ends it. `monotonic_usec`: CLOCK_MONOTONIC, required since systemd 253."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_usec}")

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", status)

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; sent only after a change."""
        if text != self._status:
            self._status = text
            self._send("", text)

    def _send(self, message: str, status: str = "") -> None:
        if not self._address:
            return
        if status:
            message = f"{message}\nSTATUS={' '.join(status.split())}".lstrip("\n")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
                s.setblocking(False)
                s.sendto(message.encode(), self._address)
        except OSError:
            pass


def _microseconds(environ: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC in seconds, unless WATCHDOG_PID names another process."""
    text, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6
