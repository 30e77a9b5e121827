"""A real `fabricmon agent` process: it serves, reports to systemd, and ends on SIGTERM even while a read hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.host.trees import build_hca_tree

LIMIT = 60.0


class Process:
    """An agent on a tree of files, with its answers."""

    def __init__(self, tree: Path, config: str, environ: dict[str, str] | None, command: list[str] | None) -> None:
        file = tree.parent / "fabricmon.yaml"
        file.write_text(config)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        command = command or [
            sys.executable, "-m", "fabricmon.cli", "agent", "--config", str(file), "--listen", "ADDRESS",
            "--path.sysfs", str(tree), "--node", "host-007",
        ]
        self.popen = subprocess.Popen(
            [word.replace("ADDRESS", self.address) for word in command],
            stderr=subprocess.PIPE, text=True, env={**os.environ, **(environ or {})},
        )

    def get(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address}{path}", timeout=LIMIT) as answer:
            return str(answer.read().decode())

    def until_ready(self) -> None:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError, urllib.error.HTTPError):
                self.get("/-/ready")
                return
            assert self.popen.poll() is None, self.popen.communicate()[1]
            time.sleep(0.1)
        raise AssertionError("the agent did not become ready")

    def stop(self) -> tuple[int, str]:
        self.popen.send_signal(signal.SIGTERM)
        _, err = self.popen.communicate(timeout=LIMIT)
        return self.popen.returncode, err

    def health(self) -> Any:
        return json.loads(self.get("/health"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    build_hca_tree(tmp_path / "sys", devices=3)
    return tmp_path / "sys"


@contextlib.contextmanager
def agent(
    tree: Path, config: str = "", environ: dict[str, str] | None = None, command: list[str] | None = None
) -> Iterator[Process]:
    process = Process(tree, config, environ, command)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.communicate()


def test_it_serves_what_the_files_say_and_stops_on_request(tree: Path) -> None:
    with agent(tree) as process:
        process.until_ready()
        rows = {
            x.labels["device"]: x.value
            for family in text_string_to_metric_families(process.get("/metrics"))
            for x in family.samples if x.name == "fabricmon_port_rcv_bytes_total"
        }
        expected = {
            device: 4.0 * int((tree / f"class/infiniband/{device}/ports/1/counters/port_rcv_data").read_text())
            for device in ("mlx5_0", "mlx5_1", "mlx5_2")
        }
        assert rows == expected
        assert process.health()["status"] == "pass"
        code, err = process.stop()
        assert code == 0
        assert "Traceback" not in err


HANGING = """
import asyncio, threading
from fabricmon.agent import app
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig
from fabricmon.runtime import logs
import fabricmon.collect
from tests.agent.fakes import Config, FakeCollector, FakeHost, FakeSession

logs.configure()
good, bad = FakeSession("mlx5_0"), FakeSession("mlx5_1")
bad.gate.clear()
fabricmon.collect.COLLECTORS = {"fake": FakeCollector(mlx5_0=good, mlx5_1=bad)}
settings = AgentConfig(listen=("%s",), evaluate=False)
asyncio.run(app.run(NodeSettings(settings, {"fake": Config(deadline=0.2)}, {}), FakeHost()))
"""


def test_a_read_that_hangs_for_ever_costs_its_device_only_and_not_the_end(tree: Path) -> None:
    command = [sys.executable, "-c", HANGING % "ADDRESS"]
    with agent(tree, command=command) as process:
        process.until_ready()
        health = process.health()
        assert [c["device"] for c in health["collectors"] if c["stuck_since"]] == ["mlx5_1"]
        page = process.get("/metrics")
        assert 'fabricmon_port_rcv_bytes_total{device="mlx5_0",port="1"} 0' in page
        assert 'fabricmon_port_rcv_bytes_total{device="mlx5_1"' not in page
        assert 'fabricmon_collector_stuck_devices{collector="fake"} 1' in page
        code, err = process.stop()
        assert code == 0, err
        assert "Traceback" not in err
        assert err.count("collector does not answer") == 1, err  # a transition, said once


def test_systemd_hears_ready_the_watchdog_and_the_end(tree: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LIMIT)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        with agent(tree, "agent: {evaluate: false}", environ) as process:
            received = ""
            while "READY=1" not in received or received.count("WATCHDOG=1") < 3:
                received += manager.recv(1000).decode() + "\n"
            assert re.search(r"STATUS=\d+ rows, \d+ values", received), received
            assert process.stop()[0] == 0
            while "STOPPING=1" not in received:
                received += manager.recv(1000).decode() + "\n"


def test_an_address_that_is_taken_is_a_clear_error(tree: Path) -> None:
    with agent(tree) as first:
        first.until_ready()
        second = subprocess.run(
            [sys.executable, "-m", "fabricmon.cli", "agent", "--listen", first.address, "--path.sysfs", str(tree)],
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )
        assert second.returncode == 1
        assert "address already in use" in second.stderr
        assert first.address.split(":")[1] in second.stderr
        assert "Traceback" not in second.stderr


@pytest.mark.parametrize(("words", "said"), [
    (["--listen", "nowhere"], "expected an address such as"),
    (["--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
    (["--host", "/nonexistent.archive"], "/nonexistent.archive"),
])
def test_a_wrong_command_line_starts_nothing(words: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "fabricmon.cli", "agent", *words], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
