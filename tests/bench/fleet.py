"""A central server with a large fleet: processor time, memory, streams at the start, time from a fault to its webhook.

    python -m tests.bench.fleet --nodes 10000 --seconds 60 [--tree DIR ...] [--period 1] [--cgroup 50] [--churn 5]
                                [--kill]

Each tree is a checkout with its own .venv, measured in turn and in the same run, `--rounds` times. The server has the
first core, agents (`fleet_agents`) and receiver the second. Beside it a loop of fixed work runs every few seconds on
the second core: where its processor time changes, the machine changed. What is measured is the way of a message and not
the patience of a rule: link_degraded has a hold of 0 s here, mass_alarm is off, so is the receiver's budget, and
nothing waits for further faults of its kind (`fleet_server`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fabricmon.sim.dump import write
from fabricmon.sim.shapes.fat_tree import rail_fabric
from tests.bench import fleet_agents
from tests.bench.processes import cpu, rss
from tests.rigs.daemons import fetch, fetch_json, free_port
from tests.rigs.receiver import posts

HERE = Path(__file__).parents[2]
SERVER_CORE, OTHER_CORE = 0, (os.cpu_count() or 1) - 1
START_LIMIT, SETTLE, LAST = 300.0, 10.0, 20.0
SLOW = 20.0  # seconds for which a link is slow
KILLED = 10  # faults while the server is dead
LOOP = 300_000
PARTS = 10  # of the load, after each of which memory is read
CONFIG = """
central:
  listen: ["127.0.0.1:{port}"]
  state: {directory}/state
  fabric: bench
  target_files: [{directory}/agents.json]
topology: {{file: {topology}}}
rules: {{link_degraded: {{hold: 0s, clear: 1s}}, mass_alarm: {{least: 1000000}}}}
notify: {{budget: 0}}
senders: {{hook: {{kind: webhook, url: "http://127.0.0.1:{hook}/"}}}}
log: {{level: warning}}
"""


class FleetRun(NamedTuple):
    """What one run measured.

    listening    seconds from the start of the process until it listens: the topology is loaded
    streams      seconds from then until all streams stand
    connecting   processor seconds of the server meanwhile
    unreachable  healthy nodes that were called unreachable
    core         share of a core of the server while the fleet is at its usual load
    oldest       age of the oldest last values of a node at the end of the load, seconds, as the server states it
    loop         processor seconds of the fixed work
    mib          resident memory at the end
    held         what it held meanwhile: seconds since the load began, resident MiB, descriptors
    delays       seconds from a fault to its webhook; `lost`: faults without one
    back         seconds from the start of a server after a kill to the first webhook of a fault meanwhile, NaN: no kill
    """

    listening: float
    streams: float
    connecting: float
    unreachable: int
    core: float
    oldest: float
    loop: float
    held: list[tuple[float, float, int]]
    mib: float
    descriptors: int
    delays: list[float]
    lost: int
    back: float
    generator: str

    def quantile(self, share: float) -> float:
        ordered = sorted(self.delays)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def fixed_work() -> float:
    """Processor seconds of a loop that is the same in every run."""
    begin, total = time.process_time(), 0
    for n in range(LOOP):
        total += n & 7
    return time.process_time() - begin


@contextmanager
def process(
    command: Sequence[object], core: int, log: Path, cwd: Path = HERE
) -> Iterator[subprocess.Popen[bytes]]:
    """A program on one core, killed at the end."""
    with log.open("wb") as output, subprocess.Popen(
        [*map(str, command)], stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=cwd,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(cwd)},
    ) as made:  # fmt: skip
        os.sched_setaffinity(made.pid, {core})
        try:
            yield made
        finally:
            made.kill()


def say(agents: subprocess.Popen[bytes], line: str) -> None:
    assert agents.stdin is not None
    agents.stdin.write(f"{line}\n".encode())
    agents.stdin.flush()


def presences(url: str) -> dict[str, int]:
    """Nodes by presence, from the server's metrics."""
    found = {}
    for line in fetch(f"{url}/metrics").splitlines():
        if line.startswith("fabricmon_central_nodes{"):
            label, _, value = line.rpartition(" ")
            found[label.partition('"')[2].rstrip('"}')] = int(float(value))
    return found


def lay_out(directory: Path, nodes: int) -> Path:
    """Topology and targets of the fleet as files. Returns the topology's."""
    topology = directory / "ibnetdiscover.txt"
    topology.write_text(write(rail_fabric(nodes, spines=4, parallel=1)))
    return topology


def targets(nodes: int, port: int) -> str:
    return json.dumps([
        {"targets": [f"{fleet_agents.address(n)}:{port}"], "labels": {"node": fleet_agents.name(n, nodes)}}
        for n in range(nodes)
    ])  # fmt: skip


