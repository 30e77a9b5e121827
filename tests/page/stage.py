"""A real server with its page on a simulated fabric; the engine is fed in bulk, so that ten thousand nodes fit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fabricmon import config
from fabricmon.central.app import Central
from fabricmon.runtime import logs
from fabricmon.sim.inlet import BulkInlet
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault, Script
from fabricmon.sim.shapes import rail_fabric
from fabricmon.sim.world import World


class Stage:
    """`async with Stage(folder, nodes) as stage`: `stage.url` is its page.

    poll  seconds between two readings of all nodes
    past  seconds of the fabric that the server has evaluated when the page opens, at one reading each 10 s

    `then`: faults that came meanwhile, by how many seconds before it opens.
    """

    def __init__(
        self, folder: Path, nodes: int = 64, poll: float = 1.0, past: float = 0.0, **central: Any
    ) -> None:
        logs.configure(level="error")
        self.layout = Layout.from_graph(rail_fabric(nodes=nodes, unit=min(32, nodes // 2)), storage=0)
        self.world = World(self.layout, 1, 10.0, steady=0.45)
        self._inlet, self._poll, self._past = BulkInlet(self.world), poll, past
        self._scripts: list[Script] = []
        self.then: dict[float, list[InjectedFault]] = {}
        settings = {"listen": ["127.0.0.1:0"], "state": str(folder / "state"), "fabric": "aurora", **central}
        self.central = Central(config.load(None, {f"central.{name}": value for name, value in settings.items()}))
        self.central.engine.reconfigure({}, self.layout.graph, time.time())
        self._tasks: list[asyncio.Task[None]] = []
        self.url = ""

    async def __aenter__(self) -> Stage:
        self.live_through()
        await self.serve()
        self._tasks.append(asyncio.create_task(self._feed()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert not self.central.engine.failures(), self.central.engine.failures()

    async def serve(self) -> None:
        """Start the server; returns when it listens."""
        task = asyncio.create_task(self.central.run())
        self._tasks.append(task)
        waiting = asyncio.create_task(self.central.listening.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        self.url = f"http://127.0.0.1:{self.central.addresses[0].port}/"

    def strike(self, faults: Iterable[InjectedFault]) -> None:
        """Faults whose second 0 is now."""
        self._scripts.append(Script(faults, self.world.now))

    def live_through(self) -> None:
        """The hours before the page is opened, evaluated and stored by the server."""
        now = self.central.evaluator.now
        begin, step = now() - self._past, 10.0
        for at in range(int(self._past / step)):
            wall = begin + at * step
            for ago in [ago for ago in self.then if wall >= begin + self._past - ago]:
                self.strike(self.then.pop(ago))
            self._read(self.world.now + step, wall)
            self.central.engine.tick(wall)
            self.central.history.record(wall)
        self._read(self.world.now + self._poll, now())

    def _read(self, until: float, wall: float) -> None:
        for script in self._scripts:
            script.play(self.world, until)
        self.world.advance(until)
        self._inlet.poll(self.central.engine, wall)

    async def _feed(self) -> None:
        while True:
            began = time.monotonic()
            self._read(self.world.now + self._poll, self.central.evaluator.now())
            await asyncio.sleep(max(0.05, self._poll - (time.monotonic() - began)))
