"""The agent put together: a node that is read and judged, and its face to the network, in one TaskGroup."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Mapping
from typing import Any

from fabricmon import __version__
from fabricmon.agent.api import Api
from fabricmon.agent.judge import TICK
from fabricmon.agent.node import Node, identify
from fabricmon.agent.settings import AgentConfig
from fabricmon.host.protocol import Host
from fabricmon.runtime import logs
from fabricmon.runtime.http import Address, listen
from fabricmon.runtime.sdnotify import Notifier

STOP_LIMIT = 4.0
"""Seconds after a signal by which the process ends, whatever still hangs."""


class Agent:
    """One node's agent on one host; several may live in one process.

    config      has `agent`, `collect` and `rules` (fabricmon.config.Root, or fabricmon.agent.node.Settings)
    collectors  the table of the package unless a test has another
    listening   set once the agent serves on `addresses`, with `node` and `api` made
    """

    def __init__(self, config: Any, host: Host, collectors: Mapping[str, Any] | None = None) -> None:
        self._config, self._host, self._collectors = config, host, collectors
        self._log = logs.get()
        self._notify = Notifier()
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self.node: Node
        self.api: Api

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be had."""
        settings: AgentConfig = self._config.agent
        identity = await identify(self._host, settings.node or self._host.name)
        self.node = node = Node(self._config, self._host, identity, self._collectors, lambda: self.api.wake())
        self.api = Api(
            node.state, settings.max_streams, self._host.monotonic, node.families, node.health,
            node.schedule.board.first_round, node.not_ready, node.not_live,
        )
        listener = await listen(self.api.app, settings.listen)
        self.addresses = listener.addresses
        self._log.info("agent listens", node=identity.node, version=__version__,
                       addresses=", ".join(map(str, self.addresses)))
        self.listening.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(node.schedule.run(), name="schedule")
                group.create_task(self._report_ready(), name="ready")
                if settings.judge:
                    group.create_task(self._tick(), name="judge")
                if self._notify.watchdog:
                    group.create_task(self._watchdog(self._notify.watchdog), name="watchdog")
        finally:
            self._notify.stopping("stopping")
            await listener.close()

    async def _tick(self) -> None:
        await self.node.schedule.board.first_round.wait()
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self.node.tick()
            await asyncio.sleep(max(0.0, started + TICK - loop.time()))

    async def _report_ready(self) -> None:
        await self.node.schedule.board.first_round.wait()
        inventory = self.node.state.inventory
        rows = {(part.kind, c.name) for part in inventory.parts for c in part.components}
        self._log.info("first round done", rows=len(rows), values=inventory.size)
        # A node on which nothing can be read is ready too: its agent has that to tell, and a service manager
        # that killed it for being late would silence it.
        self._notify.ready(self.node.not_ready() or f"{len(rows)} rows, {inventory.size} values")

    async def _watchdog(self, period: float) -> None:
        """WATCHDOG only while collectors move: a loop that spins over dead collectors must not look alive."""
        while True:
            if self.node.schedule.moved(time.monotonic()):
                self._notify.alive()
            await asyncio.sleep(period)


async def run(config: Any, host: Host) -> None:
    """Run an agent until SIGTERM or SIGINT; returns within STOP_LIMIT of it even if a read hangs for ever."""
    loop = asyncio.get_running_loop()
    one = Agent(config, host)
    agent = asyncio.create_task(one.run())
    settling = asyncio.create_task(_settled(one))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait({agent, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    settling.cancel()
    if not agent.done():
        logs.get().info("agent stops")
        agent.cancel()
        await asyncio.wait({agent}, timeout=STOP_LIMIT)
    if agent.done() and not agent.cancelled():
        agent.result()


async def _settled(agent: Agent) -> None:
    """What stands after the first round stands as long as the process: the garbage collector need not walk it again."""
    await agent.listening.wait()
    await agent.node.schedule.board.first_round.wait()
    gc.collect()
    gc.freeze()
