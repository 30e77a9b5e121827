"""`fabricmon scenario random`: compose, play and score random scenarios (docs/scenarios.md#random-scenarios)."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from fabricmon.adversary.composite import STRESSES
from fabricmon.adversary.table import markdown, summary
from fabricmon.console import output
from fabricmon.console.arguments import number
from fabricmon.console.progress import Progress
from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.simulate.random_scenarios import RandomScore, run_random
from fabricmon.terminal.fitted_text import clean

OK, UNUSABLE = 0, 2
MOST, MOST_JOBS = 100_000, 256
Work = tuple[int, int, str, int]
BY_MESSAGES = (
    "required found in time", "notifications per true cause: mean", "notifications per true cause: 99th percentile",
    "most messages in any five minutes", "composites with more than 6 messages in five minutes",
)
"""Measures that depend on the receiver."""


def add_arguments(verbs: Any) -> None:
    """Add the verb to those of `fabricmon scenario`."""
    parser = verbs.add_parser("random", help="compose, play and score random scenarios; always exits 0")
    parser.add_argument("--count", type=number(1, MOST), default=20, metavar="N", help="scenarios of each stress")
    parser.add_argument("--seed", type=number(0, 2**31), required=True, metavar="S", help="random seed")
    parser.add_argument(
        "--stress", action="append", choices=["none", *STRESSES], metavar="NAME",
        help=f"harder conditions, may be given several times: none, {', '.join(STRESSES)} (default: none)",
    )  # fmt: skip
    parser.add_argument("--hosts", type=number(30, 2000), default=2000, metavar="N", help="largest fabric (2000)")
    parser.add_argument("--jobs", type=number(1, MOST_JOBS), default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--json", action="store_true", help="print a JSON object per scenario")
    parser.add_argument("--keep", metavar="FILE", help="append each result to this file; those in it are not run again")
    parser.add_argument("--table", metavar="FILE", help="write the results as Markdown tables")


def run(args: argparse.Namespace) -> int:
    """0; 2 where a file cannot be written."""
    stresses = ["" if stress == "none" else stress for stress in args.stress or ["none"]]
    work: list[Work] = [(args.seed, n, stress, args.hosts) for stress in stresses for n in range(args.count)]
    try:
        for name in filter(None, (args.keep, args.table)):
            Path(name).open("a", encoding="utf-8").close()
        kept = _kept(args.keep) if args.keep else {}
    except OSError as error:
        print(f"{error.filename}: cannot be used: {error.strerror}", file=sys.stderr)
        return UNUSABLE
    scores = {one: kept[one[:3]] for one in work if one[:3] in kept}
    for one, score in _all([one for one in work if one not in scores], args.jobs):
        scores[one] = score
        if args.keep:
            with Path(args.keep).open("a", encoding="utf-8") as file:
                file.write("\n" + msgspec.json.encode(score).decode() + "\n")  # the last line may be incomplete
        output.show([msgspec.json.encode(score).decode()] if args.json else map(clean, _text(score)))
    ordered = [scores[one] for one in work]
    if not args.json:
        for stress in stresses:
            mine = [score for score in ordered if score.stress == stress]
            output.show([stress or "base", *(f"  {name}: {figure}" for name, figure in summary(mine))])
            unlimited = summary([score.unlimited for score in mine])
            by_receiver = [f"    {name}: {figure}" for name, figure in unlimited if name in BY_MESSAGES]
            output.show(["  what a receiver without a budget gets", *by_receiver])
    if args.table:
        Path(args.table).write_text(markdown(ordered, _command(args, stresses)), encoding="utf-8")
    return OK


def _command(args: argparse.Namespace, stresses: list[str]) -> str:
    given = "".join(f" --stress '{stress or 'none'}'" for stress in stresses)
    return f"fabricmon scenario random --count {args.count} --seed {args.seed} --hosts {args.hosts}{given}"


def _text(score: RandomScore) -> Iterator[str]:
    """The line of a scenario, then what was missed, wrong or false."""
    seen = [cause for cause in score.causes if cause.visible]
    yield (
        f"{score.stress or 'base'} {score.number}: {score.shape} of {score.hosts} hosts, "
        f"{sum(cause.found for cause in seen)} of {len(seen)} found in time, {len(score.false)} false, "
        f"{sum(cause.messages for cause in seen) + score.other} notifications, {score.seconds:.1f} s"
    )
    for cause in score.causes:
        if cause.visible and not cause.found:
            word = "LATE" if cause.late else "ONLY LISTED" if cause.listed else "MISSED"
            yield f"    {word} {cause.name}, {cause.messages} notifications"
    yield from (f"    WRONG {text}" for text in score.wrong)
    yield from (f"    FALSE {text}" for text in score.false if text not in score.wrong)


def _kept(name: str) -> dict[tuple[int, int, str], RandomScore]:
    """Results by seed, number and stress; an incomplete line (after a kill) is left out, so it is run again."""
    kept: dict[tuple[int, int, str], RandomScore] = {}
    for text in Path(name).read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(Undecodable):
            score = json_value(text, RandomScore)
            kept[score.seed, score.number, score.stress] = score
    return kept


def _timed(work: Work) -> RandomScore:
    began = time.perf_counter()
    gc.disable()  # a twentieth of the time; what a scenario leaves in cycles is freed after it
    try:
        score = run_random(*work)
    finally:
        gc.enable()
        gc.collect()
    return msgspec.structs.replace(score, seconds=round(time.perf_counter() - began, 3))


def _end_with_the_command() -> None:
    """In a process of the pool: a command that is killed can end none of its processes itself."""

    def wait() -> None:
        if (command := parent_process()) is not None:
            command.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def _all(work: list[Work], jobs: int) -> Iterator[tuple[Work, RandomScore]]:
    """Results in the order of `work`, as soon as they are ready."""
    progress = Progress()
    if jobs == 1 or len(work) < 2:
        for one in work:
            yield one, _timed(one)
        return
    with ProcessPoolExecutor(min(jobs, len(work)), get_context("spawn"), _end_with_the_command) as pool:
        for done, (one, score) in enumerate(zip(work, pool.map(_timed, work), strict=True), 1):
            progress.clear()
            yield one, score
            progress.show(f"{done} of {len(work)}")
        progress.clear()
