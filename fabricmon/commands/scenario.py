"""Run scenarios: simulated fabrics with faults, judged by what must and must not come of them.

They are of this package, by name or the beginning of it, or files of your own. How to write one: docs/scenarios.md."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from importlib import resources
from multiprocessing import get_context
from pathlib import Path

import msgspec

from fabricmon.sim.scenario import Scenario, ScenarioError
from fabricmon.sim.scenario_file import ScenarioFileError, load
from fabricmon.sim.scenario_run import Result
from fabricmon.sim.scenario_run import run as run_one
from fabricmon.sim.scenario_table import line, table, total
from fabricmon.terminal import console
from fabricmon.terminal.console import Progress
from fabricmon.terminal.text import clean

EXAMPLES = """\
fabricmon scenario list
fabricmon scenario run s01
fabricmon scenario run my.yaml --seed 7 --verbose
fabricmon scenario run --seeds 20 --jobs 2 --json
fabricmon scenario run --table docs/accuracy.md
fabricmon scenario run --seeds 20 --keep runs.jsonl   # may be broken off and gone on with
"""
OK, FAILED, UNUSABLE = 0, 1, 2
MAX_SEEDS = 10_000
MAX_JOBS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    runs = verbs.add_parser("run", help="run scenarios; exit 0 when all is as expected, 1 when not, 2 for a bad file")
    runs.add_argument("files", nargs="*", metavar="FILE", help="YAML files or names of scenarios; none: all of them")
    seeds = runs.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=_number(0, 2**31), default=None, metavar="N", help="this seed only (1)")
    seeds.add_argument("--seeds", type=_number(1, MAX_SEEDS), default=None, metavar="N", help="seeds 1 to N")
    runs.add_argument("--jobs", type=_number(1, MAX_JOBS), default=1, metavar="N", help="processes side by side (1)")
    runs.add_argument("--json", action="store_true", help="one JSON object a scenario and seed, then the total")
    runs.add_argument("--verbose", action="store_true", help="what failed and which incidents came, for each run")
    runs.add_argument(
        "--keep", metavar="FILE", help="add each result to this file; what is in it already is not run again"
    )
    runs.add_argument("--table", metavar="FILE", help="write the results as a Markdown table with this command")
    verbs.add_parser("list", help="the scenarios of this package")


def run(args: argparse.Namespace) -> int:
    """0 when all is as expected; 1 when something is not; 2 when a file cannot be used."""
    if args.verb == "list":
        for path in own():
            print(f"{path.stem}: {load(path).about.strip().splitlines()[0]}")
        return OK
    scenarios: list[Scenario] = []
    usable = True
    for path in [_path(name) for name in args.files] or own():
        try:
            scenarios.append(load(path))
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
                    file.write("\n" + msgspec.json.encode(result).decode() + "\n")  # the line before may be cut off
    except ScenarioError as error:
        print(clean(error), file=sys.stderr)
        return UNUSABLE
    print(msgspec.json.encode(total(results)).decode() if args.json else _sum(results))
    if args.table:
        command = f"fabricmon scenario run {' '.join(args.files)}{' ' if args.files else ''}" + (
            f"--seeds {args.seeds}" if args.seeds else f"--seed {seeds[0]}"
        )
        Path(args.table).write_text(table(results, scenarios, f"{command} --table {args.table}"), encoding="utf-8")
    return OK if all(result.ok for result in results) else FAILED


def own() -> list[Path]:
    """The scenarios that come with the package, in order of their names."""
    folder = Path(str(resources.files("fabricmon.sim") / "scenarios"))
    return sorted(folder.glob("*.yaml"))


def _path(name: str) -> Path:
    """A file by its path, else a scenario of the package by its name or the beginning of it ("s01")."""
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


def _kept(name: str) -> dict[tuple[str, int], Result]:
    """Results by scenario and seed; a line that is none (cut off by a kill) is left out, so that run comes again."""
    kept: dict[tuple[str, int], Result] = {}
    for text in Path(name).read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            result = msgspec.json.decode(text, type=Result)
            kept[result.scenario, result.seed] = result
    return kept


def _all(work: Sequence[tuple[Scenario, int]], jobs: int) -> Iterator[Result]:
    """Results in the order of the work, as soon as they are there."""
    progress = Progress()

    def tell(done: int, what: str, share: float) -> None:
        if progress.due():
            progress.tell(f"{done} of {len(work)}, {what} {share:.0%}")

    if jobs == 1 or not work:
        for number, (scenario, seed) in enumerate(work):
            result = run_one(scenario, seed, partial(tell, number, scenario.name))
            progress.clear()
            yield result
        return
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=get_context("spawn")) as pool:
        pending: dict[Future[Result], int] = {pool.submit(run_one, *one): n for n, one in enumerate(work)}
        done: dict[int, Result] = {}
        told = 0
        while pending:
            finished, _ = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                done[pending.pop(future)] = future.result()
            while told in done:
                progress.clear()
                yield done.pop(told)
                told += 1
            progress.tell(f"{len(work) - len(pending)} of {len(work)}, {min(jobs, len(pending))} running")
        progress.clear()


def _show(result: Result, args: argparse.Namespace) -> None:
    if args.json:
        print(msgspec.json.encode(result).decode(), flush=True)
        return
    console.show(clean(text) for text in _told(result, verbose=args.verbose))


def _told(result: Result, *, verbose: bool) -> Iterator[str]:
    """A line, then what failed, and with `verbose` the incidents that came."""
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


def _failures(result: Result) -> Iterator[str]:
    words: Iterable[tuple[str, str]] = (("MISSED", "missed"), ("LATE", "late"), ("WRONG", "wrong"), ("FALSE", "false"))
    for word, name in words:
        for failure in getattr(result, name):
            yield f"{word} {failure.what}: {failure.why}"


def _sum(results: Sequence[Result]) -> str:
    sum_ = total(results)
    return (
        f"{sum_['ok']} of {sum_['runs']} runs as expected: {sum_['found']} of {sum_['required']} required found, "
        f"{sum_['missed']} missed, {sum_['late']} late, {sum_['wrong']} wrong, {sum_['false']} false, "
        f"{sum_['told']} told, {sum_['seconds']:.0f} s"
    )


def _number(least: int, most: int) -> type[int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, got {value}")
        return value

    return number  # type: ignore[return-value]