def run(tree: Path, topology: Path, args: argparse.Namespace, quota: Path | None = None) -> FleetRun:
    """One server of a tree with the fleet. TimeoutError where the streams do not all stand."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, hook, web = free_port(), free_port(), free_port()
        (directory / "agents.json").write_text(targets(args.nodes, port))
        (directory / "central.yaml").write_text(
            CONFIG.format(directory=directory, topology=topology, port=web, hook=hook)
        )
        faults, got = directory / "faults", directory / "posts"
        stack.enter_context(process(
            [sys.executable, "-m", "tests.rigs.receiver", hook, got], OTHER_CORE, directory / "receiver.log"))
        agents = stack.enter_context(process(
            [sys.executable, "-m", "tests.bench.fleet_agents", args.nodes, port, args.period, faults], OTHER_CORE,
            directory / "agents.log"))
        _until(lambda: b"listening" in (directory / "agents.log").read_bytes(), 60)
        began = time.monotonic()
        server = stack.enter_context(_server(tree, directory))
        if quota is not None:
            (quota / "cgroup.procs").write_text(str(server.pid))
        url = f"http://127.0.0.1:{web}"
        _until(lambda: _answers(url, server), START_LIMIT)
        listening, spent = time.monotonic() - began, cpu(server.pid)
        worst: dict[str, int] = {}
        # Metrics of 10,000 nodes take the server a third of a second: they are read when the agents show an end.
        _until(lambda: b"all greeted" in (directory / "agents.log").read_bytes(), START_LIMIT)
        _until(lambda: _live(url, worst) >= args.nodes, START_LIMIT, pause=1.0)
        streams, connecting = time.monotonic() - began - listening, cpu(server.pid) - spent
        time.sleep(SETTLE)
        core, loop, held = _load(server.pid, agents, args)
        oldest = _oldest(url)
        time.sleep(LAST)
        mib, descriptors = _held(server.pid)
        delays, lost = _delays(faults, got, args.nodes)
        named = {line.partition("address=")[2].split()[0] for line in
                 (directory / "server.log").read_text().splitlines() if "unreachable" in line and "address=" in line}
        back = _back(server, tree, directory, agents, args) if args.kill else float("nan")
        assert agents.stdin is not None
        agents.stdin.close()
        agents.wait(30)
        if args.keep:
            shutil.copytree(directory, Path(args.keep) / f"{tree.name}-{time.time():.0f}")
        generator = (directory / "agents.log").read_text().splitlines()[-1]
    return FleetRun(
        listening, streams, connecting, len(named), core, oldest, loop, held, mib, descriptors, delays, lost, back,
        generator,
    )  # fmt: skip


def _server(tree: Path, directory: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    program = [tree / ".venv/bin/python", HERE / "tests/bench/fleet_server.py"]
    return process(
        [*program, "central", "--config", directory / "central.yaml"], SERVER_CORE, directory / "server.log", tree
    )


def _held(pid: int) -> tuple[float, int]:
    """Resident MiB and descriptors of a process."""
    return rss(pid), len(os.listdir(f"/proc/{pid}/fd"))


def _back(
    server: subprocess.Popen[bytes], tree: Path, directory: Path, agents: subprocess.Popen[bytes],
    args: argparse.Namespace,
) -> float:  # fmt: skip
    """Kill the server, let links become slow, start another: seconds until the first webhook of one of these."""
    server.kill()
    server.wait()
    chosen = random.Random(args.seed + 1).sample(range(args.nodes), KILLED)
    for node in chosen:
        say(agents, f"slow {START_LIMIT} {node} 0")
    time.sleep(2.0)
    ports = {f"{fleet_agents.name(node, args.nodes)}/mlx5_0/1" for node in chosen}
    began = time.monotonic()
    with _server(tree, directory):
        _until(lambda: bool(ports & _named_since(directory / "posts", began)), START_LIMIT)
        return time.monotonic() - began


def _named_since(got: Path, since: float) -> set[str]:
    """Words of the components in notifications after a moment of the monotonic clock."""
    return {word for post in posts(got) if post["at"] >= since for word in _words(post)}


def _words(post: dict[str, Any]) -> Iterator[str]:
    for incident in post["body"]["incidents"]:
        text = " ".join((incident["component"], *incident["parts"]))
        yield from text.replace("(", " ").replace(")", " ").replace(",", " ").split()


def _oldest(url: str) -> float:
    """Age of the oldest last values of a node, by the server's list of nodes."""
    times = [node["last_frame"] for node in fetch_json(f"{url}/api/v1/nodes?limit=10000")["nodes"]]
    return time.time() - min(datetime.fromisoformat(each).timestamp() for each in times if each is not None)


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise RuntimeError(f"the server ended with {server.returncode}")
    try:
        fetch(f"{url}/-/live")
    except OSError:
        return False
    return True


def _live(url: str, worst: dict[str, int]) -> int:
    try:
        now = presences(url)
    except OSError:
        return 0
    for presence, number in now.items():
        worst[presence] = max(number, worst.get(presence, 0))
    return now.get("live", 0)


def _until(condition: object, patience: float, pause: float = 0.1) -> None:
    end = time.monotonic() + patience
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"not after {patience:g} s")
        time.sleep(pause)


