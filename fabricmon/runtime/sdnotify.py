"""Telling systemd how the process stands (sd_notify(3)): READY, STATUS, WATCHDOG, RELOADING, STOPPING.

Does nothing where no NOTIFY_SOCKET is set. A message that cannot be sent is dropped: the service manager's
opinion must not stop the service.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Talks to the service manager that started this process, if one did."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._watchdog = _microseconds(environ)
        self._status = ""

    @property
    def listened_to(self) -> bool:
        """Whether a service manager hears what is told."""
        return bool(self._address)

    @property
    def watchdog(self) -> float | None:
        """Seconds between two WATCHDOG messages: half of what the service manager allows; None: it does not watch."""
        return self._watchdog / 2 if self._watchdog else None

    def ready(self, status: str = "") -> None:
        self._send("READY=1", status)

    def reloading(self, monotonic_usec: int) -> None:
        """The configuration is read again; `ready` ends it. `monotonic_usec`: CLOCK_MONOTONIC, as systemd 253 asks."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={monotonic_usec}")

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", status)

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; sent only when it changed."""
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
    """WATCHDOG_USEC in seconds, unless WATCHDOG_PID says that it is meant for another process."""
    text, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6
