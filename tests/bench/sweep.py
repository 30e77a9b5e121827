"""A sweep of 8,192 ports of a simulated fabric of 2,048 adapters, beside `ibqueryerrors` on the same fabric.

    python -m tests.bench.sweep

The fabric is ibsim's with opensm's forwarding tables; every port waits (PortXmitWait above 0), as on a busy fabric, so
that `ibqueryerrors` has to look at each. One after the other, on the same simulator; medians of ROUNDS. Processor time
is that of the client, without the simulator's. `ibqueryerrors` walks the fabric each time, a sweeping agent only every
five minutes: the walk stands in a line of its own.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fabricmon.sim.dump import write
from fabricmon.sim.shapes import rail_fabric
from tests.rigs.ibsim.subnet import Subnet, preload, subnet, tool

ROUNDS = 5
ROOT = Path(__file__).resolve().parents[2]
SHAPE = rail_fabric(nodes=256, rails=8, unit=32, spines=32, parallel=1)

Row = tuple[str, float, str]


def main() -> list[Row]:
    """(what, number, unit) of each measurement."""
    if preload() is None:
        raise ModuleNotFoundError("ibsim is not installed (apt-get install ibsim-utils opensm infiniband-diags)")
    plan = SHAPE
    with tempfile.TemporaryDirectory() as place, subnet(Path(place), write(plan, "4xHDR")) as fabric:
        ends = {end for link in plan.cables for end in (link.a, link.b)}
        fabric.set_counters({
            (f"{'S' if end.node in plan.switches else 'H'}-{end.node[2:]}", end.port): {"PortCounters.PortXmitWait": 9}
            for end in ends
        })  # fmt: skip
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.bench import sweep; sweep.client({ROUNDS})"
        ours = json.loads(fabric.run(sys.executable, "-c", code))
        theirs = [spent for _ in range(ROUNDS) if (spent := _tool(fabric)) is not None]
    rows: list[Row] = [
        (f"walk of {ours['nodes']} nodes, wall", statistics.median(ours["walk"]), "s"),
        (f"counters of {ours['ports']} ports, wall", _median(ours["counters"], 0), "s"),
        (f"counters of {ours['ports']} ports, processor", _median(ours["counters"], 1), "s"),
        ("counters and link states, wall", _median(ours["sweep"], 0), "s"),
        ("counters and link states, processor", _median(ours["sweep"], 1), "s"),
    ]
    if theirs:
        rows += [
            ("ibqueryerrors, wall", _median(theirs, 0), "s"),
            ("ibqueryerrors, processor", _median(theirs, 1), "s"),
            ("sweep / ibqueryerrors, wall (bar: 1)", _median(ours["sweep"], 0) / _median(theirs, 0), ""),
            ("sweep / ibqueryerrors, processor (bar: 1)", _median(ours["sweep"], 1) / _median(theirs, 1), ""),
        ]
    return rows


def _median(spent: list[tuple[float, float]], which: int) -> float:
    return statistics.median(pair[which] for pair in spent)


def _tool(fabric: Subnet) -> tuple[float, float] | None:
    """Wall and processor seconds of one run; None where it crashed, as it does on a simulator's short answers."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [tool("ibqueryerrors")], env=fabric.environment(), cwd=fabric.clients, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (wall, spent) if done.returncode in (0, 1) else None


def client(rounds: int) -> None:
    """Attached to the fabric: walk and sweep, print what it took."""
    import numpy as np

    from fabricmon.fabric.discover import discover
    from fabricmon.fabric.exchange import Exchange, Pace
    from fabricmon.fabric.names import NAMES
    from fabricmon.fabric.subnet import At
    from fabricmon.fabric.sweep import Sweep, Values
    from fabricmon.host.umad import open_port

    def timed(run: object) -> tuple[float, float]:
        wall, spent = time.perf_counter(), time.process_time()
        run()  # type: ignore[operator]
        return time.perf_counter() - wall, time.process_time() - spent

    exchange = Exchange(open_port(), Pace(), time.monotonic)
    walk = []
    for _ in range(2):
        started = time.perf_counter()
        found = discover(exchange, time.monotonic() + 60)
        walk.append(time.perf_counter() - started)
    ports = [At(node.guid, port.number) for node, port in found.linked()]
    sweep = Sweep(exchange, found, ports)

    def counters() -> None:
        values = Values(np.full((len(ports), len(NAMES)), np.nan))
        sweep.counters(values, time.monotonic() + 60)
        assert np.isfinite(values.cells[:, NAMES.index("symbol_error")]).all()

    print(json.dumps({
        "nodes": len(found.nodes), "ports": len(ports), "walk": walk,
        "counters": [timed(counters) for _ in range(rounds)],
        "sweep": [timed(lambda: sweep.run(time.monotonic() + 60)) for _ in range(rounds)],
    }))  # fmt: skip


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for what, number, unit in main():
        print(f"{what:60} {number:8.3f} {unit}")
