"""Tries changes in forks of a process that has collected all tests: no import and no collection for each change.

In the fork the changed function gets the code of its changed text, in all objects that have the old one. Fit for
functions that nothing calls at import or collection.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.changes import Change, changed
from tests.mutation.hook import Plan
from tests.mutation.recording import source
from tests.mutation.session import LONGEST, Watch, bounded_memory, in_forks, main_of_pytest

Times = dict[str, tuple[float, float]]
"""Id of a test -> expected seconds of CPU time and of duration; in the order in which they run."""

Work = tuple[Change, Times]


def run_items(items: Sequence[pytest.Item], over: Callable[[], object] = lambda: False) -> None:
    """Run these tests until `over` is true."""
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if over():
            return


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """All code in this code, at any depth."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            yield from _codes(inner)


class _Functions:
    """All function objects of this process by file and qualified name."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], list[types.FunctionType]] = {}
        for found in gc.get_objects():
            if isinstance(found, types.FunctionType):
                self._of.setdefault((found.__code__.co_filename, found.__code__.co_qualname), []).append(found)

    def change(self, change: Change) -> bool:
        """Whether the change could be made."""
        file = sys.modules[change.module].__file__ or ""
        text = compile(changed(source(change.module), change.number), file, "exec", dont_inherit=True)
        new = {code.co_firstlineno: code for code in _codes(text) if code.co_qualname == change.function}
        old = self._of.get((file, change.function), [])
        for function in old:
            code = new[function.__code__.co_firstlineno]
            if code.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = code
        return bool(old)


class _Trials:
    """A pytest plugin: after the collection, tries each change in a fork."""

    def __init__(self, works: Sequence[Work], limit: float, jobs: int, result: Callable[[Change, Any], None]) -> None:
        self._works, self._limit, self._jobs, self._result = works, limit, jobs, result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = _Functions()
        gc.freeze()
        works = [(one[0], partial(self._tried, one, items, functions)) for one in self._works]
        for change, result in in_forks(works, LONGEST, self._jobs):
            self._result(change, result)
        return True

    def _tried(
        self, work: Work, items: Mapping[str, pytest.Item], functions: _Functions, folder: Path
    ) -> dict[str, object]:
        """In a fork: what the tests say about the change."""
        change, tests = work
        if not functions.change(change):
            raise RuntimeError("no function object has this code")
        bounded_memory()
        Plan({change.module: change.number}, {}).install(folder / "plan.json")
        watch = Watch(tests, self._limit)
        chosen = [items[name] for name in tests if name in items]
        chosen[0].config.pluginmanager.register(watch)
        watch.pytest_collection_modifyitems(chosen)
        run_items(chosen, watch.is_over)
        return asdict(watch.outcome)


def try_changes(
    works: Sequence[Work], limit: float, jobs: int, result: Callable[[Change, Any], None]
) -> None:
    """Try each change, call `result` with what came of it. Imports fabricmon into this process."""
    files = sorted({name.partition("::")[0] for _, tests in works for name in tests})
    main_of_pytest(files, _Trials(works, limit, jobs, result))
