"""Which test executes which statement: recorded once for each file of tests, and of use after the code changed.

A statement is known by its function, the function's digest and its number in it, so that a recording outlives changes
elsewhere. In a function that changed since, every test that executed the function counts; in a new one, every test that
executed the module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.mutation.changes import Change, Statement, marked, parse
from tests.mutation.session import ROOT, TIER

KEPT = ROOT / ".cache/mutation/recordings"
FUNCTIONS = KEPT.with_name("functions")
WAITING = 0.1  # a second of waiting costs as much as so many seconds of CPU time, when tests are put in order

Place = tuple[str, str, str, int]
"""Module, function, digest of the function, number of the statement."""


@dataclass(frozen=True)
class Executing:
    """A test that executes a statement.

    name      its id
    cpu       seconds of CPU time, also of processes that it started
    wall      seconds
    share     of what it executes that lies in the module: how direct it is
    """

    name: str
    cpu: float
    wall: float
    share: float

    @property
    def cost(self) -> float:
        return (self.cpu + WAITING * self.wall) / self.share


class Recording:
    """One file of tests.

    imported  what its collection executes, the import of what it tests included
    functions  of each module when the tests were recorded: those that `places` does not name were not executed
    """

    def __init__(self, raw: Mapping[str, Any], functions: Mapping[str, Collection[str]]) -> None:
        self._functions = functions
        self._modules = sorted({module for module, *_ in raw["places"]})
        self._places: dict[str, dict[str, list[tuple[str, int, int]]]] = {name: {} for name in self._modules}
        for at, (module, function, digest, number) in enumerate(raw["places"]):
            self._places[module].setdefault(function, []).append((digest, number, at))
        self._names = list(raw["tests"])
        self._seconds = [(cpu, wall) for cpu, wall, _ in raw["tests"].values()]
        held = [np.array(places, dtype=np.int32) for _, _, places in raw["tests"].values()]
        self._test = np.repeat(np.arange(len(held)), [len(one) for one in held])
        self._place = np.concatenate(held) if held else np.zeros(0, dtype=np.int32)
        of = {name: at for at, name in enumerate(self._modules)}
        module_of = np.array([of[place[0]] for place in raw["places"]], dtype=np.int32)
        size = max(1, len(self._modules))
        self._in_module = np.zeros((len(held), size))
        if len(self._place):
            counts = np.bincount(self._test * size + module_of[self._place], minlength=len(held) * size)
            self._in_module = counts.reshape(len(held), size)
        self._imported = frozenset(raw["imported"])

    def _matching(self, module: str, statement: Statement) -> list[int]:
        functions = self._places.get(module, {})
        same = functions.get(statement.function)
        if same is None and statement.function in self._functions.get(module, ()):
            return []
        if same is None:
            return [at for places in functions.values() for _, _, at in places]
        unchanged = [(number, at) for digest, number, at in same if digest == statement.digest]
        if unchanged:
            return [at for number, at in unchanged if number == statement.number]
        return [at for _, _, at in same]

    def executing(self, module: str, statement: Statement) -> tuple[list[Executing], bool]:
        """The tests that execute the statement, and whether the collection does."""
        places = self._matching(module, statement)
        if not places:
            return [], False
        tests = np.unique(self._test[np.isin(self._place, places)])
        here = self._in_module[:, self._modules.index(module)]
        share = here / np.maximum(1, self._in_module.sum(axis=1))
        return [
            Executing(self._names[at], *self._seconds[at], float(share[at])) for at in tests
        ], not self._imported.isdisjoint(places)


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
def statements(module: str) -> list[Statement]:
    return marked(source(module), lambda number: parse("pass").body[0])[1]


def statement_of(change: Change) -> Statement:
    return next(one for one in statements(change.module) if (one.line, one.function) == (change.line, change.function))


def own_digest(file: Path) -> str:
    """Of a file of tests with the modules beside it that are no tests."""
    beside = sorted(path for path in file.parent.glob("*.py") if not path.name.startswith("test_"))
    return hashlib.sha256("\0".join(path.read_text(encoding="utf-8") for path in [file, *beside]).encode()).hexdigest()


def functions_now(names: Sequence[str]) -> str:
    """Keep which functions these modules have; the name under which `functions_at` has them."""
    table = json.dumps({name: sorted({one.function for one in statements(name)}) for name in names})
    digest = hashlib.sha256(table.encode()).hexdigest()[:16]
    FUNCTIONS.mkdir(parents=True, exist_ok=True)
    (FUNCTIONS / f"{digest}.json").write_text(table)
    return digest


@cache
def functions_at(digest: str) -> dict[str, frozenset[str]]:
    raw = json.loads((FUNCTIONS / f"{digest}.json").read_text())
    return {module: frozenset(functions) for module, functions in raw.items()}


def _kept(file: Path, part: str) -> Path:
    """Where the recording of this part of a file's tests is."""
    return KEPT / f"{'.'.join(file.relative_to(ROOT).with_suffix('').parts)}.{part}.json"


def kept(files: Iterable[Path], part: str) -> Iterator[tuple[Path, Recording]]:
    """The files of tests of which this part is recorded as they are now; it knows no module that is newer."""
    for file in files:
        if _kept(file, part).exists():
            raw = json.loads(_kept(file, part).read_text())
            if raw["own"] == own_digest(file) and "functions" in raw:
                yield file, Recording(raw, functions_at(raw["functions"]))


def keep(file: Path, raw: Mapping[str, Any]) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    _kept(file, TIER.part).write_text(json.dumps(raw))
