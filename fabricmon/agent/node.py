"""One node, read and judged: collectors into State, State into the node's own judgement. No network face."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fabricmon import __version__
from fabricmon.agent.judge import NodeJudge, judged_rows
from fabricmon.agent.report import Health, collector_health, failing, families, symptom_health, verdict
from fabricmon.agent.schedule import Schedule
from fabricmon.agent.settings import AgentConfig
from fabricmon.agent.state import Accepted, Key, State
from fabricmon.host.protocol import Host
from fabricmon.model import Event, Identity, Reading
from fabricmon.runtime import logs
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Readers

IDENTITY_LIMIT = 5.0
"""Seconds to wait for the machine's identity at the start; without it the agent goes on under a random one."""


@dataclass
class Settings:
    """What a node needs of the configuration; `fabricmon.config.Root` has all of it.

    agent    AgentConfig
    collect  collector name -> its Config; a collector that is missing runs with its defaults
    rules    rule name -> its params, for the node's own judgement
    """

    agent: AgentConfig
    collect: Mapping[str, Any]
    rules: Mapping[str, Any]


class Node:
    """Reads one host and judges it. `wake` is called when something is worth telling at once.

    `collectors` is the literal table of the package unless a test has another. `at_once`: judge what one look
    shows, without waiting until it has held.
    """

    def __init__(
        self,
        config: Any,
        host: Host,
        identity: Identity,
        collectors: Mapping[str, Any] | None = None,
        wake: Callable[[], None] = lambda: None,
        at_once: bool = False,
    ) -> None:
        if collectors is None:
            from fabricmon.collect import COLLECTORS

            collectors = COLLECTORS
        self._collectors = collectors
        chosen = self._chosen(config)
        self._host, self._wake = host, wake
        self.state = State(identity, tuple(chosen), config.agent.max_events)
        self._transitions = Transitions(logs.get())
        self._judge_error = ""
        self.schedule = Schedule(identity.node, host, chosen, self, Readers(), self._transitions)
        self._judge = NodeJudge(identity.node, config.rules, at_once) if config.agent.judge else None

    def _chosen(self, config: Any) -> dict[str, tuple[Any, Any]]:
        return {
            name: (module, config.collect[name] if name in config.collect else module.Config())
            for name, module in self._collectors.items()
        }

    def reconfigure(self, config: Any) -> list[str]:
        """Other limits of the rules, other settings of collectors; the names of the collectors that start anew.

        ValueError when a rule's parameters cannot be used; then nothing is changed.
        """
        if self._judge is not None:
            self._judge.reconfigure(config.rules, time.time())
        return self.schedule.reconfigure(self._chosen(config))

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
        self._wake()

    def _accepted(self, accepted: Accepted, urgent: bool) -> None:
        if urgent or accepted.urgent or accepted.reshaped:
            self._wake()

    # --- judgement

    def tick(self) -> None:
        """Judge what is known now. A defect in a rule must not cost the readings: it makes the verdict unknown."""
        if self._judge is None:
            return
        try:
            self._judge.tick(self.state.travelling(), time.time())
        except Exception as error:
            self._judge_error = f"judging failed: {type(error).__name__}: {error}"
            self._transitions.tell("judge", "failed", "judging failed", bad=True, exc_info=error)
        else:
            self._judge_error = ""
            self._transitions.tell("judge", "ok", "judging works", bad=False)

    def health(self) -> Health:
        snapshot, judge = self.state.snapshot, self._judge
        symptoms = judge.symptoms() if judge else []
        judged = judged_rows(snapshot, self._host.monotonic()) if judge else 0
        reason = self.not_ready() or self._judge_error or failing(self.schedule.board.status)
        if judge is None:
            reason = "this agent does not judge (agent.judge: false)"
        status, reason = verdict(symptoms, judged, reason)
        identity = snapshot.inventory.identity
        return Health(
            identity.node, __version__, status, reason, identity.started, time.time(), judged,
            collector_health(self.schedule.board.status), symptom_health(symptoms, judge.words if judge else {}),
        )

    def families(self) -> Iterable[Family]:
        return families(self.schedule.board.status, self._judge.symptoms() if self._judge else None)

    def not_ready(self) -> str | None:
        """Why this node has nothing to tell yet; None when it has."""
        if not self.schedule.board.first_round.is_set():
            return "the first reading of all devices is not finished"
        statuses = self.schedule.board.status.values()
        if statuses and not any(s.success for s in statuses):
            return "no collector could read anything"
        return None

    def not_live(self) -> str | None:
        return None if self.schedule.moved(time.monotonic()) else "no collector has come back lately"


async def identify(host: Host, node: str) -> Identity:
    """Who this is. A machine whose files hang must not keep its agent from starting."""

    def ask() -> tuple[str, str]:
        return host.boot_id(), host.machine_id()

    boot, machine = "", ""
    reader = Readers(1).open("identity")
    if reader is not None:
        try:
            async with asyncio.timeout(2 * IDENTITY_LIMIT):
                boot, machine = await reader.call(ask, IDENTITY_LIMIT)
        except Exception as error:
            logs.get().warning("cannot tell this machine's identity", error=str(error))
        reader.close()
    # machine-id(5): not to be shown to others as it is, hence a digest of it.
    digest = hashlib.sha256(f"fabricmon agent {machine}".encode()).hexdigest()[:32]
    return Identity(node, boot, digest if machine else f"{random.getrandbits(128):032x}", __version__, time.time())
