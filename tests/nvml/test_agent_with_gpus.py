"""A real agent process over the stand-in: one GPU's driver call hangs for ever, everything else goes on."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.agent.test_process import LIMIT, Process

CONFIG = """
collect:
  gpu: {interval: 1s, deadline: 1s}
  nvlink: {interval: 1s, deadline: 1s}
"""


def values(page: str, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.get(label, "") for label in labels): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == metric
    }


def test_a_gpu_that_hangs_costs_itself_only(library: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text("class h100\n")
    environ = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": str(plan)}
    (tmp_path / "sys").symlink_to("/sys")  # NVML is asked only of the machine that sysfs is of
    process = Process(tmp_path / "sys", CONFIG, environ, None)
    try:
        process.until_ready()
        page = process.get("/metrics")
        states = values(page, "fabricmon_nvlink_state", "gpu", "link")
        assert len(states) == 8 * 18
        assert values(page, "fabricmon_gpu_nvlinks_active", "gpu") == {(str(n),): 18.0 for n in range(8)}
        plan.write_text("class h100\nhang nvmlDeviceGetFieldValues 2\nvalue 3 163 7 12345\n")
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            page = process.get("/metrics")
            stuck = {(c["collector"], c["device"]) for c in process.health()["collectors"] if c["stuck_since"]}
            crc = values(page, "fabricmon_nvlink_crc_errors_total", "gpu", "link").get(("3", "7"))
            if len(stuck) == 2 and crc == 12345:
                break
            time.sleep(0.2)
        assert stuck == {("nvlink", "gpu2"), ("gpu", "gpu2")}
        assert crc == 12345
        code, err = process.stop()
        assert code == 0
        assert "Traceback" not in err
    finally:
        process.popen.kill()
        process.popen.communicate()
