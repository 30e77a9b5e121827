"""One node: collectors update its state, and the state is evaluated on the node. Without a network listener."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fabricmon import __version__
from fabricmon.agent.metrics.collectors import CollectorFamilies, checked_families, symptom_families
from fabricmon.agent.readings.evaluation import TICK, NodeEvaluator
from fabricmon.agent.readings.report import Health, collector_health, failing, symptom_health, verdict
from fabricmon.agent.readings.state import Accepted, Key, NodeState
from fabricmon.agent.schedule import Schedule
from fabricmon.agent.settings import AgentConfig
from fabricmon.host.protocol import Host
from fabricmon.model import CheckedNode, Event, Identity, Reading
from fabricmon.runtime import logs
from fabricmon.runtime.alarm import Alarm
from fabricmon.runtime.clock import Clock
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.logs import Transitions
from fabricmon.runtime.reader import Readers

EARLY = 0.1
"""Seconds by which the reading of the next second may come too early."""

IDENTITY_LIMIT = 5.0
"""Seconds to wait for the machine's identity at the start; after that the identity is random."""


@dataclass
class NodeSettings:
    """The part of the configuration for a node; `fabricmon.config.Root` has all of it.

    agent    AgentConfig
    collect  collector name -> its Config; a missing collector runs with its defaults
    rules    rule name -> its params, for the evaluation on the node
    """

    agent: AgentConfig
    collect: Mapping[str, Any]
    rules: Mapping[str, Any]


class LocalNode:
    """Reads and evaluates one host. `wake` is called after each reading and event, with whether it is urgent.

    `due` is set by a reading after which `tick` may be called again.
    `collectors`: COLLECTORS unless a test has others. `at_once`: evaluate without the `hold` of rules.
    """

    def __init__(
        self,
        config: Any,
        host: Host,
        identity: Identity,
        collectors: Mapping[str, Any] | None = None,
        wake: Callable[[bool], None] = lambda _urgent: None,
        at_once: bool = False,
    ) -> None:
        if collectors is None:
            from fabricmon.collect import COLLECTORS

            collectors = COLLECTORS
        self._collectors = collectors
        chosen = self._chosen(config)
        self._host, self._wake, self._clock = host, wake, Clock()
        self.state = NodeState(identity, tuple(chosen), config.agent.max_events)
        self._transitions = Transitions(logs.get())
        self._evaluation_error = ""
        self._ticked = -math.inf  # time.monotonic()
        self.due = Alarm()
        self.schedule = Schedule(identity.node, host, chosen, self, Readers(), self._transitions)
        board = self.schedule.board
        self._collector_families = CollectorFamilies(board.status, board.changes)
        self._evaluator = NodeEvaluator(identity.node, config.rules, at_once) if config.agent.evaluate else None

    def _chosen(self, config: Any) -> dict[str, tuple[Any, Any]]:
        return {
            name: (kind, config.collect[name] if name in config.collect else kind.config())
            for name, kind in self._collectors.items()
        }

    def reconfigure(self, config: Any) -> list[str]:
        """Apply other settings of rules and collectors; returns the names of the collectors that restart.

        ValueError, without effect, when a rule's parameters are invalid.
        """
        if self._evaluator is not None:
            self._evaluator.reconfigure(config.rules, self._clock.now())
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
        if self._evaluator is not None:
            self._evaluator.event(event, self._clock.now())
        self._wake(True)

    def _accepted(self, accepted: Accepted, urgent: bool) -> None:
        if time.monotonic() - self._ticked >= TICK - EARLY:
            self.due.set()
        self._wake(urgent or accepted.urgent or accepted.reshaped)

    # --- evaluation

    def tick(self) -> None:
        """Evaluate the current state. A defect in a rule must not stop the readings: the status becomes unknown."""
        if self._evaluator is None:
            return
        self.due.clear()
        self._ticked = time.monotonic()
        try:
            self._evaluator.tick(self.state.travelling(), self._clock.now())
        except Exception as error:
            self._evaluation_error = f"evaluation failed: {type(error).__name__}: {error}"
            self._transitions.note("evaluation", "failed", "evaluation failed", bad=True, exc_info=error)
        else:
            self._evaluation_error = ""
            self._transitions.note("evaluation", "ok", "evaluation works", bad=False)

    def health(self) -> Health:
        snapshot, evaluator = self.state.snapshot, self._evaluator
        symptoms, checked = evaluator.symptoms() if evaluator else [], self._checked()
        trouble = self._trouble()
        status, reason = verdict(symptoms, checked, trouble)
        identity = snapshot.inventory.identity
        return Health(
            identity.node, __version__, status, reason, identity.started, time.time(), checked.counts,
            checked.unread, not (trouble or checked.counts), collector_health(self.schedule.board.status),
            symptom_health(symptoms, evaluator.words) if evaluator else (),
        )

    def _trouble(self) -> str:
        """Why all or a part of the node cannot be evaluated, "" where it can."""
        if self._evaluator is None:
            return "this agent does not evaluate rules (agent.evaluate: false)"
        return self.not_ready() or self._evaluation_error or failing(self.schedule.board.status)

    def _checked(self) -> CheckedNode:
        return self._evaluator.checked(time.time()) if self._evaluator is not None else CheckedNode()

    def families(self) -> Iterable[Family]:
        yield from self._collector_families.families()
        if self._evaluator is not None:
            symptoms = self._evaluator.symptoms()
            yield from symptom_families(symptoms)
            checked = self._checked()
            yield from checked_families(checked, verdict(symptoms, checked, self._trouble())[0])

    def not_ready(self) -> str | None:
        """Why the node is not ready; None when it is."""
        if not self.schedule.board.first_round.is_set():
            return "the first reading of all devices is not finished"
        statuses = self.schedule.board.status.values()
        if statuses and not any(s.success for s in statuses):
            return "no collector could read anything"
        return None

    def not_live(self) -> str | None:
        return None if self.schedule.moved(time.monotonic()) else "no collector has finished a run lately"


async def identify(host: Host, node: str) -> Identity:
    """The identity of the machine. Files that hang must not prevent the start of the agent."""

    def ask() -> tuple[str, str]:
        return host.boot_id(), host.machine_id()

    boot, machine = "", ""
    reader = Readers(1).open("identity")
    if reader is not None:
        try:
            async with asyncio.timeout(2 * IDENTITY_LIMIT):
                boot, machine = await reader.call(ask, IDENTITY_LIMIT)
        except Exception as error:
            logs.get().warning("the machine's identity is unknown", error=str(error))
        reader.close()
    # machine-id(5) is confidential: a digest of it
    digest = hashlib.sha256(f"fabricmon agent {machine}".encode()).hexdigest()[:32]
    return Identity(node, boot, digest if machine else f"{random.getrandbits(128):032x}", __version__, time.time())
