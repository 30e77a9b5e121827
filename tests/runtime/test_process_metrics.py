"""The metrics of the process beside those of prometheus-client's own collector."""

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from fabricmon.runtime import process_metrics
from fabricmon.runtime.process_metrics import ProcessMetrics


@pytest.fixture(autouse=True)
def _nothing_closes_meanwhile() -> Iterator[None]:
    """What other tests of this process left to the garbage collector holds descriptors: it goes before, not between."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def families(collector: Collector) -> dict[str, Metric]:
    return {family.name: family for family in collector.collect()}


def value(family: Metric) -> float:
    (sample,) = family.samples
    return sample.value


def test_names_types_help_and_values_are_those_of_prometheus_client() -> None:
    ours, theirs = families(ProcessMetrics()), families(ProcessCollector(registry=None))
    assert set(ours) == {*theirs, "process_threads"}
    for name, family in theirs.items():
        mine = ours[name]
        assert (mine.type, mine.documentation, mine.unit) == (family.type, family.documentation, family.unit)
        assert [s[:2] for s in mine.samples] == [s[:2] for s in family.samples]
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert value(ours[name]) == value(theirs[name])
    assert value(ours["process_cpu_seconds"]) == pytest.approx(value(theirs["process_cpu_seconds"]), abs=0.5)
    for name in ("process_virtual_memory_bytes", "process_resident_memory_bytes"):
        assert value(ours[name]) == pytest.approx(value(theirs[name]), rel=0.2)
    assert value(ours["process_threads"]) == len(os.listdir("/proc/self/task"))


ALONE = """
from prometheus_client import ProcessCollector
from fabricmon.runtime.process_metrics import ProcessMetrics
for collector in (ProcessMetrics(), ProcessCollector(registry=None)):
    print(next(f.samples[0].value for f in collector.collect() if f.name == "process_open_fds"))
"""
"""In a process of its own: the kernel's number counts descriptors that a thread is about to open, which the folder does
not list, and other tests of this process left threads that wait in the open of a FIFO."""


def test_descriptors_are_those_of_prometheus_client() -> None:
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    ours, theirs = map(float, run.stdout.split())
    assert ours == theirs - 1  # it also counts the descriptor with which it lists the folder


def test_each_scrape_reads_anew() -> None:
    collector = ProcessMetrics()
    before = {name: value(family) for name, family in families(collector).items()}
    with open("/dev/null") as _:
        begun = time.process_time()
        while time.process_time() < begun + 0.02:
            pass
        after = {name: value(family) for name, family in families(collector).items()}
    assert after["process_open_fds"] == before["process_open_fds"] + 1
    assert after["process_cpu_seconds"] >= before["process_cpu_seconds"] + 0.02


def test_descriptors_are_counted_one_by_one_before_linux_6_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("task", "fd", "fd/0", "fd/1", "fd/2", "fd/17"):  # 17 is the one with which the folder is listed
        (tmp_path / name).mkdir()
    (tmp_path / "statm").write_text("40000 5000 2000 1 0 9000 0\n")
    older = SimpleNamespace(
        stat=lambda path: SimpleNamespace(st_size=0, st_nlink=os.stat(path).st_nlink), listdir=os.listdir
    )
    # Only what this module sees: pytest itself must go on calling the real one.
    monkeypatch.setattr(process_metrics, "os", older)
    assert value(families(ProcessMetrics(str(tmp_path)))["process_open_fds"]) == 3


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    assert set(families(ProcessMetrics(str(tmp_path)))) == {
        "process_cpu_seconds", "process_max_fds", "process_start_time_seconds",
    }  # fmt: skip
