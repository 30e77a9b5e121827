"""How often the diagnosis is right about random faults: `python -m tests.accuracy --help`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.accuracy.fabrics import FABRICS, build
from tests.accuracy.score import Score, measure
from tests.accuracy.table import document


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__)
    parser.add_argument("--fabric", choices=list(FABRICS), action="append", help="default: all")
    parser.add_argument("--trials", type=int, default=100, help="of each fabric, level and sort of fault (100)")
    parser.add_argument("--seed", type=int, default=1, help="another one, other faults and jobs (1)")
    parser.add_argument("--level", choices=("L1", "L2"), action="append", help="default: both")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables as Markdown")
    parser.add_argument("--wrong", action="store_true", help="print every trial in which the diagnosis is wrong")
    args = parser.parse_args()
    scores: list[Score] = []
    for name in args.fabric or FABRICS:
        began = time.perf_counter()
        fabric = build(name, args.seed)
        for level in args.level or ("L1", "L2"):
            scores += measure(fabric, level, args.trials, args.seed, print if args.wrong else None)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    text = document(scores, args.trials, args.seed)
    print(text)
    if args.write:
        args.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
