"""The server of tests/chaos/feed.py and its receiver, killed at random moments until the script is at its end."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.rigs.daemons import Daemon, fetch, free_port

STEPS = 40
KILLS = 4


class Play:
    """One run. `state` is the server's directory, `received` the receiver's file.

    run       which script; it decides about the moments and the victims, too
    key_file  with one the receiver is a pager
    """

    def __init__(self, folder: Path, run: int, key_file: Path | None = None) -> None:
        self.state, self.received, self._folder = folder / "state", folder / "received.jsonl", folder
        self._run, self._key, self._port = run, [key_file] if key_file else [], free_port()
        self._url = f"http://127.0.0.1:{self._port}/"

    @property
    def server_log(self) -> Path:
        return self._folder / "server.log"

    def to_the_end(self, victims: Sequence[tuple[str, ...]]) -> None:
        """Kill up to KILLS times, each time one of `victims`: "server", "receiver" or both at once."""
        rng = random.Random(self._run)
        hook, feed = self._receiver(), self._server()
        try:
            for _ in range(KILLS):
                # Mostly soon after the start, when it opens the state and delivers what waits; sometimes in the middle.
                time.sleep(rng.choice((0.05, 0.4, 0.6, 0.9)) + rng.random() * 0.3)
                if feed.process.poll() is not None:
                    break
                victim = rng.choice(victims)
                if "receiver" in victim:
                    _kill(hook)
                    hook = self._receiver()
                if "server" in victim:
                    _kill(feed)
                    feed = self._server()
            hook.wait_until("receiver", lambda: fetch(self._url) == "")
            assert feed.process.wait(60) == 0, feed.tail()
        finally:
            for daemon in (hook, feed):
                _kill(daemon)

    def _receiver(self) -> Daemon:
        command = [sys.executable, "-m", "tests.rigs.receiver", self._port, self.received]
        return Daemon(self._folder / "receiver.log", command)

    def _server(self) -> Daemon:
        command = [sys.executable, "-m", "tests.chaos.feed", self.state, self._url, self._run, STEPS, *self._key]
        return Daemon(self.server_log, command)


def _kill(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
