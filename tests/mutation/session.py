"""Runs tests in a forked process with a plan for the modules, and says what each did."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

from tests.mutation.hook import Plan

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0  # times as much CPU time as it took unchanged, and at least so many seconds, may a test take
ASLEEP = 30.0  # seconds that a test may take at least when it only waits
RUNNING = "running"  # file of a session's folder that has the name of the test that runs
LONGEST = 900.0  # seconds after which a session is killed
EXAMPLES = 25  # of a property, as in `make test`
MEMORY = 8 << 30  # bytes of address space of a session: an endless loop must not take the machine's memory
PRELOADED = (
    "numpy", "hypothesis", "aiohttp.web", "msgspec", "yaml", "structlog", "prometheus_client", "pyroute2", "re2",
    "bcrypt", "dns.resolver",
)  # fmt: skip
OPTIONS = (
    "-q", "--no-header", "--tb=line", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


MARKS = {
    "all": "not (vm or chaos or rig)",
    "quick": "not (long or vm or chaos or rig)",
    "long": "long and not (vm or chaos or rig)",
}
"""Part of the tests -> the marks with which pytest selects it. "quick": those of `make test`."""


@dataclass
class Tier:
    """Which part of the tests runs, in this process and in those that it forks."""

    part: str = "all"


TIER = Tier()


class SameExamples:
    """A pytest plugin: properties are tried with the same examples each time, and a failing one is not made smaller."""

    def pytest_sessionstart(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutation", deadline=None, database=None, derandomize=True, phases=phases, max_examples=EXAMPLES
        )
        settings.load_profile("mutation")


Work = Callable[[Path], Any]
Named = TypeVar("Named")


@dataclass
class Outcome:
    """What a session came to.

    failed     id of the first test that failed, "" where none did
    why        what failed in it: the kind and the text of the error
    passed     number of tests that passed
    seconds    CPU time of the tests and the processes that they started, without start and collection
    """

    failed: str = ""
    why: str = ""
    passed: int = 0
    seconds: float = 0.0

    @property
    def took_too_long(self) -> bool:
        """Whether all that failed is that something took longer than it may: on a busy machine a test that waits does
        so without a change, too."""
        return bool(self.failed) and any(word in self.why for word in ("Timeout", "timed out", "did not end"))


@dataclass(eq=False)
class Watch:
    """A pytest plugin: order, limits, and the first failure.

    times   expected CPU time and duration of each test to run, in the order in which they run
    limit   seconds of CPU time after which no further test starts
    note    file that has the name of the test that runs
    """

    times: Mapping[str, tuple[float, float]]
    limit: float
    note: Path
    outcome: Outcome = field(default_factory=Outcome)

    def is_over(self) -> bool:
        return bool(self.outcome.failed) or self.outcome.seconds > self.limit

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        places = {name: place for place, name in enumerate(self.times)}
        items.sort(key=lambda item: places.get(item.nodeid, len(places)))
        for item in items:
            _, wall = self.times.get(item.nodeid, (0.0, 0.0))
            item.add_marker(pytest.mark.timeout(max(ASLEEP, PATIENCE * wall)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.is_over():
            item.session.shouldstop = "the time is over"
        self.note.write_text(item.nodeid)
        cpu, _ = self.times.get(item.nodeid, (0.0, 0.0))
        spent = Spent()
        try:
            with _at_most(PATIENCE * max(1.0, cpu)):
                return (yield)
        finally:
            self.outcome.seconds += spent.cpu()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.outcome.failed:
            self.outcome.failed, self.outcome.why = report.nodeid, _reason(report)
        self.outcome.passed += report.when == "call" and report.passed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.outcome.failed:
            self.outcome.failed, self.outcome.why = report.nodeid, _reason(report)


class Spent:
    """Time since it was made, of this process and of those that it started and that ended."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), self._used()

    @staticmethod
    def _used() -> float:
        of = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in of)

    def cpu(self) -> float:
        return self._used() - self._cpu

    def wall(self) -> float:
        return time.monotonic() - self._wall


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises in the main thread of this process after so much CPU time: an endless loop ends."""

    def raised(*_: object) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s of CPU time")

    signal.signal(signal.SIGPROF, raised)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def bounded_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr))[:300]


def preload() -> None:
    """Import what every session needs, nothing of fabricmon, so that a fork has it at once."""
    for name in PRELOADED:
        __import__(name)
    gc.freeze()


class _Fork:
    """`work(folder)` in a process of its own. The folder holds its temporary files and is gone after `result`."""

    def __init__(self, work: Work, limit: float) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mutation-"))
        self._until, self._killed = time.monotonic() + limit, False
        self._child = os.fork()
        if self._child == 0:
            _child(work, self._folder)

    def ended(self) -> bool:
        """Whether it ended; past its limit it is killed."""
        if time.monotonic() > self._until:
            self._killed = True
            os.killpg(self._child, signal.SIGKILL)
        if os.waitpid(self._child, os.WNOHANG) == (0, 0):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGKILL)  # what a failed test left running
        return True

    def result(self) -> Any:
        """What the work returned; an error where it died, TimeoutError with the test that ran where it was killed at
        its limit."""
        file = self._folder / "result.json"
        try:
            if file.exists():
                return json.loads(file.read_text())
            if self._killed:
                note = self._folder / RUNNING
                return TimeoutError(note.read_text() if note.exists() else "")
            return RuntimeError((self._folder / "output").read_text(errors="replace"))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def _child(work: Work, folder: Path) -> None:
    code = 1
    try:
        os.setsid()
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(descriptor, target)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        written = folder / "result.part"
        written.write_text(json.dumps(work(folder)))
        written.rename(folder / "result.json")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def in_forks(works: Iterable[tuple[Named, Work]], limit: float, jobs: int) -> Iterator[tuple[Named, Any]]:
    """Name and result of each work, as they end; `jobs` at a time, as `_Fork.result` has it."""
    waiting, running = iter(works), {}
    while True:
        for name, work in itertools.islice(waiting, jobs - len(running)):
            running[_Fork(work, limit)] = name
        if not running:
            return
        for fork in [fork for fork in running if fork.ended()]:
            yield running.pop(fork), fork.result()
        time.sleep(0.02)


def main_of_pytest(arguments: Sequence[str], plugin: Any) -> int:
    os.chdir(ROOT)
    return int(pytest.main([*OPTIONS, "-m", MARKS[TIER.part], *arguments], plugins=[SameExamples(), plugin]))


def run_tests(folder: Path, tests: Sequence[str], plan: Plan, watch: Any) -> int:
    """pytest's exit code for these tests, with modules changed as planned. In a fork only: it imports them."""
    assert not any(name.partition(".")[0] == "fabricmon" for name in sys.modules)
    plan.install(folder / "plan.json")
    bounded_memory()
    return main_of_pytest(tests, watch)
