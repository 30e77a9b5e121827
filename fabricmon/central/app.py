"""The central server: it evaluates, serves and reloads until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib

from fabricmon import __version__
from fabricmon.central.api.doctor import handler as doctor_handler
from fabricmon.central.api.targets import handler as targets_handler
from fabricmon.central.evaluation.pace import TickPace
from fabricmon.central.http_application import HttpApplication
from fabricmon.central.node_places import NodePlaces
from fabricmon.central.parts import CentralParts
from fabricmon.central.reload import ConfigurationReload, Reread
from fabricmon.config import Root
from fabricmon.runtime.address import Address
from fabricmon.runtime.daemon import serve
from fabricmon.runtime.garbage import settle
from fabricmon.runtime.http import listen

STOP_LIMIT = 10.0  # seconds after a signal by which the process ends
STALLED = 30.0  # seconds without a tick after which /-/live fails


class Central(CentralParts):
    """The central server. The constructor checks configuration and state; `run` serves until cancelled.

    listening  set when the listener is open, on `addresses`
    """

    def __init__(self, config: Root, reread: Reread | None = None) -> None:
        """`reread` reads the configuration for `reload`. Raises ConfigError and StoreError."""
        super().__init__(config)
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self._reload = ConfigurationReload(self, reread)
        self._node_places = NodePlaces(self)

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be bound."""
        web = self._web()
        asyncio.get_running_loop().set_exception_handler(self.descriptors.refused)
        self.gate.guard(web.app)
        try:
            listener = await listen(web.app, self.prepared.settings.listen, door=self.gate.door)
        except BaseException:
            self.close()
            raise
        self.addresses = listener.addresses
        self.log.info("server listening", version=__version__, addresses=", ".join(map(str, self.addresses)))
        settle()
        try:
            async with asyncio.TaskGroup() as group:
                self._start_tasks(group)
                self.discovery.start()
                self.listening.set()
        finally:
            self.notify.stopping("stopping")
            self.discovery.stop()
            await listener.close()
            self.close()

    def _web(self) -> HttpApplication:
        return HttpApplication(
            self.evaluator,
            self.warnings,
            self.registry,
            self._not_live,
            self._not_ready,
            self.jobs.jobs,
            lambda: self.prepared.settings.as_links(),
            self.gate.access,
            self.history,
            targets_handler(
                self.pull.register.peers.values, lambda peer: self.agent_links.encrypts(peer.target.scheme)
            ),
            doctor_handler(
                self.evaluator, lambda: self.prepared.targets, lambda: self.discovery, self.jobs, self.clock,
                self.prepared.settings.state, lambda: self.prepared.settings.tick, self.warnings,
            ),
        )  # fmt: skip

    def _start_tasks(self, group: asyncio.TaskGroup) -> None:
        tasks = {
            "tick": self._tick(),
            "outbox": self.outbox.run(),
            "actors": self.actors.run(),
            "pull": self.pull.run(),
            "probing": self.probing.run(),
            "gate": self.gate.run(),
            "link": self.agent_links.run(),
            "jobs": self.jobs.run(),
            "history": self.history.run(),
            "remember": self._node_places.remember(),
            "placement": self._node_places.follow(),
            "state disk": self.store.watch(),
            "descriptors": self.descriptors.watch(),
        }
        if self.rule_evaluator is not None:
            tasks["rule evaluator"] = self.rule_evaluator.run()
        if self.notify.watchdog:
            tasks["watchdog"] = self._watchdog(self.notify.watchdog)
        for name, task in tasks.items():
            group.create_task(task, name=name)

    async def _tick(self) -> None:
        clock, pace, asked = asyncio.get_running_loop().time, TickPace(), asyncio.Event()

        def ask() -> None:
            if pace.ask(clock()):
                asked.set()

        self.pull.reader.urgent = ask
        while True:
            try:
                await self._wait(pace, asked)
                pace.begin(clock())
                self.pull.land()  # no work of this tick: it grows with the time, and not with the ticks
                pace.end(clock(), await self.evaluator.tick())
            except Exception as error:  # `_not_live` reports it where it lasts
                pace.fail(clock())
                why = f"{type(error).__name__}: {error}"
                self.transitions.note("tick", why, "evaluation failed and is tried again", bad=True, error=why)
            if self.evaluator.ticks.count == 1:
                self.notify.ready(self.sentence())

    async def _wait(self, pace: TickPace, asked: asyncio.Event) -> None:
        """Until the next tick is due. `asked`: set where an event asks for it."""
        clock = asyncio.get_running_loop().time
        while (wait := pace.due(self.prepared.settings.tick) - clock()) > 0:
            asked.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await asked.wait()
                    self.pull.land()  # while what belongs to the event still comes: little is left for the tick

    async def _watchdog(self, period: float) -> None:
        """Notify systemd while the fleet is evaluated."""
        while True:
            if self._not_live() is None:
                self.notify.alive()
                self.notify.status(self.sentence())
            await asyncio.sleep(period)

    async def reload(self) -> None:
        """Apply the configuration as it is now: rules, topology, targets, receivers. An invalid one changes nothing."""
        await self._reload.run()

    # ---------------------------------------------------------------- answers

    def _not_ready(self) -> str | None:
        if not self.evaluator.ticks.count:
            return "no evaluation yet"
        return f"state cannot be saved: {self.evaluator.store_error}" if self.evaluator.store_error else None

    def _not_live(self) -> str | None:
        ticks = self.evaluator.ticks
        if ticks.count and self.clock.now() - ticks.at > STALLED:
            return f"no evaluation for {STALLED:g} s"
        return None

    def stopping(self) -> None:
        self.log.info("server stopping")


async def run(config: Root, reread: Reread | None = None) -> None:
    """Run a central server until SIGTERM or SIGINT; SIGHUP reloads the configuration.

    Raises ConfigError or StoreError before anything was started, OSError when an address cannot be bound.
    """
    await serve(Central(config, reread), STOP_LIMIT)
