"""Records what each test executes: a mark before each statement, one process for each file of tests."""

from __future__ import annotations

import importlib
import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mutation.collected import run_items
from tests.mutation.hook import Plan
from tests.mutation.recording import KEPT, Place, functions_now, keep, own_digest, statements
from tests.mutation.session import LONGEST, ROOT, TIER, Spent, bounded_memory, in_forks, main_of_pytest

SLOTS = 4096  # statements of one module at most
LOG = KEPT.with_suffix(".log")


class _OneFile:
    """A pytest plugin for one file of tests: what each test executed and how long it took, with the fixtures that it
    shares as if it ran alone."""

    def __init__(self, hits: Path) -> None:
        self._hits = np.memmap(hits, dtype=np.uint8, mode="r+")
        self.tests: dict[str, tuple[float, float, set[int]]] = {}
        self.failed: set[str] = set()
        self._shared: dict[str, set[int]] = {}
        self._setup: dict[str, tuple[float, float]] = {}

    def taken(self) -> set[int]:
        found = set(np.flatnonzero(np.array(self._hits)).tolist())  # a copy: a process that lives on still marks
        self._hits[:] = 0
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, spent = self.taken(), Spent()
        try:
            return (yield)
        finally:
            made = self.taken()
            self._setup[fixturedef.argname] = spent.cpu(), spent.wall()
            self._shared.setdefault(fixturedef.argname, set()).update(made)
            self._hits[list(before | made)] = 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        fixtures = set(getattr(item, "fixturenames", ()))
        spent, earlier = Spent(), [self._setup[fixture] for fixture in fixtures & self._setup.keys()]
        try:
            return (yield)
        finally:
            shared = (self._shared.get(fixture, set()) for fixture in fixtures)
            cpu, wall = (sum(times) for times in zip((spent.cpu(), spent.wall()), *earlier, strict=True))
            self.tests[item.nodeid] = (cpu, wall, self.taken().union(*shared))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


class _Recorder:
    """A pytest plugin: collects all files with marked modules, then runs each in a fork."""

    def __init__(self, folder: Path, names: Sequence[str], jobs: int) -> None:
        self._folder, self._names, self._jobs, self._size = folder, names, jobs, len(names) * SLOTS
        self._hits = np.memmap(_empty(folder / "hits", self._size), dtype=np.uint8, mode="r+")
        self._plan = Plan({}, {name: at * SLOTS for at, name in enumerate(names)}, str(folder / "hits"))
        self._plan.install(folder / "plan.json")
        for name in names:
            importlib.import_module(name)
        self._imported = self._taken()
        self._collected: dict[Path, set[int]] = {}

    def _taken(self) -> set[int]:
        found = set(np.flatnonzero(self._hits).tolist())
        self._hits[:] = 0
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[pytest.CollectReport]:
        report: pytest.CollectReport = yield  # type: ignore[misc, assignment]
        if report.failed:
            raise RuntimeError(f"{report.nodeid} cannot be collected: {report.longrepr}")
        if isinstance(collector, pytest.Module):
            self._collected[collector.path] = self._taken()
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        of: dict[Path, list[pytest.Item]] = {}
        for item in session.items:
            of.setdefault(item.path, []).append(item)
        for path in self._collected.keys() - of.keys():  # no test of this file is asked for
            keep(path, self._raw(path, _OneFile(_empty(self._folder / "none", self._size)), self._collected[path]))
        works = [(path, lambda folder, items=items: self._record(folder, items)) for path, items in of.items()]
        LOG.parent.mkdir(parents=True, exist_ok=True)
        with LOG.open("w") as log:
            for path, result in in_forks(works, LONGEST, self._jobs):
                if isinstance(result, dict):
                    keep(path, result)
                    cpu, wall = (sum(one[at] for one in result["tests"].values()) for at in (0, 1))
                    result = f"{len(result['tests'])} tests, {cpu:.1f} s of CPU time in {wall:.1f} s"
                print(f"{path.relative_to(ROOT)}: {result}", file=log, flush=True)
        return True

    def _record(self, folder: Path, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """In a fork: with hits of its own, so that others may run at the same time."""
        hits = _empty(folder / "hits", self._size)
        with hits.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), 0)
        for name in self._names:
            vars(sys.modules[name])["__hits__"] = shared
        Plan({}, self._plan.marks, str(hits)).install(folder / "plan.json")
        one = _OneFile(hits)
        bounded_memory()
        items[0].config.pluginmanager.register(one)
        run_items(items)
        path = items[0].path
        return self._raw(path, one, self._imported | self._collected.get(path, set()))

    def _raw(self, path: Path, one: _OneFile, imported: set[int]) -> dict[str, Any]:
        passed = {name: test for name, test in one.tests.items() if name not in one.failed}
        hit = sorted(imported.union(*(places for *_, places in passed.values())))
        at = {place: number for number, place in enumerate(hit)}
        return {
            "own": own_digest(path),
            "functions": functions_now(self._names),
            "places": [self._place(place) for place in hit],
            "imported": sorted(at[place] for place in imported),
            "tests": {
                name: (cpu, wall, _numbers(places, at)) for name, (cpu, wall, places) in passed.items()
            },
        }

    def _place(self, place: int) -> Place:
        module = self._names[place // SLOTS]
        statement = statements(module)[place % SLOTS]
        return module, statement.function, statement.digest, statement.number


def _numbers(places: Iterable[int], at: Mapping[int, int]) -> list[int]:
    return sorted(at[place] for place in places)


def _empty(file: Path, size: int) -> Path:
    file.write_bytes(bytes(size))
    return file


def record(folder: Path, files: Sequence[Path], names: Sequence[str], jobs: int, part: str) -> int:
    """Record this part of these files of tests; pytest's exit status. In a fork: it imports marked modules."""
    TIER.part = part
    return main_of_pytest([str(file.relative_to(ROOT)) for file in files], _Recorder(folder, names, jobs))
