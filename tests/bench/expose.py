"""A real agent process on a tree of 8 adapters with 408 counter files: memory, processor time per cycle and per
/metrics answer, beside prometheus-node-exporter's infiniband collector on the same tree in the same run.

Everything is measured twice: "spaced", ten times a second, when a processor's caches have forgotten both programs
between two runs, as they have on a busy node; and "in a row", without a pause."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.processes import Scraper, cpu, rss, scrape, serving
from tests.host.trees import build_hca_tree
from tests.rigs.daemons import free_port

SCRAPES = 100
PERIODS = {"spaced": 0.1, "in a row": 0.01}  # seconds between two cycles of the collectors; scrapes go with them

CONFIG = """
agent: {{evaluate: {evaluate}}}
collect:
  infiniband: {{interval: {infiniband}}}
  infiniband_errors: {{interval: {errors}}}
  infiniband_rare: {{interval: {rare}}}
  infiniband_state: {{interval: {state}}}
  ethernet: {{interval: 5s}}
"""


def _per_scrape(pid: int, url: str, period: float) -> tuple[float, int]:
    """Processor milliseconds per scrape with all that goes on meanwhile, and bytes of one answer."""
    scraper = Scraper(url)
    size = scraper.scrape()
    begin = cpu(pid)
    next_at = time.monotonic()
    for _ in range(SCRAPES):
        size = scraper.scrape()
        next_at += period
        time.sleep(max(0.0, next_at - time.monotonic()))
    scraper.close()
    return (cpu(pid) - begin) / SCRAPES * 1e3, size


def _idle(pid: int, period: float) -> float:
    """Processor milliseconds per `period` without requests."""
    begin, started = cpu(pid), time.monotonic()
    time.sleep(5.0)
    return (cpu(pid) - begin) / (time.monotonic() - started) * period * 1e3


def _agent(root: Path, directory: Path, evaluate: bool, infiniband: str, state: str) -> tuple[list[str], str]:
    """`infiniband`: pace of all 400 counter files, "" the three paces that they have by default."""
    paces = {"infiniband": "10s", "errors": "30s", "rare": "2m"}
    if infiniband:
        paces = dict.fromkeys(paces, infiniband)
    config = directory / f"{evaluate}-{infiniband or 'default'}-{state}.yaml"
    config.write_text(CONFIG.format(evaluate=str(evaluate).lower(), state=state, **paces))
    port = free_port()
    command = [sys.executable, "-m", "fabricmon.cli", "agent", "--config", str(config), "--listen", f"127.0.0.1:{port}",
               "--path.sysfs", str(root), "--log.level", "error"]
    return command, f"http://127.0.0.1:{port}"


def main() -> list[tuple[str, float, str]]:
    rows: list[tuple[str, float, str]] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "sys"
        root.mkdir()
        files = len(build_hca_tree(root))
        command, url = _agent(root, Path(name), True, "", "1s")
        with serving(command, url + "/-/ready") as pid:
            for _ in range(10):
                scrape(url + "/metrics")
            time.sleep(3)
            rows.append((f"agent at its defaults, {files} files, evaluation on: memory", rss(pid), "MiB RSS (bar 80)"))
            rows.append(("  processor", _idle(pid, 1.0) / 10, "% of one core"))
        for how, period in PERIODS.items():
            rows += _beside(root, Path(name), how, period)
    return rows


def _beside(root: Path, directory: Path, how: str, period: float) -> list[tuple[str, float, str]]:
    """The agent and its peer at one pace."""
    fast = f"{int(period * 1e3)}ms"
    command, url = _agent(root, directory, False, "60s", fast)
    with serving(command, url + "/-/ready") as pid:
        state = _idle(pid, period)
    command, url = _agent(root, directory, False, "60s", "60s")
    with serving(command, url + "/-/ready") as pid:
        answer, _ = _per_scrape(pid, url + "/metrics", period)
    command, url = _agent(root, directory, False, fast, "60s")
    with serving(command, url + "/-/ready") as pid:
        cycle = _idle(pid, period)
        both, size = _per_scrape(pid, url + "/metrics", period)
    rows: list[tuple[str, float, str]] = [
        (f"{how}: one cycle of the states (1 s)", state, "ms CPU"),
        ("  one cycle of the 400 counter files", cycle, "ms CPU"),
        ("  one /metrics answer", answer, "ms CPU"),
        ("  counter cycle and answer together", both, "ms CPU"),
        ("  answer, gzip", float(size), "bytes"),
    ]
    peer = shutil.which("prometheus-node-exporter")
    if peer is None:
        return rows
    port = free_port()
    command = [peer, f"--path.sysfs={root}", "--collector.disable-defaults", "--collector.infiniband",
               "--web.disable-exporter-metrics", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    url = f"http://127.0.0.1:{port}/metrics"
    with serving(command, url) as pid:
        theirs, size = _per_scrape(pid, url, period)
    return [
        *rows,
        ("  node_exporter infiniband: read and answer", theirs, "ms CPU"),
        ("  node_exporter: answer, gzip", float(size), "bytes"),
        ("  counter cycle / node_exporter", cycle / theirs, "of its CPU (bar 0.33)"),
        ("  answer / node_exporter", answer / theirs, "of its CPU (bar 0.33)"),
        ("  counter cycle and answer / node_exporter", both / theirs, "of its CPU"),
    ]


if __name__ == "__main__":
    for what, value, unit in main():
        sys.stdout.write(f"{what:60} {value:10.3f} {unit}\n")
