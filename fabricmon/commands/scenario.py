"""Run scenarios: simulated fabrics with faults, whose incidents are compared with the expected ones.

A scenario is one of this package, by its name or a prefix of it, or a file of your own (format: docs/scenarios.md).
`random` composes scenarios at random and prints how many faults were found."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from importlib import resources
from multiprocessing import get_context
from pathlib import Path

import msgspec

from fabricmon.commands import random_scenarios
from fabricmon.console import output
from fabricmon.console.arguments import number
from fabricmon.console.progress import Progress
from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.sim.scenarios.run import ScenarioResult
from fabricmon.sim.scenarios.run import run as play
from fabricmon.sim.scenarios.scenario import Scenario, ScenarioError
from fabricmon.sim.scenarios.table import line, table, total
from fabricmon.simulate.scenario_file import ScenarioFileError, load
from fabricmon.terminal.fitted_text import clean

EXAMPLES = """\
fabricmon scenario list
fabricmon scenario run s01
fabricmon scenario run my.yaml --seed 7 --verbose
fabricmon scenario run --seeds 20 --jobs 2 --json
fabricmon scenario run --table docs/accuracy-catalogue.md
fabricmon scenario run --seeds 20 --keep runs.jsonl   # can be interrupted and continued
fabricmon scenario random --count 20 --seed 3 --jobs 2
fabricmon scenario random --count 40 --seed 3 --stress stray --stress filed --table random.md
"""
OK, FAILED, UNUSABLE = 0, 1, 2
MAX_SEEDS = 10_000
MAX_JOBS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    runs = verbs.add_parser("run", help="run scenarios; exit 0 if all is as expected, 1 if not, 2 for an invalid file")
    runs.add_argument("files", nargs="*", metavar="FILE", help="files or names (default: all of the package)")
    seeds = runs.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=number(0, 2**31), default=None, metavar="N", help="random seed (default 1)")
    seeds.add_argument("--seeds", type=number(1, MAX_SEEDS), default=None, metavar="N", help="seeds 1 to N")
    runs.add_argument("--jobs", type=number(1, MAX_JOBS), default=1, metavar="N", help="processes (default 1)")
    runs.add_argument("--json", action="store_true", help="print a JSON object per scenario and seed, then the total")
    runs.add_argument("--verbose", action="store_true", help="print failures and incidents of each run")
    runs.add_argument(
        "--keep", metavar="FILE", help="append each result to this file; runs already in it are skipped"
    )
    runs.add_argument("--table", metavar="FILE", help="write the results as a Markdown table")
    random_scenarios.add_arguments(verbs)
    verbs.add_parser("list", help="list the scenarios of this package")


def run(args: argparse.Namespace) -> int:
    """0 if all results are as expected, 1 if not, 2 for an invalid file."""
    if args.verb == "random":
        return random_scenarios.run(args)
    if args.verb == "list":
        return _list()
    scenarios: list[Scenario] = []
    usable = True
    for path in [_path(name) for name in args.files] or own():
        try:
            scenarios.append(_loaded(path))
        except ScenarioFileError as error:
            print(clean(error), file=sys.stderr)
            usable = False
    if not usable:
        return UNUSABLE
    if not all(_writable(name) for name in (args.table, args.keep) if name):
        return UNUSABLE
    seeds = range(1, args.seeds + 1) if args.seeds else [1 if args.seed is None else args.seed]
    work = [(scenario, seed) for scenario in scenarios for seed in seeds]
    kept = _kept(args.keep) if args.keep else {}
    results = [kept[scenario.name, seed] for scenario, seed in work if (scenario.name, seed) in kept]
    todo = [(scenario, seed) for scenario, seed in work if (scenario.name, seed) not in kept]
    try:
        for result in _all(todo, args.jobs):
            results.append(result)
            _show(result, args)
            if args.keep:
                with Path(args.keep).open("a", encoding="utf-8") as file:
                    file.write("\n" + msgspec.json.encode(result).decode() + "\n")  # the last line may be incomplete
    except ScenarioError as error:
        print(clean(error), file=sys.stderr)
        return UNUSABLE
    print(msgspec.json.encode(total(results)).decode() if args.json else _summary(results))
    if args.table:
        command = f"fabricmon scenario run {' '.join(args.files)}{' ' if args.files else ''}" + (
            f"--seeds {args.seeds}" if args.seeds else f"--seed {seeds[0]}"
        )
        Path(args.table).write_text(table(results, scenarios, f"{command} --table {args.table}"), encoding="utf-8")
    return OK if all(result.ok for result in results) else FAILED


def _list() -> int:
    for path in own():
        print(f"{path.stem}: {load(path).about.strip().splitlines()[0]}")
    return OK


def own() -> list[Path]:
    """The scenarios of the package, sorted by name."""
    folder = Path(str(resources.files("fabricmon.sim") / "scenarios"))
    return sorted(folder.glob("*.yaml"))


def _loaded(path: Path) -> Scenario:
    if not path.suffix and not path.exists():
        raise ScenarioFileError(f"{path}: no such file, and no scenario of `fabricmon scenario list`")
    return load(path)


def _path(name: str) -> Path:
    """A file by its path, else a scenario of the package by its name or a prefix of it ("s01")."""
    path = Path(name)
    if path.exists() or path.suffix in (".yaml", ".yml"):
        return path
    known = [p for p in own() if p.stem == name] or [p for p in own() if p.stem.startswith(f"{name}-")]
    return known[0] if len(known) == 1 else path


def _writable(name: str) -> bool:
    try:
        with Path(name).open("a", encoding="utf-8"):
            return True
    except OSError as error:
        print(f"{name}: cannot be written: {error.strerror}", file=sys.stderr)
        return False


def _kept(name: str) -> dict[tuple[str, int], ScenarioResult]:
    """Results by scenario and seed; an incomplete line (after a kill) is skipped, so that run is repeated."""
    kept: dict[tuple[str, int], ScenarioResult] = {}
    for text in Path(name).read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(Undecodable):
            result = json_value(text, ScenarioResult)
            kept[result.scenario, result.seed] = result
    return kept


def _timed(scenario: Scenario, seed: int, progress: Callable[[float], None] = lambda _share: None) -> ScenarioResult:
    began = time.perf_counter()
    result = play(scenario, seed, progress)
    return msgspec.structs.replace(result, seconds=round(time.perf_counter() - began, 3))


def _all(work: Sequence[tuple[Scenario, int]], jobs: int) -> Iterator[ScenarioResult]:
    """Results in the order of `work`, as soon as they are ready."""
    progress = Progress()

    def show(done: int, what: str, share: float) -> None:
        if progress.due():
            progress.show(f"{done} of {len(work)}, {what} {share:.0%}")

    if jobs == 1 or not work:
        for number, (scenario, seed) in enumerate(work):
            result = _timed(scenario, seed, partial(show, number, scenario.name))
            progress.clear()
            yield result
        return
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=get_context("spawn")) as pool:
        pending: dict[Future[ScenarioResult], int] = {pool.submit(_timed, *one): n for n, one in enumerate(work)}
        done: dict[int, ScenarioResult] = {}
        yielded = 0
        while pending:
            finished, _ = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                done[pending.pop(future)] = future.result()
            while yielded in done:
                progress.clear()
                yield done.pop(yielded)
                yielded += 1
            progress.show(f"{len(work) - len(pending)} of {len(work)}, {min(jobs, len(pending))} running")
        progress.clear()


def _show(result: ScenarioResult, args: argparse.Namespace) -> None:
    if args.json:
        print(msgspec.json.encode(result).decode(), flush=True)
        return
    output.show(clean(text) for text in _text(result, verbose=args.verbose))


def _text(result: ScenarioResult, *, verbose: bool) -> Iterator[str]:
    """The result line, then the failures, and with `verbose` the incidents."""
    yield line(result)
    if verbose or not result.ok:
        yield from (f"    {text}" for text in _failures(result))
    if verbose:
        for incident in result.incidents:
            ended = f", resolved after {incident.ended:.0f} s" if incident.ended is not None else ""
            yield (
                f"    . {incident.at:8.0f} s {incident.severity:8} {incident.kind} {incident.component} "
                f"{incident.confidence:.2f} {incident.members}{ended}: {incident.title}"
            )


def _failures(result: ScenarioResult) -> Iterator[str]:
    words: Iterable[tuple[str, str]] = (("MISSED", "missed"), ("LATE", "late"), ("WRONG", "wrong"), ("FALSE", "false"))
    for word, name in words:
        for failure in getattr(result, name):
            yield f"{word} {failure.what}: {failure.why}"


def _summary(results: Sequence[ScenarioResult]) -> str:
    sum_ = total(results)
    return (
        f"{sum_['ok']} of {sum_['runs']} runs as expected: {sum_['found']} of {sum_['required']} required found, "
        f"{sum_['missed']} missed, {sum_['late']} late, {sum_['wrong']} wrong, {sum_['false']} false, "
        f"{sum_['notified']} notifications, {sum_['seconds']:.0f} s"
    )