def _load(
    pid: int, agents: subprocess.Popen[bytes], args: argparse.Namespace
) -> tuple[float, float, list[tuple[float, float, int]]]:
    """Share of a core of the server, and processor seconds of the fixed work, while faults happen; what it held after
    each tenth of the time."""
    choose, restarts, held = random.Random(args.seed), 0, list[tuple[float, float, int]]()
    nodes = choose.sample(range(args.nodes), min(args.faults, args.nodes))
    begin, before, works = time.monotonic(), cpu(pid), [fixed_work()]
    for at, node in enumerate(nodes):
        due = begin + (at + choose.random()) * args.seconds / len(nodes)
        while (wait := due - time.monotonic()) > 0:
            time.sleep(min(wait, 1.0))
            passed = time.monotonic() - begin
            while restarts < int(args.churn * passed):
                restarts += 1
                say(agents, f"restart {choose.randrange(args.nodes)}")
            if passed > (len(held) + 1) * args.seconds / PARTS:
                held.append((passed, *_held(pid)))
        say(agents, f"slow {SLOW} {node} {choose.randrange(fleet_agents.PORTS)}")
        if at % max(len(nodes) // 10, 1) == 0:
            works.append(fixed_work())
    time.sleep(max(0.0, begin + args.seconds - time.monotonic()))
    core = (cpu(pid) - before) / (time.monotonic() - begin)
    return core, statistics.median(works), held


def _delays(faults: Path, got: Path, nodes: int) -> tuple[list[float], int]:
    """Seconds from each fault to the first notification that names its port, and how many have none."""
    offset = time.time() - time.monotonic()
    first: dict[str, float] = {}
    for post in posts(got):
        for word in _words(post):
            first.setdefault(word, post["at"] + offset)
    delays, lost = [], 0
    for line in faults.read_text().splitlines():
        fault = json.loads(line)
        seen = first.get(f"{fleet_agents.name(fault['node'], nodes)}/mlx5_{fault['port']}/1")
        if seen is None:
            lost += 1
        else:
            delays.append(seen - fault["at"])
    return delays, lost


@contextmanager
def limited(percent: int) -> Iterator[Path | None]:
    """A cgroup with a share of a core; None for 0."""
    if not percent:
        yield None
        return
    v1 = Path("/sys/fs/cgroup/cpu")
    made = (v1 if v1.exists() else Path("/sys/fs/cgroup")) / f"fabricmon-bench-{os.getpid()}"
    made.mkdir()
    try:
        if v1.exists():
            (made / "cpu.cfs_period_us").write_text("100000")
            (made / "cpu.cfs_quota_us").write_text(str(percent * 1000))
        else:
            (made / "cpu.max").write_text(f"{percent * 1000} 100000")
        yield made
    finally:
        made.rmdir()


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    add = parser.add_argument
    add("--nodes", type=int, default=1000)
    add("--seconds", type=float, default=30.0)
    add("--period", type=float, default=10.0, help="seconds between two frames with all values")
    add("--faults", type=int, default=100)
    add("--rounds", type=int, default=1)
    add("--seed", type=int, default=1)
    add("--cgroup", type=int, default=0, help="percent of a core that the server may use; root")
    add("--churn", type=float, default=0.0, help="agents that are restarted each second")
    add("--kill", action="store_true", help="kill the server at the end and start it again")
    add("--tree", type=Path, action="append", help="checkout with its .venv, repeatable (default: this one)")
    add("--keep", default="", help="directory for logs and posts of each run")
    return parser.parse_args(words)


def main(words: Sequence[str] = ()) -> list[tuple[str, float, str]]:
    args, rows = arguments(words), list[tuple[str, float, str]]()
    with tempfile.TemporaryDirectory() as name:
        topology = lay_out(Path(name), args.nodes)
        for _ in range(args.rounds):
            for tree in args.tree or [HERE]:
                with limited(args.cgroup) as quota:
                    one = run(tree, topology, args, quota)
                rows += _rows(one, f"{tree.name}: {args.nodes} nodes")
    return rows


def _rows(one: FleetRun, what: str) -> list[tuple[str, float, str]]:
    return [
        (f"{what}, server", one.core * 100, "% of a core"),
        ("  age of the oldest last values of a node, as the API states it", one.oldest, "s"),
        ("  fixed work beside it", one.loop * 1e3, "ms CPU"),
        ("  memory", one.mib, "MiB RSS"),
        *((f"  memory after {seconds:.0f} s of load, {files} descriptors", mib, "MiB RSS")
          for seconds, mib, files in one.held),
        ("  descriptors", one.descriptors, ""),
        ("  from start to listening", one.listening, "s"),
        ("  from then until all streams stand", one.streams, "s"),
        ("  of the server meanwhile", one.connecting, "s CPU"),
        ("  healthy nodes called unreachable", one.unreachable, ""),
        ("  fault to webhook, median", one.quantile(0.5), "s"),
        ("  fault to webhook, 99 %", one.quantile(0.99), "s"),
        ("  fault to webhook, worst", one.quantile(1.0), "s"),
        ("  from a start after a kill to the first webhook of a fault meanwhile", one.back, "s"),
        (f"  faults without a webhook, of {len(one.delays) + one.lost}; {one.generator}", one.lost, ""),
    ]


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}")
    for what, value, unit in main(sys.argv[1:]):
        print(f"{what:70} {value:10.3f} {unit}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")
