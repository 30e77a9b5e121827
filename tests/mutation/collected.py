"""Tries changes in forks of a process that has collected all tests: no import and no collection for each change.

In the fork the changed function gets the code of its changed text, in all objects that have the old one. Fit for
functions that nothing calls at import or collection.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.mutation.changes import Change, changed
from tests.mutation.hook import Plan
from tests.mutation.recording import source
from tests.mutation.session import RUNNING, Watch, bounded_memory, main_of_pytest
from tests.mutation.verdict import Found, Times, Trial, decide


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

    def __init__(self, works: Sequence[Trial], limit: float, jobs: int, found: Found) -> None:
        self._works, self._limit, self._jobs, self._found = works, limit, jobs, found

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = _Functions()
        gc.freeze()

        def tried(change: Change | None, tests: Times, folder: Path) -> dict[str, object]:
            """In a fork: what the tests say about the change."""
            if change and not functions.change(change):
                raise RuntimeError("no function object has this code")
            bounded_memory()
            Plan({change.module: change.number} if change else {}, {}).install(folder / "plan.json")
            watch = Watch(tests, self._limit, folder / RUNNING)
            chosen = [items[name] for name in tests if name in items]
            chosen[0].config.pluginmanager.register(watch)
            watch.pytest_collection_modifyitems(chosen)
            run_items(chosen, watch.is_over)
            return asdict(watch.outcome)

        decide(self._works, tried, self._jobs, self._found)
        return True


def try_changes(works: Sequence[Trial], limit: float, jobs: int, found: Found) -> None:
    """Try each change, call `found` with what came of it. Imports fabricmon into this process."""
    files = sorted({name.partition("::")[0] for _, tests in works for name in tests})
    main_of_pytest(files, _Trials(works, limit, jobs, found))
