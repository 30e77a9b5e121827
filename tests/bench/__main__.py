"""`python -m tests.bench [NAME ...]`: runs the benchmarks and prints one table. Nothing here passes or fails.

A benchmark is a module with `main() -> list[tuple[str, float, str]]`: what was measured, the number, its unit and,
where there is one, the bar.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import time

BENCHMARKS: dict[str, str] = {
    "cycle": "tests.bench.cycle",
    "cost": "tests.bench.cost",
    "expose": "tests.bench.expose",
    "frame": "tests.bench.frame",
    "record": "tests.bench.record",
    "fleet": "tests.bench.fleet",
    "scrapers": "tests.bench.scrapers",
    "tick": "tests.bench.tick",
    "probes": "tests.bench.probes",
    "diagnose": "tests.bench.diagnose",
    "impact": "tests.bench.impact",
    "sweep": "tests.bench.sweep",
    "simulate": "tests.bench.simulate",
}


def main(names: list[str]) -> int:
    unknown = [n for n in names if n not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    failed = False
    for name in names or BENCHMARKS:
        started = time.monotonic()
        try:
            rows = importlib.import_module(BENCHMARKS[name]).main()
        except ModuleNotFoundError as error:
            print(f"\n{name}: left out, {error}")
            continue
        except Exception as error:
            print(f"\n{name}: failed, {type(error).__name__}: {error}")
            failed = True
            continue
        print(f"\n{name} ({time.monotonic() - started:.0f} s)")
        width = max((len(what) for what, _, _ in rows), default=0)
        for what, value, unit in rows:
            print(f"  {what:<{width}}  {value:>10.4g} {unit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
