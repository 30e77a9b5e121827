"""Make small changes in fabricmon, one at a time, and see whether a test fails: `python -m tests.mutation --help`."""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.mutation.changes import Change, changes
from tests.mutation.equivalent import equivalents
from tests.mutation.hook import Plan
from tests.mutation.recording import Recording, modules, recordings, source
from tests.mutation.report import Result, table
from tests.mutation.session import AFTER, ROOT, Outcome, Watch, in_forks, preload, run_tests

PACKAGES = ("engine", "rules", "fleet", "notify", "central")
AREAS = (
    "engine", "rules", "fleet", "notify", "central", "jobs", "store", "senders", "topology", "scenario", "replay",
    "page", "export", "web", "config", "kubernetes", "docs/test_runbooks.py",
    "docs/test_generated_documents.py",
)  # fmt: skip
"""Folders of the tests that import these packages and need neither hardware nor a browser nor the network."""
LEFT_OUT = ("page/test_page_in_a_browser.py", "web/test_security_with_peers.py")


def files_of_tests(areas: Sequence[str]) -> list[Path]:
    """The files in these folders of tests; a single file where one is named ("notify/test_links.py")."""
    places = [ROOT / "tests" / area for area in areas]
    found = [path for place in places for path in ([place] if place.is_file() else sorted(place.glob("test_*.py")))]
    return [path for path in found if str(path.relative_to(ROOT / "tests")) not in LEFT_OUT]


def tests_of(change: Change, recorded: Mapping[str, Recording], limit: float) -> dict[str, float]:
    """The tests that execute the statement, the most direct and quickest first, up to `limit` seconds: id -> seconds.

    A test is direct as far as what it executes lies in the module.
    """
    found = [
        (one.seconds * one.size / len(one.lines[change.module]), name, one.seconds)
        for name, one in recorded.items()
        if change.line in one.lines.get(change.module, ())
    ]
    chosen, total = {}, 0.0
    for _, name, seconds in sorted(found):
        if total > limit:
            break
        chosen[name] = seconds
        total += seconds
    return chosen


def tried(change: Change, tests: Mapping[str, float], limit: float, folder: Path) -> dict[str, object]:
    """In a fork: what the tests say about the change."""
    watch = Watch(tests, limit)
    code = run_tests(folder, ["-x", *tests], Plan({change.module: change.number}, {}), watch)
    if code and not watch.outcome.failed and not watch.over:
        raise RuntimeError(f"pytest ended with {code}")
    return asdict(watch.outcome)


def sampled(names: Sequence[str], number: int, seed: int) -> tuple[list[Change], int]:
    """`number` changes of these modules drawn with the seed, all equally likely, and how many there are."""
    every = [change for module in names for change in changes(module, source(module))]
    return random.Random(seed).sample(every, min(number, len(every))), len(every)


def results(sample: Sequence[Change], recorded: Mapping[str, Recording], limit: float, jobs: int) -> Iterator[Result]:
    known = equivalents()
    chosen = {change: tests_of(change, recorded, limit) for change in sample}
    works = []
    for change in sample:
        if why := known.get((change.module, change.function, change.was, change.becomes)):
            yield Result(change, "equivalent", why)
        elif not chosen[change]:
            yield Result(change, "survived", "no test executes it")
        else:
            works.append((change, partial(tried, change, chosen[change], limit)))
    for change, raw in in_forks(works, limit + AFTER, jobs):
        outcome = Outcome(**raw) if isinstance(raw, dict) else Outcome("(none)", "the tests did not end")
        if isinstance(raw, Exception):
            yield Result(change, "error", str(raw))
        elif outcome.failed:
            yield Result(change, "noticed", outcome.why, outcome.failed, outcome.seconds)
        else:
            yield Result(change, "survived", f"{outcome.passed} tests passed", "", outcome.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="or modules: rules.congestion")
    parser.add_argument("--seed", type=int, default=1, help="which changes are drawn (1)")
    parser.add_argument("--number", type=int, default=100, help="of changes (100)")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="of tests for each change (60)")
    parser.add_argument("--areas", nargs="+", default=AREAS, help="folders or files of tests")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--list", action="store_true", help="print the sample, run nothing")
    args = parser.parse_args()
    os.nice(10)
    names = modules(args.packages)
    sample, total = sampled(names, args.number, args.seed)
    if args.list:
        print(*sample, sep="\n")
        return
    preload()
    recorded = recordings(files_of_tests(args.areas), modules(PACKAGES), args.jobs)
    print(f"seed {args.seed}: {len(sample)} of {total} possible changes; {len(recorded)} tests", flush=True)
    began, found = time.monotonic(), []
    for result in results(sample, recorded, args.limit, args.jobs):
        found.append(result)
        print(result, flush=True)
    print(table(found))
    print(f"{time.monotonic() - began:.0f} s")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main()
