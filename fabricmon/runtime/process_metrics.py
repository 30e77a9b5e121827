"""prometheus-client's metrics of this process, with a third of its reads: a scrape of an agent costs little else.

Names, types and HELP are prometheus-client's. Its collector opens and parses `stat`, `limits` and `fd` of /proc/self at
every scrape; here `statm` is the only file that is read, the rest is system calls (docs/design/own-code-or-library.md).
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from fabricmon.runtime.exposition import Family

PROC = "/proc/self"
START = "process_start_time_seconds"


class ProcessMetrics(Collector):
    """CPU time, memory, descriptors and threads of this process. What cannot be read is left out."""

    def __init__(self, proc: str = PROC) -> None:
        self._proc = proc
        self._families = list(ProcessCollector(registry=None).collect())

    def collect(self) -> Iterable[Metric]:
        """The families with their values of now."""
        values = dict(_readings(self._proc))
        for family in self._families:
            sample = family.samples[0]
            value = sample.value if family.name == START else values.get(sample.name)
            if value is not None:
                family.samples = [sample._replace(value=value)]
                yield family
        if (threads := values.get("process_threads")) is not None:
            yield Family("process_threads", "gauge", "Threads of the process", [({}, threads)])


def _readings(proc: str) -> Iterator[tuple[str, float]]:
    """Sample name -> value, as far as `proc` can be read."""
    yield "process_cpu_seconds_total", time.process_time()
    yield "process_max_fds", float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        with open(f"{proc}/statm", "rb", buffering=0) as file:
            pages = file.read().split()
        yield "process_virtual_memory_bytes", float(int(pages[0]) * resource.getpagesize())
        yield "process_resident_memory_bytes", float(int(pages[1]) * resource.getpagesize())
        # Counted by the kernel, which also knows threads that Python did not start.
        yield "process_threads", float(os.stat(f"{proc}/task").st_nlink - 2)
        # From Linux 6.2 on the size of the folder is the number of descriptors; before, it is 0.
        yield "process_open_fds", float(os.stat(f"{proc}/fd").st_size or len(os.listdir(f"{proc}/fd")) - 1)
    except OSError:
        return
