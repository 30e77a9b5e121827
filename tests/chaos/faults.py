"""The kinds of faults of a campaign: each happens to one resource for a while, and is over when its call returns."""

from __future__ import annotations

import contextlib
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fabricmon.central.store.database import FILE
from tests.chaos.site import Site
from tests.chaos.starve import without_descriptors
from tests.rigs.faulty_disk import FaultyDisk

HOUR = 3600
PAGE = 4096  # bytes of a page of the database
START = 240.0  # seconds for a process to start; a disk may hang meanwhile


@dataclass
class Stage:
    """A site and what may happen to it. `ended` names processes that ended for no reason that the faults give."""

    site: Site
    disk: FaultyDisk
    folder: Path
    ended: list[str] = field(default_factory=list)
    disk_faulty: bool = False
    _starting: threading.RLock = field(default_factory=threading.RLock)
    _wanted: queue.Queue[tuple[str, threading.Event]] = field(default_factory=queue.Queue)

    def serve(self) -> None:
        """Start what other threads want started: a process ends with the thread that started it."""
        with contextlib.suppress(queue.Empty):
            process, started = self._wanted.get(timeout=0.05)
            self.site.start(process)
            started.set()

    def _start(self, process: str) -> None:
        if threading.current_thread() is threading.main_thread():
            self.site.start(process)
            return
        started = threading.Event()
        self._wanted.put((process, started))
        started.wait()

    def shift(self, process: str, seconds: int) -> None:
        """The wall clock of a process is this far ahead of the machine's."""
        fresh = self.folder / f"{process}.clock.new"
        fresh.write_text(f"{seconds:+d}\n")
        fresh.rename(self.folder / f"{process}.clock")

    def alive(self, process: str) -> None:
        """Start what has ended, as a service manager does: a server that cannot open its state may end."""
        with self._starting:
            status = self.site.daemons[process].process.poll()
            if status is None:
                return
            if not (process == "server" and self.disk_faulty):
                self.ended.append(f"{process}: status {status}\n{self.site.daemons[process].tail(1500)}")
            self._start(process)

    def kill(self, process: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill -9; start anew after `meanwhile`."""
        self.alive(process)
        with self._starting:
            daemon = self.site.daemons[process].process
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            meanwhile()
            self._start(process)

    def started(self, process: str) -> int:
        """The number of the process once it answers. TimeoutError if none does for long."""
        end = time.monotonic() + START
        while time.monotonic() < end:
            self.alive(process)
            pid = self.site.pid(process)
            with contextlib.suppress(OSError):
                if self.site.text("/-/live", process) and self.site.pid(process) == pid:
                    return pid
            time.sleep(0.2)
        raise TimeoutError(f"{process} does not answer")

    @contextlib.contextmanager
    def stopped(self, process: str) -> Iterator[None]:
        """The process gets no processor time."""
        self.alive(process)
        daemon = self.site.daemons[process].process
        daemon.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            daemon.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def on(self, mode: str) -> Iterator[None]:
        """The disk of the state is faulty."""
        self.disk_faulty = True
        self.disk.be(mode)
        try:
            yield
        finally:
            self.disk.be("ok")


def _kill(process: str) -> Callable[[Stage, random.Random], None]:
    return lambda stage, _: stage.kill(process)


def _disk(mode: str, least: float, most: float) -> Callable[[Stage, random.Random], None]:
    def happen(stage: Stage, rng: random.Random) -> None:
        with stage.on(mode):
            time.sleep(rng.uniform(least, most))

    return happen


def _clock(seconds: int) -> Callable[[Stage, random.Random], None]:
    def happen(stage: Stage, rng: random.Random) -> None:
        process = rng.choice(("server", "agent"))
        stage.shift(process, seconds)
        time.sleep(rng.uniform(2, 4))
        stage.shift(process, 0)

    return happen


def _suspend(stage: Stage, rng: random.Random) -> None:
    """No processor time, then a wall clock that is half an hour ahead while the monotonic one stood still."""
    with stage.stopped("server"):
        time.sleep(rng.uniform(1, 3))
        stage.shift("server", HOUR // 2)
    time.sleep(rng.uniform(1, 3))
    stage.shift("server", 0)


def _receiver_hangs(stage: Stage, rng: random.Random) -> None:
    with stage.stopped("receiver"):
        time.sleep(rng.uniform(1, 4))


def _starve(process: str) -> Callable[[Stage, random.Random], None]:
    def happen(stage: Stage, rng: random.Random) -> None:
        pid = stage.started(process)  # without descriptors a process cannot start
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), without_descriptors(pid):  # killed meanwhile
            time.sleep(rng.uniform(1, 4))

    return happen


def _damage(stage: Stage, rng: random.Random) -> None:
    """Kill -9, then damage the database so that a check of the file shows it; the journal is gone, too."""
    state = stage.disk.backing / stage.site.state.name

    def damage() -> None:
        for suffix in ("-wal", "-shm"):
            (state / f"{FILE}{suffix}").unlink(missing_ok=True)
        file = state / FILE
        if not file.exists() or file.stat().st_size <= 2 * PAGE:
            return
        with file.open("r+b") as data:
            how = rng.choice(("header", "pages", "cut"))
            if how == "header":
                data.write(rng.randbytes(100))
            elif how == "cut":
                data.truncate(file.stat().st_size // PAGE // 2 * PAGE)
            else:
                data.seek(PAGE)
                data.write(rng.randbytes(file.stat().st_size - PAGE))

    stage.kill("server", damage)


@dataclass(frozen=True)
class Kind:
    """resource  of which only one fault happens at a time
    loses    the server's memory of what it sent: a resolution that nobody knows of any more cannot be sent"""

    resource: str
    happen: Callable[[Stage, random.Random], None]
    loses: bool = False


KINDS: Mapping[str, Kind] = {
    "kill -9 of the server": Kind("server", _kill("server")),
    "kill -9 of the agent": Kind("agent", _kill("agent")),
    "kill -9 of the receiver": Kind("receiver", _kill("receiver")),
    "receiver hangs": Kind("receiver", _receiver_hangs),
    "disk full": Kind("disk", _disk("full", 1, 4)),
    "disk read-only": Kind("disk", _disk("readonly", 1, 4)),
    "disk hung": Kind("disk", _disk("hung", 1, 6)),
    "database damaged": Kind("server", _damage, loses=True),
    "clock an hour ahead": Kind("clock", _clock(HOUR)),
    "clock an hour back": Kind("clock", _clock(-HOUR)),
    "suspend": Kind("server", _suspend),
    "descriptors of the server": Kind("descriptors", _starve("server")),
    "descriptors of the agent": Kind("descriptors", _starve("agent")),
}


def clock_of(process: str, folder: Path) -> tuple[str, ...]:
    """Before a command: its wall clock follows `Stage.shift`."""
    (folder / f"{process}.clock").write_text("+0\n")
    settings = {
        "LD_PRELOAD": next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")),
        "FAKETIME_TIMESTAMP_FILE": folder / f"{process}.clock",
        "FAKETIME_CACHE_DURATION": 1,
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        "NO_FAKE_STAT": 1,
    }
    return ("env", *(f"{name}={value}" for name, value in settings.items()))
