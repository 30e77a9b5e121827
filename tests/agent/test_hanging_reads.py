"""A read that hangs for ever, of each collector in turn: the others keep their pace and the agent its answers."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fabricmon.agent.app import Agent
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.readings.status import SEARCH
from fabricmon.agent.settings import AgentConfig
from fabricmon.collect import COLLECTORS
from fabricmon.host.live import LiveHost
from fabricmon.units import Duration
from tests.agent.fakes import until
from tests.collect.nodes import build_dgx
from tests.rigs.daemons import free_port

PERIOD = 0.4
WINDOW = 2.4
STOP = 5.0
"""Seconds from SIGTERM to the end of the process that are promised."""


class Hanging:
    """A host whose every answer waits from `armed` on until `gate` is set."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self.armed = threading.Event()
        self.gate = threading.Event()
        self.waiting = threading.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._host, name)
        if not callable(found):
            self._wait()
            return found

        def ask(*args: Any, **more: Any) -> Any:
            self._wait()
            return found(*args, **more)

        return ask

    def _wait(self) -> None:
        if self.armed.is_set():
            self.waiting.set()
            self.gate.wait()


class OnHost:
    """A collector that reads another host than the agent's."""

    def __init__(self, module: Any, host: Any) -> None:
        self._module, self._host = module, host
        self.name, self.config, self.wide = module.name, module.config, module.wide

    def open(self, _host: Any, config: Any) -> Any:
        return self._module.open(self._host, config)


def quick(module: Any) -> Any:
    return module.config(
        enabled=True, interval=Duration(PERIOD), deadline=Duration(5), rediscover=Duration(PERIOD)
    )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    build_dgx(tmp_path, adapters=2, gpus=2)
    return tmp_path


@pytest.fixture
def hanging(tree: Path) -> Iterator[Hanging]:
    host = Hanging(LiveHost(str(tree), str(tree / "proc")))
    yield host
    host.gate.set()  # let the threads go


@pytest.mark.parametrize("name", COLLECTORS)
async def test_the_others_keep_their_pace(name: str, tree: Path, hanging: Hanging) -> None:
    collectors = {n: OnHost(m, hanging) if n == name else m for n, m in COLLECTORS.items()}
    settings = NodeSettings(
        AgentConfig(listen=("127.0.0.1:0",), evaluate=False), {n: quick(m) for n, m in COLLECTORS.items()}, {}
    )
    agent = Agent(settings, LiveHost(str(tree), str(tree / "proc")), collectors)
    task = asyncio.create_task(agent.run())
    try:
        await until(agent.listening.is_set, 30)
        board = agent.node.schedule.board
        await until(board.first_round.is_set, 30)
        hanging.armed.set()
        await until(hanging.waiting.is_set, 30)
        before = {key: status.runs for key, status in board.status.items()}
        answers = await scrapes(f"http://{agent.addresses[0]}/metrics", WINDOW)
        moved = {key: board.status[key].runs - runs for key, runs in before.items() if key in board.status}
        others = {key: runs for key, runs in moved.items() if key[0] != name and key[1] != SEARCH}
        print(f"{name} hangs: /metrics median {1000 * statistics.median(answers):.1f} ms, worst "
              f"{1000 * max(answers):.1f} ms of {len(answers)}; runs of {len(others)} others in {WINDOW} s: "
              f"{min(others.values())} to {max(others.values())}")  # fmt: skip
        assert len({key[0] for key in others}) >= 5
        # on a busy machine half of the rounds may be late; a collector that is held up makes none
        assert min(others.values()) >= WINDOW / PERIOD / 3, others
        assert statistics.median(answers) < 0.5
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def scrapes(url: str, seconds: float) -> list[float]:
    """How long each answer took, one after the other every 100 ms."""
    took = []
    async with aiohttp.ClientSession() as session:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            started = time.monotonic()
            async with session.get(url) as answer:
                assert answer.status == 200
                assert b"fabricmon_collector_success" in await answer.read()
            took.append(time.monotonic() - started)
            await asyncio.sleep(0.1)
    return took


_PROCESS = """
import asyncio, sys
import fabricmon.collect as collect
from fabricmon.agent import app
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig
from fabricmon.host.live import LiveHost
from tests.agent.test_hanging_reads import Hanging, OnHost, quick

tree, name, address = sys.argv[1:]
host = LiveHost(tree, tree + "/proc")
hanging = Hanging(host)
hanging.armed.set()
modules = dict(collect.COLLECTORS)
collect.COLLECTORS.update({n: OnHost(m, hanging) for n, m in modules.items() if name in (n, "all")})
settings = NodeSettings(AgentConfig(listen=(address,), evaluate=False), {n: quick(m) for n, m in modules.items()}, {})
asyncio.run(app.run(settings, host))
"""


@pytest.mark.parametrize("name", ["infiniband", "gpu", "all"])
async def test_the_process_ends_in_time_on_sigterm(name: str, tree: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [sys.executable, "-c", _PROCESS, str(tree), name, address], cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(600):
                try:
                    async with session.get(f"http://{address}/-/live") as answer:
                        await answer.read()
                        break
                except aiohttp.ClientError:
                    assert process.poll() is None, process.communicate()[1]
                    await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        answers = await scrapes(f"http://{address}/metrics", 0.5)
        started = time.monotonic()
        process.terminate()
        _, err = await asyncio.to_thread(process.communicate, timeout=60)
        took = time.monotonic() - started
    finally:
        process.kill()
    print(f"{name} hangs: /metrics {1000 * statistics.median(answers):.1f} ms, ended {took:.2f} s after SIGTERM")
    assert process.returncode == 0, err
    # the limit is the agent's own and its exit code tells that it was kept; a stalled machine may add to it
    assert took < 4 * STOP
