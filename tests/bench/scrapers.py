"""Prometheus, and VictoriaMetrics with vmalert, on the fleet of `fleet`: what they bear on one core, and time to alert.

    python -m tests.bench.scrapers --nodes 1000 --nodes 2000 [--seconds 100] [--faults 100] [--evaluate 5]

The program has the first core, pages (`fleet_pages`) and receiver the second. It scrapes each node every ten seconds
and tests one rule, the exported link_degraded without its hold, as `fleet` has it. What it sends to an Alertmanager
goes to the receiver. Time to alert is what its periods make of it: a fault waits for the next scrape, then for the next
test.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from fabricmon.rules import RULES
from fabricmon.rules.prometheus.rulefile import RulefileOptions, groups
from tests.bench import fleet_agents
from tests.bench.fleet import OTHER_CORE, SERVER_CORE, fixed_work, process, say
from tests.bench.fleet_pages import EVERY
from tests.bench.processes import cpu, rss
from tests.rigs.daemons import free_port
from tests.rigs.receiver import posts

WARM = 4 * EVERY  # seconds until the series of all nodes exist and the rule has been tested on them
SLOW = 30.0  # seconds for which a link is slow
SCRAPE = """
global: {{scrape_interval: {every}s, scrape_timeout: {every}s{evaluation}}}
{more}
scrape_configs:
- job_name: fabricmon
  file_sd_configs: [{{files: [{directory}/nodes.json]}}]
"""
ALERTS = """
rule_files: [{directory}/rules.json]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{hook}"]}}]}}]}}
"""


class Load(NamedTuple):
    """What one run measured: share of a core, MiB, samples taken a second, share of the pages that were due and came,
    seconds from a fault to its alert, faults without one."""

    core: float
    mib: float
    samples: float
    came: float
    delays: list[float]
    lost: int
    loop: float

    def quantile(self, share: float) -> float:
        ordered = sorted(self.delays)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("nan")


def rules(file: Path, every: float) -> None:
    """The exported rule for slow links, tested every so many seconds, without its hold."""
    content = groups([rule for rule in RULES if rule.name == "link_degraded"], {}, RulefileOptions(keep_firing=False))
    for group in content:
        group["interval"] = f"{every:g}s"
        for entry in group["rules"]:
            if "alert" in entry:
                entry["for"] = "0s"
    file.write_text(json.dumps({"groups": content}))


def prometheus(directory: Path, hook: int) -> list[list[object]]:
    """Its command, with its configuration written."""
    (directory / "scrape.yml").write_text(SCRAPE.format(
        every=f"{EVERY:g}", evaluation="", more=ALERTS.format(directory=directory, hook=hook), directory=directory))
    return [["prometheus", f"--config.file={directory}/scrape.yml", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{free_port()}"]]  # fmt: skip


def victoria_metrics(directory: Path, hook: int, every: float) -> list[list[object]]:
    """Its command and vmalert's."""
    (directory / "scrape.yml").write_text(
        SCRAPE.format(every=f"{EVERY:g}", evaluation="", more="", directory=directory))
    web = f"127.0.0.1:{free_port()}"
    return [
        ["victoria-metrics", f"-promscrape.config={directory}/scrape.yml", f"-storageDataPath={directory}/data",
         f"-httpListenAddr={web}", "-search.latencyOffset=0s"],
        ["vmalert", f"-rule={directory}/rules.json", f"-datasource.url=http://{web}", f"-remoteWrite.url=http://{web}",
         f"-notifier.url=http://127.0.0.1:{hook}", f"-evaluationInterval={every:g}s",
         f"-httpListenAddr=127.0.0.1:{free_port()}"],
    ]  # fmt: skip


