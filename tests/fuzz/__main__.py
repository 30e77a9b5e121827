"""`python -m tests.fuzz [READER ...] [--minutes 2]`: search by coverage (atheris) for inputs that a reader mishandles.

Every reader of `readers.READERS` gets a share of the time by its weight. A finding is an undocumented error, an input
that takes longer than SECONDS, or one that makes the process larger than MEBIBYTES: its input is written to
.cache/fuzz/found, and the exit status is 1. Fix its cause and put the input, small, into tests/fuzz/corpus/READER.
Inputs of new coverage are kept in .cache/fuzz/corpus for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import time
from pathlib import Path
from types import ModuleType

CORPUS = Path(__file__).parent / "corpus"
CACHE = Path(".cache/fuzz")
SECONDS = 20  # for one input; on a busy machine a second becomes several
MEBIBYTES = 1500  # of the process; fabricmon and the search itself take 400
NO_ATHERIS = "skipped: atheris is not installed; it has wheels for Linux on x86-64"


class Silent(io.TextIOBase):
    """A log that is kept nowhere."""

    def write(self, text: str) -> int:
        return len(text)


def search(atheris: ModuleType, name: str, seconds: float, log: Path) -> None:
    """Search for inputs of one reader; ends this process."""
    from tests.fuzz.readers import READERS

    reader = READERS[name]

    def one(data: bytes) -> None:
        with contextlib.suppress(reader.error):
            reader.read(data)

    for out in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), out)
    found, kept = CACHE / "found", CACHE / "corpus" / name
    kept.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    atheris.Setup([
        "fuzz", str(kept), str(CORPUS / name), f"-max_total_time={seconds:.0f}", f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEBIBYTES}", f"-max_len={reader.size}", f"-artifact_prefix={found}/{name}-",
        "-print_final_stats=1", "-reload=0",
    ], one)  # fmt: skip
    atheris.Fuzz()


def _cases(log: Path) -> int:
    numbers = re.findall(r"^stat::number_of_executed_units: +(\d+)|^#(\d+)\b", log.read_text(errors="replace"), re.M)
    return max((int(final or line) for final, line in numbers), default=0)


def _reason(log: Path) -> str:
    """The lines of a log that say what was found."""
    text = log.read_text(errors="replace")
    told = re.findall(r"^ *((?:[\w.]+\.)?\w*(?:Error|Exception)\b.*|==\d+== ERROR.*)", text, re.M)
    return (told[0][:200] if told else "ended") + f" ({log})"


def main(names: list[str], minutes: float, side_by_side: int) -> int:
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
    (CACHE / "logs").mkdir(parents=True, exist_ok=True)
    waiting, running, cases, bad = list(names), {}, 0, []
    begin = time.monotonic()
    while waiting or running:
        while waiting and len(running) < side_by_side:
            name = waiting.pop(0)
            pid = os.fork()
            if not pid:
                search(atheris, name, max(2.0, share * READERS[name].weight), CACHE / "logs" / name)
                os._exit(0)
            running[pid] = name
        pid, status = os.wait()
        name = running.pop(pid)
        log = CACHE / "logs" / name
        cases += _cases(log)
        if status:
            bad.append(name)
        print(f"{name:24}{_cases(log):9} cases{'   FOUND ' + _reason(log) if status else ''}", flush=True)
    spent = (time.monotonic() - begin) / 60
    print(f"{cases} cases of {len(names)} readers in {spent:.1f} minutes; findings: {', '.join(bad) or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--side-by-side", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("readers", nargs="*", metavar="READER")
    args = parser.parse_args()
    sys.exit(main(args.readers, args.minutes, args.side_by_side))
