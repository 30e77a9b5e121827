"""Which test executes which statement: recorded for each file of tests, again when it or what it executes changed."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mutation.changes import marked, parse
from tests.mutation.hook import Plan
from tests.mutation.session import ROOT, in_forks, run_tests

KEPT = ROOT / ".cache/mutation"
SLOTS = 4096  # statements of one module at most

LONGEST = 900.0  # seconds for one file of tests

Lines = dict[str, list[int]]
"""Module -> lines of the statements that were executed."""


@dataclass(frozen=True)
class Recording:
    """One test.

    seconds   that it took
    lines     that it executed
    """

    seconds: float
    lines: Lines

    @cached_property
    def size(self) -> int:
        return sum(map(len, self.lines.values()))


class Recorder:
    """A pytest plugin: what each test executed, also at import and in fixtures that it shares."""

    def __init__(self, hits: Path) -> None:
        self._hits = np.memmap(hits, dtype=np.uint8, mode="r+")
        self.tests: dict[str, tuple[float, set[int]]] = {}
        self.failed: set[str] = set()
        self._shared: dict[str, set[int]] = {}
        self._users: dict[str, tuple[str, ...]] = {}
        self._imported: set[int] = set()

    def _taken(self) -> set[int]:
        found = set(np.flatnonzero(self._hits).tolist())
        self._hits[:] = 0
        return found

    def pytest_collection_finish(self) -> None:
        self._imported = self._taken()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before = self._taken()
        try:
            return (yield)
        finally:
            made = self._taken()
            self._shared.setdefault(fixturedef.argname, set()).update(made)
            self._hits[list(before | made)] = 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid] = (time.monotonic() - began, self._taken())
            self._users[item.nodeid] = tuple(getattr(item, "fixturenames", ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            raise RuntimeError(f"{report.nodeid} cannot be collected: {report.longrepr}")

    def found(self) -> Iterator[tuple[str, float, set[int]]]:
        """Each test that passed: id, seconds, places of its hits."""
        for name, (seconds, own) in self.tests.items():
            if name not in self.failed:
                shared = (self._shared.get(fixture, set()) for fixture in self._users[name])
                yield name, seconds, own.union(self._imported, *shared)


def modules(packages: Sequence[str]) -> list[str]:
    """Dotted names of the modules of these packages of fabricmon ("engine", "rules"), or of single modules."""
    found = []
    for package in packages:
        place = ROOT / "fabricmon" / package.replace(".", "/")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        found += [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return found


@cache
def source(module: str) -> str:
    file = ROOT / module.replace(".", "/")
    return (file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text(encoding="utf-8")


@cache
def _lines(module: str) -> list[int]:
    return marked(source(module), lambda number: parse("pass").body[0])[1]


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _own(file: Path) -> str:
    """A file of tests with the modules beside it that are no tests."""
    beside = sorted(path for path in file.parent.glob("*.py") if not path.name.startswith("test_"))
    return _digest(path.read_text(encoding="utf-8") for path in [file, *beside])


def recordings(files: Sequence[Path], names: Sequence[str], jobs: int) -> dict[str, Recording]:
    """The recording of each test in these files: kept from before, or made now where something changed since."""
    found: dict[Path, dict[str, Any]] = {}
    for file in files:
        kept = _kept(file)
        known = json.loads(kept.read_text()) if kept.exists() else None
        if known and _is_current(known, file, names):
            found[file] = known
    missing = [(file, lambda folder, file=file: _record(folder, file, names)) for file in files if file not in found]
    for file, result in in_forks(missing, LONGEST, jobs):
        if not isinstance(result, dict):
            raise RuntimeError(f"{file} cannot be recorded") from result
        _kept(file).parent.mkdir(parents=True, exist_ok=True)
        _kept(file).write_text(json.dumps(result))
        seconds = sum(time for time, _ in result["tests"].values())
        print(f"recorded {file.relative_to(ROOT)}: {len(result['tests'])} tests, {seconds:.0f} s", flush=True)
        found[file] = result
    return {name: Recording(*test) for one in found.values() for name, test in one["tests"].items()}


def _kept(file: Path) -> Path:
    return KEPT / "recordings" / f"{'.'.join(file.relative_to(ROOT).with_suffix('').parts)}.json"


def _is_current(known: dict[str, Any], file: Path, names: Sequence[str]) -> bool:
    """Whether neither the tests nor what they execute changed since."""
    if known["own"] != _own(file) or not set(names) <= set(known["of"]):
        return False
    return all(module in names and _digest([source(module)]) == was for module, was in known["modules"].items())


def _record(folder: Path, file: Path, names: Sequence[str]) -> dict[str, Any]:
    offsets = {name: place * SLOTS for place, name in enumerate(names)}
    hits = folder / "hits"
    hits.write_bytes(bytes(len(names) * SLOTS))
    recorder = Recorder(hits)
    run_tests(folder, [str(file.relative_to(ROOT))], Plan({}, offsets, str(hits)), recorder)
    tests = {name: [seconds, _by_module(places, names)] for name, seconds, places in recorder.found()}
    touched = sorted({module for _, lines in tests.values() for module in lines})
    return {
        "own": _own(file),
        "of": list(names),
        "modules": {module: _digest([source(module)]) for module in touched},
        "tests": tests,
        "failed": sorted(recorder.failed),
    }


def _by_module(places: Iterable[int], names: Sequence[str]) -> Lines:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for place in places:
        module = names[place // SLOTS]
        found[module].add(_lines(module)[place % SLOTS])
    return {module: sorted(lines) for module, lines in sorted(found.items())}
