"""The agent put together: a node that is read and judged, and its face to the network, in one TaskGroup."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon import __version__
from fabricmon.agent.api import Api
from fabricmon.agent.judge import TICK
from fabricmon.agent.node import Node, identify
from fabricmon.agent.report import Health, sentence
from fabricmon.agent.settings import AgentConfig
from fabricmon.config import ConfigError
from fabricmon.host.protocol import Host
from fabricmon.runtime import logs, reloads
from fabricmon.runtime.address import Address
from fabricmon.runtime.door import Door
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.http import listen
from fabricmon.runtime.reader import Overdue, Reader
from fabricmon.runtime.reloads import Reloads
from fabricmon.runtime.sdnotify import Notifier
from fabricmon.web.settings import WebConfig

if TYPE_CHECKING:
    from fabricmon.web.gate import Gate
    from fabricmon.web.loaded import Loaded
    from fabricmon.web.watched import Watched

STOP_LIMIT = 4.0
"""Seconds after a signal by which the process ends, whatever still hangs."""

RELOAD_LIMIT = 20.0
"""Seconds to read the configuration again; a file on a dead mount takes for ever."""

STATUS_PERIOD = 30.0
"""Seconds between two looks at what the service manager is told of the node, where it watches no watchdog."""

AT_START = ("listen", "node", "path", "exclude", "judge", "max_streams", "max_events")
"""Settings of `agent:` that are read at the start only."""

Reread = Callable[[], Any]


class Agent:
    """One node's agent on one host; several may live in one process.

    config      has `agent`, `collect` and `rules` (fabricmon.config.Root, or fabricmon.agent.node.Settings)
    collectors  the table of the package unless a test has another
    reread      reads the configuration again, for `reload`
    listening   set once the agent serves on `addresses`, with `node` and `api` made
    """

    def __init__(
        self, config: Any, host: Host, collectors: Mapping[str, Any] | None = None, reread: Reread | None = None
    ) -> None:
        self._config, self._host, self._collectors, self._reread = config, host, collectors, reread
        self._reloads = Reloads(succeeded=time.time())
        self._warnings: tuple[str, ...] = ()
        self._log = logs.get()
        self._notify = Notifier()
        self._gate = _gate(config.agent.web)
        self._door = self._gate.door if self._gate is not None else Door()
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
            node.state, settings.max_streams, self._host.monotonic, self._families, self._health,
            node.schedule.board.first_round, node.not_ready, node.not_live,
        )
        if self._gate is not None:
            self._gate.guard(self.api.app)
        listener = await listen(self.api.app, settings.listen, door=self._door)
        self.addresses = listener.addresses
        self._log.info("agent listens", node=identity.node, version=__version__,
                       addresses=", ".join(map(str, self.addresses)))
        self.listening.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(node.schedule.run(), name="schedule")
                group.create_task(self._report_ready(), name="ready")
                if self._gate is not None:
                    group.create_task(self._gate.run(), name="gate")
                if settings.judge:
                    group.create_task(self._tick(), name="judge")
                if self._notify.listened_to:
                    group.create_task(self._tell(), name="service manager")
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
        rows, values = self._extent()
        self._log.info("first round done", rows=rows, values=values)
        # A node on which nothing can be read is ready too: its agent has that to tell, and a service manager
        # that killed it for being late would silence it.
        self._notify.ready(self._sentence())

    async def _tell(self) -> None:
        """Keep the service manager told: STATUS, and WATCHDOG only while collectors move, for a loop that spins over
        dead collectors must not look alive."""
        await self.node.schedule.board.first_round.wait()
        while True:
            if self.node.schedule.moved(time.monotonic()):
                self._notify.alive()
            self._notify.status(self._sentence())
            await asyncio.sleep(self._notify.watchdog or STATUS_PERIOD)

    def _extent(self) -> tuple[int, int]:
        """Rows and values of this node."""
        inventory = self.node.state.inventory
        return len({(part.kind, c.name) for part in inventory.parts for c in part.components}), inventory.size

    def _sentence(self) -> str:
        return sentence(self._health(), *self._extent())

    def _health(self) -> Health:
        told = self._gate.warnings() if self._gate is not None else ()
        return msgspec.structs.replace(self.node.health(), warnings=(*self._warnings, *told))

    def _families(self) -> Iterable[Family]:
        yield from self.node.families()
        yield from reloads.families(self._reloads, "fabricmon_agent")
        yield from self._gate.families() if self._gate is not None else self._door.families()

    def _read_again(self) -> tuple[Any, Watched[Loaded] | None]:
        assert self._reread is not None
        config = self._reread()
        return config, self._gate.prepare(config.agent.web) if self._gate is not None else None

    async def reload(self) -> None:
        """Read the configuration again: limits of the rules, settings of collectors, the log. A bad one changes
        nothing; what is read at the start only is named."""
        if self._reread is None:
            return
        self._notify.reloading(time.monotonic_ns() // 1000)
        self._reloads.count += 1
        reader = Reader("reload")
        try:
            config, web = await reader.call(self._read_again, RELOAD_LIMIT)
            anew = self.node.reconfigure(config)
            if self._gate is not None and web is not None:
                self._gate.take(web, config.agent.web)
        except (ConfigError, Overdue, ValueError) as error:
            self._reloads.refused()
            self._warnings = (f"the configuration was refused, the one before is in use: {error}",)
            self._log.error("configuration refused; the one before stays in use", problems=str(error))
        else:
            self._reloads.accepted(time.time())
            late = [name for name in AT_START if getattr(config.agent, name) != getattr(self._config.agent, name)]
            if self._gate is None and config.agent.web != WebConfig():
                late.append("web")
            self._warnings = tuple(f"agent.{name} takes effect at the next start" for name in late)
            logs.configure(config.log.format, config.log.level)
            self._log.info("configuration read again", collectors_anew=",".join(anew) or "none")
            for name in late:
                self._log.warning("takes effect at the next start only", setting=f"agent.{name}")
        finally:
            reader.close()
        self._notify.ready(self._sentence())


def _gate(web: WebConfig) -> Gate | None:
    """The security of the listener; None where the settings ask for none, and then nothing of it is even imported."""
    if web == WebConfig():
        return None
    from fabricmon.web.gate import Gate

    return Gate(web, "agent")


async def run(config: Any, host: Host, reread: Reread | None = None) -> None:
    """Run an agent until SIGTERM or SIGINT; returns within STOP_LIMIT of it even if a read hangs for ever.

    SIGHUP reads the configuration again by `reread`.
    """
    loop = asyncio.get_running_loop()
    one = Agent(config, host, reread=reread)
    agent = asyncio.create_task(one.run())
    settling = asyncio.create_task(_settled(one))
    stop, again = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    waiting, reloading = asyncio.create_task(stop.wait()), asyncio.create_task(_reloads(one, again))
    await asyncio.wait({agent, waiting, reloading}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    reloading.cancel()
    settling.cancel()
    if not agent.done():
        logs.get().info("agent stops")
        agent.cancel()
        await asyncio.wait({agent}, timeout=STOP_LIMIT)
    if agent.done() and not agent.cancelled():
        agent.result()


async def _reloads(agent: Agent, again: asyncio.Event) -> None:
    """Reload whenever asked, one after the other; what is asked for meanwhile is one more."""
    await agent.listening.wait()
    while True:
        await again.wait()
        again.clear()
        await agent.reload()


async def _settled(agent: Agent) -> None:
    """What stands after the first round stands as long as the process: the garbage collector need not walk it again."""
    await agent.listening.wait()
    await agent.node.schedule.board.first_round.wait()
    gc.collect()
    gc.freeze()
