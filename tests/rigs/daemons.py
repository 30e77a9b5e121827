"""Real programs under test: started on free ports, waited for, and stopped by the process that started them."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
FABRICMON = (sys.executable, "-m", "fabricmon.cli")


_taken: list[socket.socket] = []
_PORTS = range(20_000, 32_768)  # below those that the kernel gives to sockets without a port of their own


def free_port() -> int:
    """A port of the loopback that nothing listens on; no other process of any test gets it while this one lives."""
    for port in random.sample(_PORTS, len(_PORTS)):
        mine = socket.socket(socket.AF_UNIX)
        try:
            mine.bind(f"\0fabricmon-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            mine.close()
            continue
        _taken.append(mine)
        return port
    raise OSError("no free port")


def fetch(url: str, accept: str = "*/*", timeout: float = 60.0) -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return str(answer.read().decode())


def fetch_json(url: str) -> Any:
    return json.loads(fetch(url))


def wait_for(what: str, look: Callable[[], T], patience: float = 150.0, pause: float = 0.05) -> T:
    """The first truthy answer of `look`; TimeoutError naming `what` when none came. No connection is no answer."""
    end = time.monotonic() + patience
    while True:
        try:
            found = look()
        except (OSError, urllib.error.URLError):
            found = None
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {patience:g} s")
        time.sleep(pause)


class Daemon:
    """One program with its log in a file. `prefix` goes before the command: ("ip", "netns", "exec", name)."""

    def __init__(self, log: Path, command: Sequence[object], prefix: Sequence[str] = ()) -> None:
        self.log = log
        # it ends with us, whatever happens to us
        guard = ("setpriv", "--pdeathsig", "TERM")
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*prefix, *guard, *map(str, command)], stdout=output, stderr=subprocess.STDOUT
            )

    def tail(self, size: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-size:]

    def wait_until(self, what: str, look: Callable[[], object], patience: float = 150.0) -> None:
        """Like wait_for; a program that ended meanwhile is told with its log's end."""

        def alive_and() -> object:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.log.stem} exited with {self.process.returncode}:\n{self.tail()}")
            return look()

        try:
            wait_for(what, alive_and, patience)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; end of {self.log.name}:\n{self.tail()}") from None

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return int(self.process.returncode)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
