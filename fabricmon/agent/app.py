"""The agent put together: collectors into State, State to /metrics, /stream and /health, all in one TaskGroup."""

from __future__ import annotations

import asyncio
import hashlib
import random
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fabricmon import __version__
from fabricmon.agent.api import Api
from fabricmon.agent.judge import NodeJudge, judged_rows
from fabricmon.agent.report import Health, collector_health, families, symptom_health, verdict
from fabricmon.agent.schedule import Schedule
from fabricmon.agent.settings import AgentConfig
from fabricmon.agent.state import Accepted, Key, State
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Event, Identity, Reading
from fabricmon.runtime import logs
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.http import Address, listen
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Readers
from fabricmon.runtime.sdnotify import Notifier

TICK = 1.0
"""Seconds between two judgements of the node."""

STOP_LIMIT = 4.0
"""Seconds after a signal by which the process ends, whatever still hangs."""

IDENTITY_LIMIT = 5.0
"""Seconds to wait for the machine's identity at the start; without it the agent goes on under a random one."""


@dataclass
class Settings:
    """What the agent needs of the configuration; fabricmon.config.Root has all of it.

    agent    AgentConfig
    collect  collector name -> its Config; a collector that is missing runs with its defaults
    rules    rule name -> its params, for the node's own judgement
    """

    agent: AgentConfig
    collect: Mapping[str, Any]
    rules: Mapping[str, Any]


class Agent:
    """One node's agent on one host. `run` serves until cancelled; several may live in one process (demo, tests).

    `collectors` is the literal table of the package unless a test has another.
    """

    def __init__(self, config: Any, host: Host, collectors: Mapping[str, Any] | None = None) -> None:
        if collectors is None:
            from fabricmon.collect import COLLECTORS

            collectors = COLLECTORS
        self.config: AgentConfig = config.agent
        self._rules: Mapping[str, Any] = config.rules
        self._collectors = {
            name: (module, config.collect[name] if name in config.collect else module.Config())
            for name, module in collectors.items()
        }
        self._host = host
        self._log = logs.get()
        self.addresses: list[Address] = []
        self.listening = asyncio.Event()
        self._notify = Notifier()
        self._readers = Readers()

    async def run(self) -> None:
        """Serve until cancelled. OSError when an address cannot be had."""
        node = self.config.node or self._host.name
        identity = await self._identity(node)
        self.state = State(identity, tuple(self._collectors), self.config.max_events)
        transitions = Transitions(self._log)
        self._schedule = Schedule(node, self._host, self._collectors, self, self._readers, transitions)
        self._judge = self._make_judge(node)
        self.api = Api(
            self.state, self.config.max_streams, self._host.monotonic, self._families, self.health,
            self._schedule.first_round, self._not_ready, self._not_live,
        )
        listener = await listen(self.api.app, self.config.listen)
        self.addresses = listener.addresses
        self._log.info("agent listens", node=node, version=__version__, addresses=", ".join(map(str, self.addresses)))
        self.listening.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._schedule.run(), name="schedule")
                group.create_task(self._report_ready(), name="ready")
                if self._judge is not None:
                    group.create_task(self._tick(self._judge), name="judge")
                if self._notify.watchdog:
                    group.create_task(self._watchdog(self._notify.watchdog), name="watchdog")
        finally:
            self._notify.stopping("stopping")
            await listener.close()

    # --- Sink of the schedule

    def reading(self, key: Key, reading: Reading, urgent: bool) -> None:
        self._accepted(self.state.accept(key, reading, time.time()), urgent)

    def failed(self, key: Key) -> None:
        self._accepted(self.state.unknown(key, self._host.monotonic(), time.time()), True)

    def gone(self, key: Key) -> None:
        self._accepted(self.state.drop(key, time.time()), True)

    def event(self, event: Event) -> None:
        event = self.state.event(event)
        if self._judge is not None:
            self._judge.event(event, time.time())
        self.api.wake()

    def _accepted(self, accepted: Accepted, urgent: bool) -> None:
        if urgent or accepted.urgent or accepted.reshaped:
            self.api.wake()

    # --- children

    async def _tick(self, judge: NodeJudge) -> None:
        await self._schedule.first_round.wait()
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            judge.tick(self.state.snapshot, time.time())
            await asyncio.sleep(max(0.0, started + TICK - loop.time()))

    async def _report_ready(self) -> None:
        await self._schedule.first_round.wait()
        inventory = self.state.inventory
        rows = {(part.kind, c.name) for part in inventory.parts for c in part.components}
        self._log.info("first round done", rows=len(rows), values=inventory.size)
        self._notify.ready(self._not_ready() or f"{len(rows)} rows, {inventory.size} values")

    async def _watchdog(self, period: float) -> None:
        """WATCHDOG only while collectors move: a loop that spins over dead collectors must not look alive."""
        while True:
            if self._schedule.moved(time.monotonic()):
                self._notify.alive()
            await asyncio.sleep(period)

    # --- answers

    def health(self) -> Health:
        snapshot, now = self.state.snapshot, time.time()
        judged = judged_rows(snapshot, self._host.monotonic()) if self._judge else 0
        symptoms = self._judge.symptoms() if self._judge else []
        reason = "" if self._judge else "this agent does not judge (agent.judge: false)"
        status, reason = verdict(symptoms, judged, self._not_ready() or reason)
        identity = snapshot.inventory.identity
        return Health(
            identity.node, __version__, status, reason, identity.started, now, judged,
            collector_health(self._schedule.status), symptom_health(symptoms, self._judge.words if self._judge else {}),
        )

    def _families(self) -> Iterable[Family]:
        return families(self._schedule.status, self._judge.symptoms() if self._judge else None)

    def _not_ready(self) -> str | None:
        if not self._schedule.first_round.is_set():
            return "the first reading of all devices is not finished"
        statuses = self._schedule.status.values()
        if statuses and not any(s.success for s in statuses):
            return "no collector could read anything"
        return None

    def _not_live(self) -> str | None:
        return None if self._schedule.moved(time.monotonic()) else "no collector has come back lately"

    # --- the start

    def _make_judge(self, node: str) -> NodeJudge | None:
        return NodeJudge(node, self._rules) if self.config.judge else None

    async def _identity(self, node: str) -> Identity:
        """Who this is. A machine whose files hang must not keep its agent from starting."""

        def ask() -> tuple[str, str]:
            return self._host.boot_id(), self._host.machine_id()

        boot, machine = "", ""
        reader = self._readers.open("identity")
        if reader is not None:
            try:
                boot, machine = await reader.call(ask, IDENTITY_LIMIT)
            except (HostError, Exception) as error:
                self._log.warning("cannot tell this machine's identity", error=str(error))
            reader.close()
        # machine-id(5): not to be shown to others as it is, hence a digest of it.
        digest = hashlib.sha256(f"fabricmon agent {machine}".encode()).hexdigest()[:32]
        return Identity(node, boot, digest if machine else f"{random.getrandbits(128):032x}", __version__, time.time())


async def run(config: Any, host: Host) -> None:
    """Run an agent until SIGTERM or SIGINT; returns within STOP_LIMIT of it even if a read hangs for ever."""
    loop = asyncio.get_running_loop()
    agent = asyncio.create_task(Agent(config, host).run())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait({agent, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not agent.done():
        logs.get().info("agent stops")
        agent.cancel()
        await asyncio.wait({agent}, timeout=STOP_LIMIT)
    if agent.done() and not agent.cancelled():
        agent.result()
