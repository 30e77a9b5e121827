"""Symptoms from a rule evaluator instead of, or beside, streams: queries a Prometheus-compatible API.

Nodes go into the engine as inventories (from the info metrics), frames without values (the node is scraped) and
presence (from `up`); firing alerts are the results of the rules (evaluator_alerts.py). While queries fail the last
alerts stay, and components become unknown with time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import aiohttp
import numpy as np

from fabricmon.central.prometheus import answers
from fabricmon.central.prometheus.api import RuleApiError, Vector, query
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.engine.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import ComponentId, Kind, Presence
from fabricmon.rules.prometheus.evaluator_alerts import EvaluatorAlerts, EvaluatorReport
from fabricmon.rules.prometheus.rulefile import EVALUATED, PREFIX, selected
from fabricmon.rules.promql import UP
from fabricmon.rules.rule import Rule
from fabricmon.runtime import logs

YIELD_EVERY = 500  # nodes between two pauses for the event loop

FIRING = f'ALERTS{{alertname=~"{PREFIX}.+",alertstate="firing",rule!=""}}'
ACTIVE = f'ALERTS_FOR_STATE{{alertname=~"{PREFIX}.+",rule!=""}}'
EVALUATED_AGO = f"time() - max by (rule) ({EVALUATED})"


class PrometheusSource:
    """Queries one rule evaluator.

    error    "" or the error of the last queries
    unknown  alerts of the last answer with an unknown rule or component
    """

    def __init__(
        self,
        config: PrometheusConfig,
        engine: Engine,
        alerts: EvaluatorAlerts,
        rules: Sequence[Rule],
        now: Callable[[], float],
    ) -> None:
        self.config, self.engine, self.alerts, self.now = config, engine, alerts, now
        self.error = ""
        self.queried = 0.0
        self.unknown = 0
        self._rules = {rule.name: rule for rule in rules}
        self._kinds = sorted({rule.table for rule in rules} - {Kind.NODE})
        self._fleet = answers.ListedComponents()
        self._fleet_at = -np.inf
        self._sent: dict[str, answers.Components] = {}
        self._numbers: dict[str, int] = {}
        self._sequence = 0
        self._up: dict[str, bool] = {}
        self._named: dict[str, float] = {}
        self._transitions = logs.Transitions(logs.get(part="rule evaluator"))
        engine.fleet.expected_from = np.inf

    def configure(self, config: PrometheusConfig) -> None:
        """Other settings, from the next query."""
        self.config = config

    def warnings(self) -> list[str]:
        """Problems of the rule evaluator, one sentence each."""
        found = [f"Rule evaluator cannot be queried, its last alerts are in use: {self.error}"] if self.error else []
        if self.unknown:
            found.append(f"{self.unknown} alerts of the rule evaluator have an unknown rule or component")
        return found

    async def run(self) -> None:
        """Query until cancelled."""
        failures = 0
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    await self.poll(session)
                    failures, self.error = 0, ""
                    self._transitions.note("query", "works", "rule evaluator responds", bad=False)
                except RuleApiError as error:
                    failures, self.error = failures + 1, str(error)
                    text = "rule evaluator cannot be queried; its last alerts stay in use"
                    self._transitions.note("query", "fails", text, bad=True, error=self.error)
                pause = float(self.config.interval)
                if failures:
                    longest = min(pause * 2.0 ** min(failures, 16), float(self.config.retry_max))
                    pause = longest * random.uniform(0.5, 1.0)
                await asyncio.sleep(pause)

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """Query once and update the engine. Raises RuleApiError; the engine is unchanged then."""
        config = self.config

        async def answer_to(expression: str) -> Vector:
            return await query(session, config, expression)

        at = self.now()
        up = await answer_to(selected(UP, config.selector))
        firing, active, evaluated = await answer_to(FIRING), await answer_to(ACTIVE), await answer_to(EVALUATED_AGO)
        alerts, self.unknown = answers.alerts(firing.samples, active.samples, self._rules, config.node_label)
        nodes: dict[str, bool] = {}
        for sample in up.samples:
            if name := answers.node_of(sample.metric, config.node_label):
                nodes[name] = nodes.get(name, False) or sample.value[1] == "1"
        ago = answers.values(evaluated.samples, "rule")
        fresh = frozenset(rule for rule, seconds in ago.items() if seconds <= config.stale)
        self.alerts.update(
            EvaluatorReport(at, alerts, firing.whole, fresh, frozenset(n for n, good in nodes.items() if good))
        )
        self.alerts.confirm({ComponentId(Kind.NODE, name, "") for name, good in nodes.items() if good}, at)
        due = at - self._fleet_at >= (config.interval if self.alerts.waiting else config.inventory)
        if due or any(self._without_stream(name) and name not in self._sent for name in nodes):
            queried = self.now()
            infos = {}
            for kind in self._kinds:
                vector = await answer_to(selected(f"fabricmon_{kind}_info", config.selector))
                if not vector.whole:
                    raise RuleApiError(f"incomplete answer for fabricmon_{kind}_info")
                infos[kind] = vector.samples
            self._fleet, self._fleet_at = answers.listed_components(infos, config.node_label), queried
            self.alerts.confirm(self._fleet.ids(), queried)
        answers.add(self._fleet, self.alerts.components())
        await self._enter(nodes)
        self.engine.fleet.expected_from = min(self.engine.fleet.expected_from, at)
        self.queried = at

    async def _enter(self, nodes: dict[str, bool]) -> None:
        """Update nodes, rows and presence in the engine."""
        now = self.now()
        for count, (name, good) in enumerate(nodes.items()):
            if not count % YIELD_EVERY:
                await asyncio.sleep(0)
                now = self.now()
            self._named[name] = now
            if not self._without_stream(name):
                self._sent.pop(name, None)
                continue
            has = self._fleet.nodes.get(name, {})
            if name not in self._sent or (has and self._sent[name] != has):
                self._sequence += 1
                self._numbers[name] = self._sequence
                inventory = answers.inventory(name, has, self._sequence, float(self.config.interval))
                self.engine.inventory(name, inventory, now)
                self._sent[name] = {kind: dict(names) for kind, names in has.items()}
            if self._up.get(name) is not good:
                self._up[name] = good
                presence, detail = (Presence.LIVE, "") if good else (Presence.UNREACHABLE, "scrape fails")
                self.engine.presence(name, presence, detail, now)
            if good:
                kinds = self._sent[name]
                values = np.full(sum(map(len, kinds.values())), np.nan)
                taken = np.full(len(kinds), now)
                self.engine.frame(name, Frame(self._numbers[name], 0, now, taken, None, values), now)
        for name in [name for name, at in self._named.items() if now - at > self.config.forget]:
            self._forget(name, now)
        known = self.engine.fleet.nodes
        self.alerts.nodes = answers.numbers(known[name].number for name in self._sent if name in known)

    def _without_stream(self, name: str) -> bool:
        """Whether no stream exists for this node."""
        known = self.engine.fleet.nodes.get(name)
        return known is None or known.inventory is None or known.inventory.identity.agent == answers.AGENT

    def _forget(self, name: str, now: float) -> None:
        for kept in (self._named, self._up, self._sent, self._numbers):
            kept.pop(name, None)
        self._fleet.nodes.pop(name, None)
        self.alerts.forget(name)
        if self._without_stream(name):
            self.engine.forget(name, now)
