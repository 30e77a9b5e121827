"""What the agent says of itself to the service manager."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from fabricmon.agent.readings.report import Health
from tests.agent.fakes import FakeCollector, FakeSession, Running

LIMIT = 60.0


async def test_an_error_in_its_own_status_does_not_end_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        running = Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")))
        health, failing = running.agent._health, [True]

        def sometimes() -> Health:
            if failing[0]:
                raise RuntimeError("odd value")
            return health()

        running.agent._health = sometimes  # type: ignore[method-assign]
        received: list[str] = []

        async def hear(words: str) -> None:
            async with asyncio.timeout(LIMIT):
                while words not in "".join(received):
                    received.append((await asyncio.get_running_loop().sock_recv(manager, 4096)).decode() + "\n")

        async with running:
            await hear("STATUS=status not known: RuntimeError: odd value")
            failing[0] = False
            await hear("1 rows")
            assert not running._task.done()
