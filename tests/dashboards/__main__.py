"""All dashboards on real data: `python -m tests.dashboards`, with --help for its options.

A simulated fabric with faults, its agents and its server are scraped by a real Prometheus, which finds them by the
server's own list of targets and evaluates the recording rules. Then every query of every panel is asked. Exit 1 where a
query fails, names a label that no series has, returns too many series, or returns nothing. What no fault of the
simulation fills, a node that has every counter does.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fabricmon.dashboards import documents
from fabricmon.dashboards.recordings import groups
from fabricmon.dashboards.site import Site
from tests.dashboards.ask import ANNOTATION, Answer, Asker
from tests.dashboards.plant import BENCH
from tests.rigs.daemons import Daemon, fetch, free_port, wait_for
from tests.rigs.prometheus import Prometheus

SCRAPE = 2  # seconds
PAGES = 33
"""How many there are to scrape without the node with every counter: those of the hosts, and the server's."""
MOST = 400
"""Series at most that a panel may get here, the node with every counter included; that none grows with the fleet is for
test_dashboards_as_files."""

REAL, FLAPPING = "host-000", "host-003"
"""The host with a real agent, and one with a fault: the dashboard of a node is asked of both and of BENCH."""


def prometheus(folder: Path, central: str, bench: str) -> Prometheus:
    """A Prometheus that scrapes them all and evaluates the recording rules every five seconds."""
    program = shutil.which("prometheus")
    if program is None:
        raise SystemExit("prometheus is not installed")
    content = groups()
    for group in content:
        group["interval"] = "5s"
    targets: dict[str, list[str]] = {"fabricmon-central": [central], "fabricmon-agent": []}
    told = {"url": f"http://{central}/api/v1/targets", "refresh_interval": "5s"}
    options: dict[str, dict[str, Any]] = {"fabricmon-agent": {"http_sd_configs": [told]}}
    if bench:
        targets["fabricmon-bench"] = [bench]
        options["fabricmon-bench"] = {"static_configs": [{"targets": [bench], "labels": {"instance": BENCH}}]}
    return Prometheus(program, folder, targets, options, interval=SCRAPE, rules=content)


def failing_rules(url: str) -> list[str]:
    found = json.loads(fetch(f"{url}/api/v1/rules"))["data"]["groups"]
    return [f"{rule['name']}: {rule.get('lastError', rule['health'])}"
            for group in found for rule in group["rules"] if rule["health"] != "ok"]  # fmt: skip


def judged(answer: Answer) -> str:
    """What is wrong with an answer; "" for nothing."""
    if answer.error:
        return f"error: {answer.error}"
    if answer.missing:
        return f"no series has {', '.join(answer.missing)}"
    if answer.series > MOST:
        return f"{answer.series} series"
    return "" if answer.points or answer.title.startswith(ANNOTATION) else "empty"


def combined(rounds: list[list[Answer]]) -> list[Answer]:
    """Of each query the answer of the first node that has something to say, or a mistake of any."""
    return [next((a for a in several if a.error or a.points), several[0]) for several in zip(*rounds, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=420.0, help="how long faults are played before the questions")
    parser.add_argument("--no-bench", dest="bench", action="store_false", help="without the node that has all counters")
    parser.add_argument("--quiet", action="store_true", help="a fabric without a fault")
    parser.add_argument("--data", type=Path, help="write each dashboard and what its panels got there, for pictures")
    parser.add_argument("--node", default="", help="the node that the dashboard of one node shows")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fabricmon-dashboards-"))
    central, bench = (f"127.0.0.1:{free_port()}" for _ in range(2))
    bench = bench if args.bench else ""
    command = [sys.executable, "-m", "tests.dashboards.plant", "--listen", central]
    command += ["--bench", bench] if bench else []
    command += ["--quiet"] if args.quiet else []
    with Daemon(folder / "plant.log", command) as plant:
        plant.wait_until("the plant", lambda: "plays" in plant.tail())
        began = time.monotonic()
        with prometheus(folder, central, bench) as server:
            wait_for("all scraped", lambda: server.value("sum(up)") == PAGES + bool(bench))
            while time.monotonic() - began < args.seconds:
                time.sleep(1)
                if plant.process.poll() is not None:
                    raise SystemExit(f"the plant ended:\n{plant.tail()}")
            return report(server.url, args, time.monotonic() - began, folder)


def report(url: str, args: argparse.Namespace, seconds: float, folder: Path) -> int:
    bad = 0
    for line in failing_rules(url):
        print(f"recording rule {line}")
        bad += 1
    nodes = [args.node] if args.node else [BENCH, FLAPPING, REAL] if args.bench else [FLAPPING, REAL]
    askers = [Asker(url, seconds, SCRAPE, {"node": node}) for node in nodes]
    print(f"{'dashboard':<26}{'queries':>8}{'with data':>10}{'empty':>7}{'series':>8}{'slowest':>10}")
    wrong = []
    for name, text in documents(Site()).items():
        document = json.loads(text)
        each = askers if name == "fabricmon-node.json" else askers[:1]
        if name == "fabricmon-rail.json":
            [variable] = [one for one in document["templating"]["list"] if one["name"] == "rail"]
            rails = each[0].options(variable, each[0].variables(document))
            each = [Asker(url, seconds, SCRAPE, {"rail": rail}) for rail in rails]
        answers = combined([asker.ask(document) for asker in each])
        said = [(answer, judged(answer)) for answer in answers]
        for answer, word in said:
            if word == "empty" and not args.bench:
                word = "(empty without the node that has all counters)"
            bad += bool(word) and not word.startswith("(")
            wrong += [(name, answer, word)] if word else []
        print(f"{name:<26}{len(answers):>8}{sum(bool(a.points) for a in answers):>10}"
              f"{sum(not a.points for a in answers):>7}{max(a.series for a in answers):>8}"
              f"{max(a.milliseconds for a in answers):>7.0f} ms")  # fmt: skip
        if args.data:
            keep(args.data, name, text, answers)
    for name, answer, word in wrong:
        print(f"{name}: {answer.title} ({answer.ref}): {word}\n      {answer.expr[:300]}")
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


def keep(folder: Path, name: str, text: str, answers: list[Answer]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    data = [{"dashboard": name, "panel": a.panel, "repeat": {}, "refId": a.ref, "instant": a.instant, "expr": a.expr,
             **a.result} for a in answers if a.result]  # fmt: skip
    (folder / f"{name}.data").write_text(json.dumps(data))


if __name__ == "__main__":
    sys.exit(main())
