"""Make small changes in fabricmon, one at a time, and see whether a test fails: `python -m tests.mutation --help`."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from tests.mutation.changes import Change, changes
from tests.mutation.collected import try_changes
from tests.mutation.equivalent import equivalents
from tests.mutation.hook import Plan
from tests.mutation.recorder import record
from tests.mutation.recording import Recording, kept, modules, source, statement_of
from tests.mutation.report import Result, table
from tests.mutation.session import LONGEST, OPTIONS, ROOT, RUNNING, TIER, Spent, Watch, in_forks, preload, run_tests
from tests.mutation.verdict import Times, Trial, Verdict, decide

PACKAGES = (
    "engine.incidents.situation", "engine.symptoms", "engine.evaluation", "rules", "fleet", "notify", "central",
)  # fmt: skip
"""What is changed unless packages are named; `symptoms` and `evaluation` are what was `judge`."""
RECORDED = ("engine", "rules", "fleet", "notify", "central")
LEFT_OUT = ("mutation", "fuzz", "house", "image", "vm", "page/test_page_in_a_browser.py")
"""Tests that execute nothing of these packages, or only with a browser or a machine of their own."""


def files_of_tests(areas: Sequence[str]) -> list[Path]:
    """The files in these folders of tests; a single file where one is named ("notify/test_links.py"). None: all."""
    places = [ROOT / "tests" / area for area in areas or [""]]
    found = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))]
    names = {path: str(path.relative_to(ROOT / "tests")) for path in found}
    return [path for path in found if not any(f"{names[path]}/".startswith(f"{one}/") for one in LEFT_OUT)]


def tests_of(change: Change, recorded: Sequence[Recording], limit: float) -> tuple[Times, bool]:
    """The tests that execute the statement, up to `limit` seconds of CPU time, and whether one of their files executes
    it at import or collection. The most direct and quickest first; what the better ones of its file cost counts against
    a test, so that several files have their say early."""
    found, early = [], False
    for one in recorded:
        tests, imported = one.executing(change.module, statement_of(change))
        tests.sort(key=lambda test: (test.cost, test.name))
        costs = itertools.accumulate(test.cost for test in tests)
        found += [(cost, test.name, test) for cost, test in zip(costs, tests, strict=True)]
        early |= imported
    chosen, total = {}, 0.0
    for *_, test in sorted(found):
        if total > limit:
            break
        chosen[test.name] = (test.cpu, test.wall)
        total += test.cpu
    return chosen, early


def tried(limit: float, change: Change | None, tests: Times, folder: Path) -> dict[str, object]:
    """In a fork without any module of fabricmon: what the tests say about the change."""
    watch = Watch(tests, limit, folder / RUNNING)
    code = run_tests(folder, ["-x", *tests], Plan({change.module: change.number} if change else {}, {}), watch)
    if code and not watch.is_over():
        raise RuntimeError(f"pytest ended with {code}")
    return asdict(watch.outcome)


def sampled(names: Sequence[str], number: int, seed: int) -> tuple[list[Change], int]:
    """`number` changes of these modules drawn with the seed, all equally likely, and how many there are. Fewer of the
    same seed are the first of these, as long as they are few."""
    every = [change for module in names for change in changes(module, source(module))]
    return random.Random(seed).sample(every, min(number, len(every))), len(every)


def results(
    sample: Sequence[Change], recorded: Sequence[Recording], limit: float, jobs: int, found: Callable[[Result], None]
) -> None:
    """Try each change and call `found`: those executed at import in a process without fabricmon, the others in one."""
    known = equivalents()
    early: list[Trial] = []
    late: list[Trial] = []
    for change in sample:
        tests, imported = tests_of(change, recorded, limit)
        if why := known.get((change.module, change.function, change.was, change.becomes)):
            found(Result(change, "equivalent", why))
        elif not tests:
            found(Result(change, "survived", "no test executes it"))
        else:
            (early if imported else late).append((change, tests))
    decide(early, partial(tried, limit), jobs, lambda change, verdict: found(_result(change, verdict)))
    if late:
        try_changes(late, limit, jobs, lambda change, verdict: found(_result(change, verdict)))


def _result(change: Change, verdict: Verdict) -> Result:
    if isinstance(verdict, Exception):
        return Result(change, "error", str(verdict))
    if verdict.failed:
        return Result(change, "noticed", verdict.why, verdict.failed, verdict.seconds)
    return Result(change, "survived", f"{verdict.passed} tests passed", "", verdict.seconds)


def failing_unchanged(tests: Collection[str]) -> set[str]:
    """Those of these tests that fail without a change, too."""
    if not tests:
        return set()
    words = [sys.executable, "-m", "pytest", *OPTIONS, "--tb=no", "-rfE", *sorted(tests)]
    out = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return {line.split()[1] for line in out.splitlines() if line.startswith(("FAILED ", "ERROR "))}


def recordings(files: Sequence[Path], names: Sequence[str], jobs: int, anew: bool) -> list[Recording]:
    """Of each file of tests: kept from before, or with `anew` made now where the tests are new or changed. Quick and
    long tests are recorded apart."""
    every = []
    for part in ("quick", "long") if TIER.part == "all" else (TIER.part,):
        found = dict(kept(files, part))
        if missing := [file for file in files if anew and file not in found]:
            work = partial(record, files=missing, names=names, jobs=jobs, part=part)
            for _, result in in_forks([("recording", work)], LONGEST * len(missing), 1):
                if result not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
                    raise RuntimeError(f"the tests cannot be recorded: {result}")
            found.update(kept(missing, part))
        every += found.values()
    return every


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="or modules: rules.congestion")
    parser.add_argument("--seed", type=int, default=1, help="which changes are drawn (1)")
    parser.add_argument("--number", type=int, default=100, help="of changes (100)")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="CPU time of tests a change (60)")
    parser.add_argument("--areas", nargs="+", default=(), help="folders or files of tests (all)")
    parser.add_argument("--quick", action="store_true", help="only the tests of `make test`")
    parser.add_argument("--kept", action="store_true", help="make no recordings; other tests do not run")
    parser.add_argument("--skip", type=int, default=0, metavar="NUMBER", help="leave out the first ones of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--list", action="store_true", help="print the sample, run nothing")
    args = parser.parse_args()
    TIER.part = "quick" if args.quick else "all"
    names = modules(args.packages)
    sample, total = sampled(names, args.number, args.seed)
    sample = sample[args.skip :]
    if args.list:
        print(*sample, sep="\n")
        return
    preload()
    recorded = recordings(files_of_tests(args.areas), modules(RECORDED), args.jobs, not args.kept)
    print(f"seed {args.seed}: {len(sample)} of {total} possible changes; {len(recorded)} files of tests", flush=True)
    began, found = Spent(), []

    def noted(result: Result) -> None:
        found.append(result)
        print(result, flush=True)

    results(sample, recorded, args.limit, args.jobs, noted)
    unsteady = failing_unchanged({one.test for one in found if one.test.startswith("tests/")})
    for at, one in enumerate(found):
        if one.test in unsteady:
            found[at] = Result(one.change, "error", f"{one.test} fails without the change, too")
            print(found[at])
    print(table(found))
    print(f"{began.wall():.0f} s, {began.cpu():.0f} s of CPU time")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main()
