"""Agents on captured machines: every readable counter file is on the page, with its value, in base units.

Compared with the raw files by their names in the HELP lines, without a look at the catalogue or a collector.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fabricmon.agent.app import Agent
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig
from fabricmon.host.live import LiveHost
from fabricmon.runtime.exposition import Format
from tests.agent.fakes import until
from tests.conftest import shared

FOUR_BYTE_WORDS = re.compile(r"port_(xmit|rcv)_data(_64)?")
TREES = {
    "connectx3-two-ports": "captures/ib-connectx3-dual-port/sys",
    "h100-ndr": "captures/ib-h100-ndr/sys-class-infiniband",
}


@pytest.fixture(params=TREES)
def sysfs(request: pytest.FixtureRequest, require: Callable[[str], object], tmp_path: Path) -> Iterator[Path]:
    require("captures")
    captured = shared() / TREES[request.param]
    if captured.name == "sys":
        yield captured
        return
    (tmp_path / "class").mkdir()
    (tmp_path / "class/infiniband").symlink_to(captured)
    yield tmp_path


def raw_files(sysfs: Path) -> dict[tuple[str, str, str], float]:
    """(device, port, file) -> number, of every counter file that holds a number that can be one."""
    found = {}
    for path in (sysfs / "class/infiniband").glob("*/ports/*/*counters*/*"):
        text = path.read_text().strip()
        if path.name != "lifespan" and text.isdigit() and int(text) != 2**64 - 1:
            device, _, port, _, file = path.parts[-5:]
            found[(device, port, file)] = float(text) * (4 if FOUR_BYTE_WORDS.fullmatch(file) else 1)
    return found


def exported(page: str) -> dict[tuple[str, str, str], float]:
    """(device, port, file) -> value: the files are those that a family's HELP names as its source."""
    found = {}
    for family in text_string_to_metric_families(page):
        files = re.split(r",?\s+", family.documentation.partition("Source: ")[2])
        for sample in family.samples:
            if "port" in sample.labels:
                for file in [sample.labels["file"]] if "file" in sample.labels else files:
                    found[(sample.labels["device"], sample.labels["port"], file)] = sample.value
    return found


async def test_every_counter_file_is_exported_with_its_value(sysfs: Path) -> None:
    import asyncio

    agent = Agent(NodeSettings(AgentConfig(listen=("127.0.0.1:0",), evaluate=False), {}, {}), LiveHost(str(sysfs)))
    task = asyncio.create_task(agent.run())
    await agent.listening.wait()
    await until(agent.node.schedule.board.first_round.is_set, 60)
    page = b"".join(agent.api.metrics(Format.TEXT)).decode()
    raw, got = raw_files(sysfs), exported(page)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert raw, "the capture holds no counters"
    missing = {key: value for key, value in raw.items() if key not in got}
    wrong = {key: (value, got[key]) for key, value in raw.items() if key in got and got[key] != value}
    assert (missing, wrong) == ({}, {})


def test_check_answers_on_a_captured_machine(sysfs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fabricmon.cli", "check", "--direct", "--path.sysfs", str(sysfs)],
        capture_output=True, text=True, timeout=100, check=False,
    )
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    assert done.stdout.split()[0] in ("OK", "WARNING", "CRITICAL")
    assert done.stderr == ""
