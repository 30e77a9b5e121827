"""The agent: a node that is read and evaluated, and its HTTP listener, in one TaskGroup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon import __version__
from fabricmon.agent.api import AgentApi
from fabricmon.agent.node import LocalNode, identify
from fabricmon.agent.readings.evaluation import LONGEST_TICK
from fabricmon.agent.readings.report import Health, sentence
from fabricmon.agent.settings import AgentConfig
from fabricmon.config import ConfigError
from fabricmon.host.protocol import Host
from fabricmon.runtime import logs
from fabricmon.runtime.address import Address
from fabricmon.runtime.buckets import Buckets
from fabricmon.runtime.daemon import serve
from fabricmon.runtime.descriptors import DescriptorReserve
from fabricmon.runtime.door import Door
from fabricmon.runtime.exposition import ComputedFamilies
from fabricmon.runtime.garbage import settle
from fabricmon.runtime.http import listen
from fabricmon.runtime.reader import Overdue, Reader
from fabricmon.runtime.registry import process_registry
from fabricmon.runtime.reloads import Reloads
from fabricmon.runtime.sdnotify import Notifier
from fabricmon.runtime.supervise import keep
from fabricmon.web.settings import WebConfig

if TYPE_CHECKING:
    from fabricmon.agent.probing.prober import Prober
    from fabricmon.web.gate import Gate
    from fabricmon.web.loaded import Loaded
    from fabricmon.web.watched import Watched

STOP_LIMIT = 4.0
"""Seconds after a signal by which the process ends, even if a read hangs."""

RELOAD_LIMIT = 20.0
"""Seconds to read the configuration again; a file on a dead mount never returns."""

INBOUND_RATE, INBOUND_BURST = 8192.0, 131072.0
"""Bytes a second, and at once, that one peer may send. A server's stream sends 1 byte a second, a scrape 500 bytes; a
peer that floods an agent with pings costs it about a tenth of a core, most of it for refused connections."""

STATUS_PERIOD = 30.0
"""Seconds between two STATUS messages to a service manager without a watchdog."""

AT_START = ("listen", "node", "path", "exclude", "evaluate", "max_streams", "max_events", "probe")
"""Settings of `agent:` that are read at the start only."""

Reread = Callable[[], Any]


class Agent:
    """The agent of one node; several may run in one process.

    config      has `agent`, `collect` and `rules` (fabricmon.config.Root, or fabricmon.agent.node.Settings)
    collectors  COLLECTORS unless a test has others
    reread      reads the configuration again, for `reload`
    registry    the agent's own metrics
    listening   set once the agent serves on `addresses`, with `node` and `api` made
    """

    def __init__(
        self, config: Any, host: Host, collectors: Mapping[str, Any] | None = None, reread: Reread | None = None
    ) -> None:
        self._config, self._host, self._collectors, self._reread = config, host, collectors, reread
        self.registry = process_registry("agent")
        self._reloads = Reloads("fabricmon_agent", self.registry, time.time())
        self._warnings: tuple[str, ...] = ()
        self._log = logs.get()
        self._transitions = logs.Transitions(self._log)
        self._notify = Notifier()
        self._gate = _gate(config.agent.web)
        self._door = self._gate.door if self._gate is not None else Door()
        self._descriptors = self._door.reserve = DescriptorReserve()
        self._door.inbound = Buckets(INBOUND_RATE, INBOUND_BURST)
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self.node: LocalNode
        self.api: AgentApi

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be had."""
        settings: AgentConfig = self._config.agent
        asyncio.get_running_loop().set_exception_handler(self._descriptors.refused)
        identity = await identify(self._host, settings.node or self._host.name)
        self.node = node = LocalNode(
            self._config, self._host, identity, self._collectors, lambda urgent: self.api.wake(urgent)
        )  # fmt: skip
        self.registry.register(ComputedFamilies(node.families))
        self.registry.register(ComputedFamilies((self._gate or self._door).families))
        self._prober = self._make_prober(settings)
        self.api = AgentApi(
            node.state, settings.max_streams, self._host.monotonic, self.registry,
            self._health, node.schedule.board.first_round, node.not_ready, node.not_live, self._prober,
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
                group.create_task(self._descriptors.watch(), name="descriptors")
                if self._gate is not None:
                    group.create_task(self._gate.run(), name="gate")
                if settings.evaluate:
                    group.create_task(self._tick(), name="evaluation")
                if self._notify.enabled:
                    group.create_task(self._report_status(), name="service manager")
                if self._prober is not None:
                    group.create_task(keep(self._prober.run, self._probing_failed), name="probing")
        finally:
            self._notify.stopping("stopping")
            await listener.close()
            self._descriptors.close()

    def _make_prober(self, settings: AgentConfig) -> Prober | None:
        """The task that probes; None, without its imports, where `agent.probe` is off."""
        if not settings.probe.enabled:
            return None
        from fabricmon.agent.probing.prober import Prober

        node, host = self.node, self._host
        made = Prober(
            settings.probe, lambda: node.state.snapshot, lambda found: node.reading(("flow", ""), found, False),
            host.monotonic,
        )  # fmt: skip
        self.registry.register(ComputedFamilies(made.families))
        return made

    def _probing_failed(self, error: Exception) -> None:
        self._transitions.note("probing", str(error), "probing failed and starts again", bad=True, exc_info=error)

    async def _tick(self) -> None:
        """Evaluate with a reading: a timer of its own would be one more wake-up of the process a second."""
        await self.node.schedule.board.first_round.wait()
        while True:
            self.node.tick()
            await self.node.due.wait(LONGEST_TICK)

    async def _report_ready(self) -> None:
        await self.node.schedule.board.first_round.wait()
        rows, values = self._extent()
        self._log.info("first round done", rows=rows, values=values)
        # also where nothing can be read: the agent has to run to report that
        self._notify.ready(self._sentence())

    async def _report_status(self) -> None:
        """Send STATUS to the service manager, and WATCHDOG only while collectors finish runs."""
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
        """One line for the service manager. An error in it must not end the agent."""
        try:
            found, why = sentence(self._health(), *self._extent()), ""
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            found = f"status not known: {why}"
        self._transitions.note("status", why, "status cannot be reported" if why else "status is reported again",
                               bad=bool(why), error=why)  # fmt: skip
        return found

    def _health(self) -> Health:
        more = self._gate.warnings() if self._gate is not None else ()
        warnings = (*self._warnings, *more, *self._descriptors.warnings())
        return msgspec.structs.replace(self.node.health(), warnings=warnings)

    def _read_again(self) -> tuple[Any, Watched[Loaded] | None]:
        assert self._reread is not None
        config = self._reread()
        return config, self._gate.prepare(config.agent.web) if self._gate is not None else None

    async def reload(self) -> None:
        """Reload the configuration: limits of rules, settings of collectors, the log. An invalid file changes nothing;
        changed settings that need a restart are logged."""
        if self._reread is None:
            return
        self._notify.reloading(time.monotonic_ns() // 1000)
        self._reloads.begun()
        reader = Reader("reload")
        try:
            config, web = await reader.call(self._read_again, RELOAD_LIMIT)
            anew = self.node.reconfigure(config)
            if self._gate is not None and web is not None:
                self._gate.adopt(web, config.agent.web)
        except (ConfigError, Overdue, ValueError) as error:
            self._reloads.refused()
            self._warnings = (f"configuration rejected, the previous one stays in use: {error}",)
            self._log.error("configuration rejected; the previous one stays in use", problems=str(error))
        else:
            self._reloads.accepted(time.time())
            late = [name for name in AT_START if getattr(config.agent, name) != getattr(self._config.agent, name)]
            if self._gate is None and config.agent.web != WebConfig():
                late.append("web")
            self._warnings = tuple(f"agent.{name} takes effect at the next start" for name in late)
            logs.configure(config.log.format, config.log.level)
            self._log.info("configuration reloaded", collectors_anew=",".join(anew) or "none")
            for name in late:
                self._log.warning("takes effect at the next start only", setting=f"agent.{name}")
        finally:
            reader.close()
        self._notify.ready(self._sentence())

    def stopping(self) -> None:
        logs.get().info("agent stops")


def _gate(web: WebConfig) -> Gate | None:
    """The security of the listener; None, without its import, where the settings have none."""
    if web == WebConfig():
        return None
    from fabricmon.web.gate import Gate

    return Gate(web, "agent")


async def run(config: Any, host: Host, reread: Reread | None = None) -> None:
    """Run an agent until SIGTERM or SIGINT; returns within STOP_LIMIT even if a read hangs. SIGHUP: see `reload`."""
    agent = Agent(config, host, reread=reread)
    await serve(agent, STOP_LIMIT, _settled(agent))


async def _settled(agent: Agent) -> None:
    """Exclude the objects that exist after the first round from garbage collection."""
    await agent.listening.wait()
    await agent.node.schedule.board.first_round.wait()
    settle()
