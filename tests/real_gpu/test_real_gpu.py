"""A real NVIDIA GPU: what the agent exports beside `nvidia-smi`, bytes that a program copies, and a program's crash."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.test_process import Process
from tests.nvml.test_agent_with_gpus import values

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU in this machine"),
]

CONFIG = """
collect:
  gpu: {interval: 1s}
  nvlink: {interval: 1s}
rules:
  expected_inventory: {hold: 2s}
"""
GIB = 1 << 30
OVERHEAD = 1.15
"""Bytes on PCIe for a byte of data, at most: 28 bytes for each 256 (headers, framing), and replies."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    place = tmp_path_factory.mktemp("agent")
    (place / "sys").symlink_to("/sys")  # NVML is asked only of the machine that sysfs is of
    process = Process(place / "sys", CONFIG, None, None)
    try:
        process.until_ready()
        yield process
    finally:
        process.popen.kill()
        process.popen.communicate()


def value(agent: Process, metric: str) -> float:
    return values(agent.get("/metrics"), f"fabricmon_gpu_{metric}", "gpu")[("0",)]


def cuda(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.real_gpu.cuda", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_the_link_is_what_nvidia_smi_shows(agent: Process) -> None:
    asked = {
        "pcie_width_lanes": "pcie.link.width.current", "pcie_max_width_lanes": "pcie.link.width.max",
        "pcie_max_generation": "pcie.link.gen.max",
    }  # fmt: skip
    command = ["nvidia-smi", "-i", "0", f"--query-gpu=uuid,{','.join(asked.values())}", "--format=csv,noheader"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip().split(", ")
    page = agent.get("/metrics")
    (labels,) = values(page, "fabricmon_gpu_info", "gpu", "uuid")
    assert labels == ("0", shown[0])
    assert [value(agent, name) for name in asked] == [float(word) for word in shown[1:]]


@pytest.mark.parametrize(("way", "metric", "other"), [
    ("to_gpu", "pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"),
    ("to_host", "pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"),
])  # fmt: skip
def test_traffic_is_that_of_the_copies(agent: Process, way: str, metric: str, other: str) -> None:
    """Ten seconds and more at full speed: the counters of 32 bits would run over a hundred times."""
    size = 600 * GIB
    command = [sys.executable, "-m", "tests.real_gpu.cuda", "copy", way, str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as copies:
        time.sleep(4)
        seen = []
        for _ in range(4):
            time.sleep(1)
            seen.append(value(agent, metric))
        back = value(agent, other)
        assert copies.stdout is not None
        rate = size / float(copies.stdout.read())
    for each in seen:
        assert 0.9 * rate < each < OVERHEAD * rate * 1.1
    assert back < seen[-1] / 4


def test_a_crash_of_a_program_is_counted_as_its_own_fault(agent: Process) -> None:
    before = value(agent, "xid_events_total"), value(agent, "log_xid_application_total")
    assert "cuCtxSynchronize: 700" in cuda("crash").stderr
    time.sleep(3)
    assert (value(agent, "xid_events_total"), value(agent, "last_xid")) == (before[0] + 1, 31)
    assert value(agent, "log_xid_application_total") == before[1] + 1


def test_a_healthy_machine_has_no_symptom(agent: Process) -> None:
    """Whatever board its GPUs belong to."""
    time.sleep(8)
    health = agent.health()
    assert [symptom["title"] for symptom in health["symptoms"]] == []
    assert "nvlink" in {each["technology"] for each in health["checked"]}
    assert health["status"] == "pass"
