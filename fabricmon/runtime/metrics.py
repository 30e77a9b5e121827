"""What a process says of itself: processor time, memory, descriptors, threads, start, version.

Read from /proc/self on every scrape; names are those of the Prometheus client libraries.
"""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

from fabricmon.runtime.exposition import Family

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_families(version: str, component: str) -> list[Family]:
    """Families of this process. What /proc does not tell is left out."""
    cpu, memory, threads, started = _stat()
    return [
        Family("process_cpu_seconds_total", "counter", "User and system processor time", [({}, cpu)], "seconds"),
        Family("process_resident_memory_bytes", "gauge", "Resident memory", [({}, memory)], "bytes"),
        Family("process_open_fds", "gauge", "Open file descriptors", [({}, _descriptors())]),
        Family("process_threads", "gauge", "Threads of the process", [({}, threads)]),
        Family("process_start_time_seconds", "gauge", "Start of the process since the Unix epoch", [({}, started)],
               "seconds"),
        Family("fabricmon_build_info", "gauge", "Version of this program; the value is always 1",
               [({"version": version, "component": component, "python": platform.python_version()}, 1.0)]),
    ]


def _stat() -> tuple[float, float, float, float]:
    """Processor seconds, resident bytes, threads, start (epoch seconds) of this process (proc(5), /proc/PID/stat)."""
    try:
        # The second field, the name in brackets, may hold anything.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        cpu = (int(fields[11]) + int(fields[12])) / _TICK
        return cpu, float(int(fields[21]) * _PAGE), float(fields[17]), int(boot.split()[1]) + int(fields[19]) / _TICK
    except (OSError, StopIteration, IndexError, ValueError):
        return math.nan, math.nan, math.nan, math.nan


def _descriptors() -> float:
    try:
        return float(len(os.listdir("/proc/self/fd")) - 1)  # without the one that lists
    except OSError:
        return math.nan
