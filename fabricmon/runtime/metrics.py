"""What a process says of itself: processor time, memory, descriptors, threads, start, version.

Read from /proc/self on every scrape; names are those of the Prometheus client libraries.
"""

from __future__ import annotations

import functools
import math
import os
import platform

from fabricmon.runtime.exposition import Family

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def process_families(version: str, component: str) -> list[Family]:
    """Families of this process. What /proc does not tell is left out."""
    cpu, memory, threads = _stat()
    return [
        Family("process_cpu_seconds_total", "counter", "User and system processor time", [({}, cpu)], "seconds"),
        Family("process_resident_memory_bytes", "gauge", "Resident memory", [({}, memory)], "bytes"),
        Family("process_open_fds", "gauge", "Open file descriptors", [({}, _descriptors())]),
        Family("process_threads", "gauge", "Threads of the process", [({}, threads)]),
        Family("process_start_time_seconds", "gauge", "Start of the process since the Unix epoch",
               [({}, _start_time())], "seconds"),
        Family("fabricmon_build_info", "gauge", "Version of this program; the value is always 1",
               [({"version": version, "component": component, "python": platform.python_version()}, 1.0)]),
    ]


def _fields() -> list[str]:
    """/proc/self/stat from the third field on (proc(5)); the second, the name in brackets, may hold anything."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _stat() -> tuple[float, float, float]:
    """Processor seconds, resident bytes and threads of this process."""
    try:
        fields = _fields()
        return (int(fields[11]) + int(fields[12])) / _TICK, float(int(fields[21]) * _PAGE), float(fields[17])
    except (OSError, IndexError, ValueError):
        return math.nan, math.nan, math.nan


@functools.cache
def _start_time() -> float:
    """Wall seconds. Asked once: /proc/stat tells of every processor and interrupt, milliseconds on a big node."""
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as file:
            boot = next(line for line in file if line.startswith("btime "))
        return int(boot.split()[1]) + int(_fields()[19]) / _TICK
    except (OSError, StopIteration, IndexError, ValueError):
        return math.nan


def _descriptors() -> float:
    """The directory's size where the kernel gives it (Linux 6.2), else its entries are counted."""
    try:
        size = os.stat("/proc/self/fd").st_size
        return float(size or len(os.listdir("/proc/self/fd")) - 1)  # without the one that lists
    except OSError:
        return math.nan
