"""Probing while the hosts are busy: real agents and a real server in namespaces below a bridge of the kernel.

    python -m tests.probe.busy --quiet 5 --minutes 60 [--loops 2]

First some quiet minutes, then a loop of work on each core. Prints probes, void windows, round trips of both phases and
every incident that was seen; what a busy host raises is false, as nothing here is broken. Exit code 1: one of warning
or higher, or a round trip (p99) of more than 5 times its quiet value.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.probe.lab import Lab, agents, page, samples
from tests.probe.site import Site
from tests.rigs.daemons import wait_for

HOSTS, PAUSE, TIMES = 5, 10.0, 5.0
WORK = "while True: pass"


class Phase(NamedTuple):
    """p99: of each window and host, s, network only; load: of the machine, a number for each look."""

    p50: list[float]
    p99: list[float]
    load: list[float]
    sent: float
    lost: float
    void: float

    def line(self, name: str) -> str:
        return (
            f"{name:6} {len(self.p99)} windows, {self.void:.0f} void; {self.sent:.0f} probes, {self.lost:.0f} lost; "
            f"round trip us: p50 {1e6 * statistics.median(self.p50):.0f}, "
            f"p99 {1e6 * statistics.median(self.p99):.0f} (worst window {1e6 * max(self.p99):.0f}); "
            f"load {statistics.mean(self.load):.1f} (most {max(self.load):.1f})"
        )


class Busy:
    """Looks at the agents and the server of a lab until a phase is over."""

    def __init__(self, lab: Lab, site: Site) -> None:
        self.lab, self.site = lab, site
        self.seen: dict[str, str] = {}

    def look(self, seconds: float) -> Phase:
        p50: list[float] = []
        p99: list[float] = []
        load: list[float] = []
        before, end = self._counts(), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(PAUSE)
            for text in self._pages():
                p50 += samples(text, "fabricmon_probe_rtt_seconds", 'quantile="0.5"')
                p99 += samples(text, "fabricmon_probe_rtt_seconds", 'quantile="0.99"')
            load.append(os.getloadavg()[0])
            self._incidents()
        return Phase(p50, p99, load, *(new - old for new, old in zip(self._counts(), before, strict=True)))

    def _pages(self) -> list[str]:
        return [page(n, a, 9790, "/metrics") for n, a in zip(self.lab.names, self.lab.addresses, strict=True)]

    def _counts(self) -> tuple[float, float, float]:
        pages = self._pages()
        names = ("fabricmon_probe_packets_total", "fabricmon_probe_lost_total", "fabricmon_probe_void_windows_total")
        sent, lost, void = (sum(sum(samples(text, name)) for text in pages) for name in names)
        return sent, lost, void

    def _incidents(self) -> None:
        for one in json.loads(self.site.get("/api/v1/incidents"))["incidents"]:
            what = f"{one['severity']} {one['kind']} {one['component']}"
            self.seen[one["id"]] = f"{what} since {one['since']}, confidence {one['confidence']}"

    def wrong(self) -> list[str]:
        return [words for words in self.seen.values() if not words.startswith("info ")]


def run(folder: Path, quiet: float, minutes: float, loops: int) -> bool:
    with Lab(folder, HOSTS, bridge=True) as lab, agents(lab, folder, HOSTS):
        site = Site(lab, folder)
        with site.server:
            wait_for("all ports in the plan", lambda: site.samples("fabricmon_central_probe_ports") == [HOSTS])
            busy = Busy(lab, site)
            busy.look(3 * PAUSE)
            calm = busy.look(60 * quiet) if quiet else None
            workers = [subprocess.Popen([sys.executable, "-c", WORK]) for _ in range(loops)]
            try:
                found = busy.look(60 * minutes)
            finally:
                for worker in workers:
                    worker.kill()
                    worker.wait()
    if calm is not None:
        print(calm.line("quiet"))
    print(found.line("busy"))
    print("incidents:", "; ".join(busy.seen.values()) or "none", flush=True)
    slow = calm is not None and statistics.median(found.p99) > TIMES * statistics.median(calm.p99)
    return not slow and not busy.wrong()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", type=float, default=5.0, help="minutes without work (default: 5)")
    parser.add_argument("--minutes", type=float, default=60.0, help="minutes with work (default: 60)")
    parser.add_argument("--loops", type=int, default=os.cpu_count() or 1, help="(default: one a core)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if run(Path(folder), given.quiet, given.minutes, given.loops) else 1


if __name__ == "__main__":
    sys.exit(main())
