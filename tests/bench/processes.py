"""Processor time and memory of another process, as /proc tells."""

from __future__ import annotations

import http.client
import os
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """Seconds of user and system time of all its threads; resolution 1 / SC_CLK_TCK (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def rss(pid: int) -> float:
    """Resident MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no memory")


@contextmanager
def serving(command: Sequence[str], url: str, environ: dict[str, str] | None = None) -> Iterator[int]:
    """The pid of a process that answers 200 at `url`, ended afterwards."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ) as process:
        try:
            for _ in range(200):
                try:
                    scrape(url)
                    break
                except OSError:
                    if process.poll() is not None:
                        raise RuntimeError(f"{command[0]} ended with {process.returncode}") from None
                    time.sleep(0.1)
            else:
                raise RuntimeError(f"{command[0]} does not answer at {url}")
            yield process.pid
        finally:
            process.terminate()


class Scraper:
    """Asks as Prometheus does: one connection that stays, OpenMetrics first, gzip."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)

    def scrape(self) -> int:
        """Bytes of one answer."""
        self._connection.request("GET", self._path, headers={
            "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            "Accept-Encoding": "gzip",
        })
        answer = self._connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise OSError(f"{self._path} answers {answer.status}")
        return size

    def close(self) -> None:
        self._connection.close()


def scrape(url: str) -> int:
    """One request on a connection of its own; bytes of the answer. OSError unless it is answered with 200."""
    scraper = Scraper(url)
    try:
        return scraper.scrape()
    finally:
        scraper.close()
