"""Processor time of one agent cycle on a node of 8 adapters with 408 counter files.

    python -m tests.bench.cycle

The files are ordinary files in memory (/dev/shm where it is): what is measured is our own code and the system calls, as
on a warm sysfs; what an adapter's firmware adds is waited for, not computed. Medians over many cycles.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from tests.host.trees import build_hca_tree

ethernet = COLLECTORS["ethernet"]
infiniband = COLLECTORS["infiniband"]
infiniband_errors = COLLECTORS["infiniband_errors"]
infiniband_rare = COLLECTORS["infiniband_rare"]
infiniband_state = COLLECTORS["infiniband_state"]

CYCLES = 200


def main() -> list[tuple[str, float, str]]:
    """(what, number, unit) of each measurement; prints them too."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        root = Path(place)
        files = build_hca_tree(root)
        host = LiveHost(str(root), str(root / "proc"))
        rows = [
            ("read 408 counter files, open descriptors and pread alone", _floor(root, list(files)), "ms"),
            ("the same through the host's bulk reader", _bulk(host, list(files)), "ms"),
            ("the three counter collectors: 8 adapters, 400 files",
             _collectors(host, infiniband, infiniband_errors, infiniband_rare), "ms"),
            ("  infiniband alone: 32 files (every 10 s)", _collectors(host, infiniband), "ms"),
            ("infiniband_state: 8 ports from files (every second)", _collectors(host, infiniband_state), "ms"),
            ("ethernet: 8 interfaces from files", _collectors(host, ethernet), "ms"),
        ]
        live = LiveHost()
        try:
            rows.append((f"rtnetlink dump of {len(live.links())} interfaces", _median(live.links), "ms"))
        finally:
            live.close()
    for what, number, unit in rows:
        print(f"{what:60} {number:8.3f} {unit}")
    return rows


def _median(run: Callable[[], object]) -> float:
    """Milliseconds of processor time of this process and all its threads, median of CYCLES."""
    run()
    spent = []
    for _ in range(CYCLES):
        before = time.process_time_ns()
        run()
        spent.append(time.process_time_ns() - before)
    return statistics.median(spent) / 1e6


def _floor(root: Path, paths: list[str]) -> float:
    descriptors = [os.open(str(root) + p.removeprefix("/sys"), os.O_RDONLY) for p in paths]
    try:
        return _median(lambda: [os.pread(d, 64, 0) for d in descriptors])
    finally:
        for d in descriptors:
            os.close(d)


def _bulk(host: LiveHost, paths: list[str]) -> float:
    reader = host.bulk(paths)
    out = array("d", bytes(8 * len(paths)))
    try:
        return _median(lambda: reader.read(out, 0))
    finally:
        reader.close()


def _collectors(host: LiveHost, *modules: Any) -> float:
    sessions = [s for module in modules for s in module.open(host, module.config()).sessions().values()]

    def cycle() -> None:
        for session in sessions:
            session.read()

    try:
        return _median(cycle)
    finally:
        for session in sessions:
            session.close()


if __name__ == "__main__":
    main()