def run(name: str, nodes: int, args: argparse.Namespace) -> Load:
    """One program with the fleet."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, hook = free_port(), free_port()
        (directory / "nodes.json").write_text(
            json.dumps([{"targets": [f"{fleet_agents.address(n)}:{port}" for n in range(nodes)]}]))
        rules(directory / "rules.json", args.evaluate)
        faults, got, log = directory / "faults", directory / "posts", directory / "pages.log"
        stack.enter_context(process(
            [sys.executable, "-m", "tests.rigs.receiver", hook, got], OTHER_CORE, directory / "receiver.log"))
        pages = stack.enter_context(process(
            [sys.executable, "-m", "tests.bench.fleet_pages", nodes, port, faults], OTHER_CORE, log))
        time.sleep(2.0)
        commands = prometheus(directory, hook) if name == "Prometheus" else (
            victoria_metrics(directory, hook, args.evaluate))  # fmt: skip
        programs = []
        for number, command in enumerate(commands):
            # Go counts its cores when it starts.
            pinned = ["taskset", "-c", SERVER_CORE, *command]
            programs.append(stack.enter_context(process(pinned, SERVER_CORE, directory / f"{number}.log", directory)))
            time.sleep(1.0)
        time.sleep(WARM)
        for number, program in enumerate(programs):
            if program.poll() is not None:
                raise RuntimeError((directory / f"{number}.log").read_text()[-500:])
        pids = [program.pid for program in programs]
        before, begin, loop = sum(map(cpu, pids)), time.monotonic(), fixed_work()
        say(pages, "count")
        _faults(pages, nodes, args)
        core = (sum(map(cpu, pids)) - before) / (time.monotonic() - begin)
        say(pages, "count")
        time.sleep(2 * EVERY)
        first, last = (json.loads(line) for line in log.read_text().splitlines()[1:3])
        sent = (last["sent"] - first["sent"]) / (last["at"] - first["at"])
        delays, lost = _delays(faults, got)
        return Load(core, sum(map(rss, pids)), sent * last["samples"], sent * EVERY / nodes, delays, lost, loop)


def _faults(pages: Any, nodes: int, args: argparse.Namespace) -> None:
    """Links that become slow, at random times within the load."""
    choose, begin = random.Random(args.seed), time.monotonic()
    for at, node in enumerate(choose.sample(range(nodes), args.faults)):
        due = begin + (at + choose.random()) * args.seconds / args.faults
        time.sleep(max(0.0, due - time.monotonic()))
        say(pages, f"slow {SLOW} {node} {choose.randrange(fleet_agents.PORTS)}")
    time.sleep(max(0.0, begin + args.seconds - time.monotonic()))


def _delays(faults: Path, got: Path) -> tuple[list[float], int]:
    """Seconds from each fault to the first alert of its port, and how many have none."""
    first: dict[tuple[str, str], float] = {}
    for post in posts(got):
        for alert in post["body"]:
            labels = alert["labels"]
            first.setdefault((labels["instance"].partition(":")[0], labels["device"]), post["at"])
    delays, lost = [], 0
    for line in faults.read_text().splitlines():
        fault = json.loads(line)
        seen = first.get((fleet_agents.address(fault["node"]), f"mlx5_{fault['port']}"))
        if seen is None:
            lost += 1
        else:
            delays.append(seen - fault["at"])
    return delays, lost


def main(words: Sequence[str] = ()) -> list[tuple[str, float, str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scrapers", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--evaluate", type=float, default=5.0, help="seconds between two tests of the rule")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("Prometheus", "VictoriaMetrics"))
    args = parser.parse_args(words)
    rows = []
    for name, needed in (("Prometheus", "prometheus"), ("VictoriaMetrics", "vmalert")):
        for nodes in args.nodes or [1000]:
            if shutil.which(needed) is None:
                rows.append((f"{name}: not installed", float("nan"), ""))
            elif args.only in (None, name):
                rows += _rows(run(name, nodes, args), f"{name}: {nodes} nodes", nodes)
    return rows


def _rows(one: Load, what: str, nodes: int) -> list[tuple[str, float, str]]:
    return [
        (what, one.core * 100, "% of a core"),
        ("  fixed work beside it", one.loop * 1e3, "ms CPU"),
        ("  pages that came, of those due", one.came * 100, "%"),
        ("  samples", one.samples, "/s"),
        ("  samples a second and core", one.samples / one.core, "/s"),
        ("  memory a node", one.mib * 1024 / nodes, "KiB RSS"),
        ("  fault to alert, median", one.quantile(0.5), "s"),
        ("  fault to alert, 99 %", one.quantile(0.99), "s"),
        (f"  faults without an alert, of {len(one.delays) + one.lost}", one.lost, ""),
    ]


if __name__ == "__main__":
    print(f"load {os.getloadavg()[0]:.1f}")
    for what, value, unit in main(sys.argv[1:]):
        print(f"{what:50} {value:12.3f} {unit}", flush=True)
