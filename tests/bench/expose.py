"""A real agent process on a tree of 8 adapters with 408 counter files: memory, processor time per cycle and per
/metrics answer, beside prometheus-node-exporter's infiniband collector on the same tree in the same run."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.processes import Scraper, cpu, free_port, rss, scrape, serving
from tests.host.trees import build_hca_tree

SCRAPES = 100
PERIOD = 0.1  # seconds; one collector gets the same, so that one scrape goes with one cycle of it

CONFIG = """
agent: {{judge: {judge}}}
collect:
  infiniband: {{interval: {infiniband}}}
  infiniband_errors: {{interval: {errors}}}
  infiniband_rare: {{interval: {rare}}}
  infiniband_state: {{interval: {state}}}
  ethernet: {{interval: 5s}}
"""


def _per_scrape(pid: int, url: str) -> tuple[float, int]:
    """Processor milliseconds per scrape with all that goes on meanwhile, and bytes of one answer."""
    scraper = Scraper(url)
    size = scraper.scrape()
    begin = cpu(pid)
    next_at = time.monotonic()
    for _ in range(SCRAPES):
        size = scraper.scrape()
        next_at += PERIOD
        time.sleep(max(0.0, next_at - time.monotonic()))
    scraper.close()
    return (cpu(pid) - begin) / SCRAPES * 1e3, size


def _idle(pid: int) -> float:
    """Processor milliseconds per cycle while nobody asks."""
    begin, started = cpu(pid), time.monotonic()
    time.sleep(SCRAPES * PERIOD / 2)
    return (cpu(pid) - begin) / (time.monotonic() - started) * PERIOD * 1e3


def _agent(root: Path, directory: Path, judge: bool, infiniband: str, state: str) -> tuple[list[str], str]:
    """`infiniband`: pace of all 400 counter files, "" the three paces that they have by default."""
    paces = {"infiniband": "10s", "errors": "30s", "rare": "2m"}
    if infiniband:
        paces = dict.fromkeys(paces, infiniband)
    config = directory / f"{judge}-{infiniband or 'default'}-{state}.yaml"
    config.write_text(CONFIG.format(judge=str(judge).lower(), state=state, **paces))
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
        fast = f"{int(PERIOD * 1e3)}ms"
        command, url = _agent(root, Path(name), True, "", "1s")
        with serving(command, url + "/-/ready") as pid:
            for _ in range(10):
                scrape(url + "/metrics")
            time.sleep(3)
            share = _idle(pid) / PERIOD / 10
            rows.append((f"agent at its defaults, {files} files, judging: memory", rss(pid), "MiB RSS (bar 80)"))
            rows.append(("  processor", share, "% of one core"))
        command, url = _agent(root, Path(name), False, "60s", fast)
        with serving(command, url + "/-/ready") as pid:
            state = _idle(pid)
        command, url = _agent(root, Path(name), False, "60s", "60s")
        with serving(command, url + "/-/ready") as pid:
            answer, _ = _per_scrape(pid, url + "/metrics")
        command, url = _agent(root, Path(name), False, fast, "60s")
        with serving(command, url + "/-/ready") as pid:
            cycle = _idle(pid)
            both, size = _per_scrape(pid, url + "/metrics")
        rows += [
            ("agent without judgement: one cycle of the states (1 s)", state, "ms CPU"),
            (f"  one cycle of the {files} counter files", cycle, "ms CPU"),
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
            theirs, size = _per_scrape(pid, url)
            rows += [
                ("node_exporter infiniband: read and answer", theirs, "ms CPU"),
                ("node_exporter: answer, gzip", float(size), "bytes"),
                ("agent's counter cycle / node_exporter", cycle / theirs, "of its CPU (bar 0.33)"),
                ("agent's counter cycle and answer / node_exporter", both / theirs, "of its CPU (bar 0.33)"),
            ]
    return rows


if __name__ == "__main__":
    for what, value, unit in main():
        sys.stdout.write(f"{what:60} {value:10.3f} {unit}\n")
