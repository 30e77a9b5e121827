"""What the agent costs a node of 8 adapters and 8 GPUs at its default periods: processor time and firmware commands.

    python -m tests.bench.cost

Firmware commands are those of the estimates in docs/methods.md#firmware-commands, counted over twenty minutes
of the node's own clock: the mean of 10 s, and the most in any. GPUs are a stand-in for libnvidia-ml where gcc can build
it: 8 GPUs with 18 NVLinks each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fabricmon.agent.readings import pace
from fabricmon.collect import COLLECTORS
from tests.bench.node_host import NodeHost
from tests.bench.processes import rss, serving
from tests.collect.nodes import build_dgx
from tests.rigs.daemons import free_port

SECONDS = 30.0
"""For which the process is watched: three cycles of its slowest regular collectors."""

SPAN = 1200.0
"""Of the node's clock, over which commands are counted: a whole number of turns of the slowest collector (5 min)."""

CYCLE = 10.0

IMPORTED = "fabricmon.agent.app, fabricmon.collect, fabricmon.engine, pynvml, tests.bench.node_host"


def main() -> list[tuple[str, float, str]]:
    rows: list[tuple[str, float, str]] = []
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        environ = dict(os.environ)
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        environ["PYTHONPYCACHEPREFIX"] = f"{place}/compiled"
        # packages are installed compiled: memory and time of that are not the agent's
        subprocess.run([sys.executable, "-c", f"import {IMPORTED}"], env=environ, check=True, timeout=300)
        gpus = _stand_in(Path(place), environ)
        for word, layer in (("InfiniBand", "InfiniBand"), ("RoCE", "Ethernet")):
            root = Path(place) / word
            build_dgx(root)
            queries, most = firmware(root, layer)
            total = sum(queries.values())
            rows.append((f"firmware commands per 10 s, 8 {word} ports", total, "(bar 100; naive: 1,200)"))
            rows.append(("  the busiest 10 s", most, ""))
            rows += [(f"  {name}", number, "") for name, number in queries.items() if number]
        root = Path(place) / "InfiniBand"
        for evaluator in ("agent", "server"):
            rows += _process(root, environ, evaluator, gpus)
    return rows


def firmware(root: Path, layer: str) -> tuple[dict[str, float], float]:
    """Collector -> commands per 10 s, and the most of all collectors in any 10 s.

    The first ten minutes, when everything is looked at for the first time, are left out. Each collector begins at the
    moment within its interval that the agent gives it.
    """
    now = 1000.0
    host = NodeHost(root, layer, lambda: now)
    sessions: list[tuple[str, Any, float]] = []
    for name, module in COLLECTORS.items():
        config = module.config()
        if config.enabled:
            collector = module.open(host, config)
            opened = collector.sessions().values()
            if collector.watch is not None:
                collector.watch(lambda event: None)
            sessions += [(name, session, float(config.interval)) for session in opened]
    due = {id(session): now + pace.offset("host-007", name, interval) for name, session, interval in sessions}
    spent = dict.fromkeys(COLLECTORS, 0.0)
    cycles = [0.0] * int(SPAN / CYCLE)
    start = now + 600.0
    while now < start + SPAN:
        for name, session, interval in sessions:
            if now < due[id(session)]:
                continue
            due[id(session)] += interval
            queries = session.read().queries
            if now >= start:
                spent[name] += queries
                cycles[int((now - start) / CYCLE)] += queries
        now += 1.0
    return {name: number / SPAN * CYCLE for name, number in spent.items()}, max(cycles)


def _process(root: Path, environ: dict[str, str], evaluator: str, gpus: bool) -> list[tuple[str, float, str]]:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "tests.bench.node_host", str(root), address, evaluator]
    with serving(command, f"http://{address}/-/ready", environ) as pid:
        time.sleep(12)  # past the first read of every collector
        begin, started = _on_cpu(pid), time.monotonic()
        time.sleep(SECONDS)
        share = 100 * (_on_cpu(pid) - begin) / (time.monotonic() - started)
        size = rss(pid)
    what = "8 adapters, 8 GPUs" if gpus else "8 adapters, no gcc for the stand-in of NVML"
    who = "evaluating rules" if evaluator == "agent" else "without evaluation"
    return [
        (f"agent at its defaults, {what}, {who}: processor", share, "% of one core (bar 0.5)"),
        ("  memory", size, "MiB RSS"),
    ]


def _on_cpu(pid: int) -> float:
    """Seconds that its threads ran, ended ones included, to the nanosecond: its CPU clock (clock_getcpuclockid(3)).

    The ticks in /proc/PID/stat are samples taken by the timer: of a process that wakes by timers for a tenth of a
    millisecond each they tell several times too much.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _stand_in(place: Path, environ: dict[str, str]) -> bool:
    """Build the library and have the agent's process find it."""
    gcc = shutil.which("gcc")
    source = Path(__file__).parents[1] / "nvml/fake_nvml.c"
    if gcc is None:
        return False
    library = place / "nvml/libnvidia-ml.so.1"
    library.parent.mkdir()
    command = [gcc, "-O1", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(source)]
    subprocess.run(command, check=True, timeout=100)
    (place / "plan").write_text("class h100\n")
    environ["LD_LIBRARY_PATH"] = str(library.parent)
    environ["FAKE_NVML"] = str(place / "plan")
    return True


if __name__ == "__main__":
    for what, number, unit in main():
        print(f"{what:75} {number:8.2f} {unit}")
