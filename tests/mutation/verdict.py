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
from tests.mutation.session import LONGEST, Outcome, Work, in_forks

Times = dict[str, tuple[float, float]]
"""Id of a test -> expected seconds of CPU time and of duration; in the order in which they run."""

Trial = tuple[Change, Times]
Tried = Callable[[Change | None, Times, Path], dict[str, object]]
"""In a fork: an `Outcome` of these tests as a table, with the change made, or with None."""

Verdict = Outcome | Exception
Found = Callable[[Change, Verdict], None]
Doubtful = tuple[Change, Times, Outcome]


def decide(trials: Sequence[Trial], tried: Tried, jobs: int, found: Found) -> None:
    """Try each change and call `found` with what came of it: an error where the tests could not be run, or where time
    alone does not decide."""
    doubtful: list[Doubtful] = []
    works = [(trial, partial(tried, *trial)) for trial in trials]
    for (change, tests), raw in in_forks(works, LONGEST, jobs):
        verdict = _verdict(raw)
        if isinstance(verdict, Outcome) and verdict.took_too_long:
            doubtful.append((change, tests, verdict))
        else:
            found(change, verdict)
    _second_looks(doubtful, tried, jobs, found)


def _verdict(raw: Any) -> Verdict:
    if isinstance(raw, TimeoutError):
        return Outcome(str(raw) or "(none)", "it did not end")
    return raw if isinstance(raw, Exception) else Outcome(**raw)


def _second_looks(doubtful: Sequence[Doubtful], tried: Tried, jobs: int, found: Found) -> None:
    """Each test that took too long once more with its change, beside itself without; where it passes now, the other
    tests of its change."""
    pairs: list[tuple[tuple[int, bool], Work]] = []
    for at, (change, tests, first) in enumerate(doubtful):
        only = {name: times for name, times in tests.items() if name == first.failed}
        if only:
            pairs += [((at, True), partial(tried, change, only)), ((at, False), partial(tried, None, only))]
    ran = {which: _verdict(raw) for which, raw in in_forks(pairs, LONGEST, 2 * jobs)}
    rest: list[tuple[int, Work]] = []
    for at, (change, tests, first) in enumerate(doubtful):
        again, control = ran.get((at, True)), ran.get((at, False))
        others = {name: times for name, times in tests.items() if name != first.failed}
        if again is None or isinstance(control, Exception) or (control and control.failed):
            found(change, RuntimeError(f"{first.failed} took too long, without the change, too: {control}"))
        elif others and isinstance(again, Outcome) and not again.failed:
            rest.append((at, partial(tried, change, others)))
        else:
            found(change, again)
    for at, raw in in_forks(rest, LONGEST, jobs):
        change, _, first = doubtful[at]
        verdict = _verdict(raw)
        if isinstance(verdict, Outcome) and verdict.took_too_long:
            verdict = RuntimeError(f"once {first.failed} took too long, once {verdict.failed}")
        found(change, verdict)
