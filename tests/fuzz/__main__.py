"""`python -m tests.fuzz [READER ...] [--minutes 2 | --fixed]`: search for inputs that a reader mishandles, by coverage.

Every reader of `readers.READERS` gets a share of the time by its weight. A finding is an undocumented error, an input
that takes SECONDS of processor time, or one that makes the process larger than MEBIBYTES: its input is written to
.cache/fuzz/found, and the exit status is 1. Fix its cause and put the input, small, into tests/fuzz/corpus/READER.
Inputs of new coverage are kept in .cache/fuzz/corpus for the next run. With --fixed the search has one seed and begins
with the corpus alone, so that one state of the code gets the same inputs each time: `make test-all` must not fail by
chance. The search is atheris.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

CORPUS = Path(__file__).parent / "corpus"
CACHE = Path(".cache/fuzz")
SECONDS = 20  # of processor time for one input; the clock on the wall measures what else runs
HANGS = 600  # seconds on the wall after which an input hangs
MEBIBYTES = 1500  # of the process; fabricmon and the search itself take 100 at first
REST = 600
"""MiB of a process between two inputs after which a fresh one goes on: atheris never frees the result of a comparison
of arrays, 0.4 MiB for each input of `agent`."""
AGAIN = 75
RUNS = 3000
"""Inputs of a reader of weight 1 with `--fixed`."""
NO_ATHERIS = "skipped: atheris is not installed; it has wheels for Linux on x86-64"


class Slow(BaseException):
    """An input took longer than SECONDS."""


class Silent(io.TextIOBase):
    """A log that is kept nowhere."""

    def write(self, text: str) -> int:
        return len(text)


def search(atheris: ModuleType, name: str, seconds: float, log: Path, fixed: bool) -> None:
    """Search for inputs of one reader; ends this process, with status AGAIN where a fresh one is to go on."""
    from tests.fuzz.readers import READERS

    reader, cases = READERS[name], 0

    def one(data: bytes) -> None:
        nonlocal cases
        cases += 1
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        with contextlib.suppress(reader.error):
            reader.read(data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if not cases % 256 and not fixed and _resident() > REST:
            os.write(1, b"stat::number_of_executed_units: %d\n" % cases)
            os._exit(AGAIN)

    def slow(*_: object) -> None:
        raise Slow(f"more than {SECONDS} s of processor time")

    signal.signal(signal.SIGPROF, slow)
    for out in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), out)
    found, kept = CACHE / "found", CACHE / ("fixed" if fixed else "corpus") / name
    if fixed:
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    limits = [f"-runs={RUNS // reader.weight}", "-seed=1"] if fixed else [f"-max_total_time={seconds:.0f}"]
    atheris.Setup([
        "fuzz", str(kept), str(CORPUS / name), *limits, f"-timeout={HANGS}",
        f"-rss_limit_mb={MEBIBYTES}", f"-max_len={reader.size}", f"-artifact_prefix={found}/{name}-",
        "-print_final_stats=1", "-reload=0",
    ], one)  # fmt: skip
    atheris.Fuzz()


def _resident() -> int:
    """MiB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def _cases(log: Path) -> int:
    numbers = re.findall(r"^stat::number_of_executed_units: +(\d+)|^#(\d+)\b", log.read_text(errors="replace"), re.M)
    return max((int(final or line) for final, line in numbers), default=0)


def _reason(log: Path) -> str:
    """The lines of a log that say what was found."""
    text = log.read_text(errors="replace")
    told = re.findall(r"^ *((?:[\w.]+\.)?\w*(?:Error|Exception|Slow)\b.*|==\d+== ERROR.*)", text, re.M)
    return (told[0][:200] if told else "ended") + f" ({log})"


def main(names: list[str], minutes: float, side_by_side: int, fixed: bool) -> int:
    try:
        import atheris
    except ImportError:
        print(NO_ATHERIS)
        return 0
    with atheris.instrument_imports(include=["fabricmon"]):
        from tests.fuzz.readers import READERS
    from fabricmon.runtime import logs

    logs.configure(level="error", stream=Silent())
    names = names or list(READERS)
    share = minutes * 60 * side_by_side / sum(READERS[name].weight for name in names)
    left = {name: max(2.0, share * READERS[name].weight) for name in names}
    (CACHE / "logs").mkdir(parents=True, exist_ok=True)
    waiting, running, cases, bad = list(names), dict[int, tuple[str, float]](), Counter[str](), []
    begin = time.monotonic()
    while waiting or running:
        while waiting and len(running) < side_by_side:
            name = waiting.pop(0)
            pid = os.fork()
            if not pid:
                search(atheris, name, left[name], CACHE / "logs" / name, fixed)
                os._exit(0)
            running[pid] = name, time.monotonic()
        pid, status = os.wait()
        name, begun = running.pop(pid)
        log = CACHE / "logs" / name
        cases[name] += _cases(log)
        left[name] -= time.monotonic() - begun
        again = os.waitstatus_to_exitcode(status) == AGAIN
        if again and left[name] >= 1:
            waiting.append(name)
            continue
        if status and not again:
            bad.append(name)
        print(f"{name:24}{cases[name]:9} cases{'   FOUND ' + _reason(log) if name in bad else ''}", flush=True)
    spent = (time.monotonic() - begin) / 60
    print(f"{cases.total()} cases of {len(names)} readers in {spent:.1f} minutes; findings: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--side-by-side", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--fixed", action="store_true", help="the same inputs each time, instead of --minutes")
    args = parser.parse_args()
    if args.fixed and os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]], environment)
    sys.exit(main(args.readers, args.minutes, args.side_by_side, args.fixed))
