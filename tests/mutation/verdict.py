"""What the tests say about each change, and a second look where all they say is that something took too long.

On a busy machine a test that waits takes too long without a change, too. So such a test runs again with the change,
beside itself without: only where the changed one takes too long again and the other does not, the change is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.mutation.changes import Change
from tests.mutation.session import LONGEST, Outcome, in_forks

Times = dict[str, tuple[float, float]]
"""Id of a test -> expected seconds of CPU time and of duration; in the order in which they run."""

Trial = tuple[Change, Times]
Tried = Callable[[Change | None, Times, Path], dict[str, object]]
"""In a fork: an `Outcome` of these tests as a table, with the change made, or with None."""

Verdict = Outcome | Exception
Found = Callable[[Change, Verdict], None]


def decide(trials: Sequence[Trial], tried: Tried, jobs: int, found: Found) -> None:
    """Try each change and call `found` with what came of it: an error where the tests could not be run, or where time
    alone does not decide."""
    doubtful = []
    works = [(trial, partial(tried, *trial)) for trial in trials]
    for (change, tests), raw in in_forks(works, LONGEST, jobs):
        verdict = _verdict(raw)
        if isinstance(verdict, Outcome) and verdict.took_too_long:
            doubtful.append((change, tests, verdict))
        else:
            found(change, verdict)
    for change, tests, first in doubtful:
        found(change, _second_look(change, tests, first, tried))


def _verdict(raw: Any) -> Verdict:
    if isinstance(raw, TimeoutError):
        return Outcome(str(raw) or "(none)", "it did not end")
    return raw if isinstance(raw, Exception) else Outcome(**raw)


def _second_look(change: Change, tests: Times, first: Outcome, tried: Tried) -> Verdict:
    """The test that took too long once more, and the tests without it where it now passes."""
    if first.failed not in tests:
        return RuntimeError(f"{first.why}, in no test")
    only = {first.failed: tests[first.failed]}
    both = [("changed", partial(tried, change, only)), ("unchanged", partial(tried, None, only))]
    ran = {name: _verdict(raw) for name, raw in in_forks(both, LONGEST, 2)}
    again, control = ran["changed"], ran["unchanged"]
    if isinstance(control, Exception) or control.failed:
        return RuntimeError(f"{first.failed} fails without the change, too: {control}")
    if isinstance(again, Exception) or again.failed:
        return again
    others = {name: times for name, times in tests.items() if name != first.failed}
    for _, raw in in_forks([("others", partial(tried, change, others))] if others else [], LONGEST, 1):
        again = _verdict(raw)
        if isinstance(again, Outcome) and again.took_too_long:
            return RuntimeError(f"once {first.failed} took too long, once {again.failed}")
    return again
