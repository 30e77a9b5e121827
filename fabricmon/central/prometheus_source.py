"""Open symptoms from a ruler instead of, or beside, streams: asks a Prometheus-compatible API every few seconds.

What the ruler says of its nodes goes into the engine as inventories (of the info metrics), frames without values (the
node is read) and presence (of `up`); what fires is the outcome of the rules (fabricmon.rules.told). While the API
cannot be asked nothing comes in: all that was said stands, and what nobody looks at becomes unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import aiohttp
import numpy as np

from fabricmon.central import prometheus_answers as answers
from fabricmon.central.prometheus_api import ApiError, Vector, query
from fabricmon.central.prometheus_settings import PrometheusConfig
from fabricmon.engine.engine import Engine
from fabricmon.frame import Frame
from fabricmon.model import ComponentId, Kind, Presence
from fabricmon.rules.promql import UP
from fabricmon.rules.rule import Rule
from fabricmon.rules.rulefile import EVALUATED, PREFIX, selected
from fabricmon.rules.told import Report, Told
from fabricmon.runtime import logs

YIELD_EVERY = 500  # nodes between two pauses for the event loop

FIRING = f'ALERTS{{alertname=~"{PREFIX}.+",alertstate="firing",rule!=""}}'
ACTIVE = f'ALERTS_FOR_STATE{{alertname=~"{PREFIX}.+",rule!=""}}'
EVALUATED_AGO = f"time() - max by (rule) ({EVALUATED})"


class PrometheusSource:
    """Follows one ruler.

    error    "" or why the last questions failed
    strange  alerts of the last answer that name no known rule or component
    """

    def __init__(
        self, config: PrometheusConfig, engine: Engine, told: Told, rules: Sequence[Rule], now: Callable[[], float]
    ) -> None:
        self.config, self.engine, self.told, self.now = config, engine, told, now
        self.error = ""
        self.asked = 0.0
        self.strange = 0
        self._rules = {rule.name: rule for rule in rules}
        self._kinds = sorted({rule.table for rule in rules} - {Kind.NODE})
        self._fleet = answers.Fleet()
        self._fleet_at = -np.inf
        self._sent: dict[str, answers.Components] = {}
        self._numbers: dict[str, int] = {}
        self._sequence = 0
        self._up: dict[str, bool] = {}
        self._named: dict[str, float] = {}
        self._transitions = logs.Transitions(logs.get(part="ruler"))

    def configure(self, config: PrometheusConfig) -> None:
        """Other settings, from the next question."""
        self.config = config

    async def run(self) -> None:
        """Ask until cancelled."""
        failures = 0
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    await self.poll(session)
                    failures, self.error = 0, ""
                    self._transitions.tell("ruler", "answers", "the ruler answers", bad=False)
                except ApiError as error:
                    failures, self.error = failures + 1, str(error)
                    said = "the ruler cannot be asked; what it said before stands"
                    self._transitions.tell("ruler", "fails", said, bad=True, error=self.error)
                pause = float(self.config.interval)
                if failures:
                    longest = min(pause * 2.0 ** min(failures, 16), float(self.config.retry_max))
                    pause = longest * random.uniform(0.5, 1.0)
                await asyncio.sleep(pause)

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """One round of questions, and what follows from the answers. Raises ApiError; nothing was taken then."""
        config = self.config

        async def ask(expression: str) -> Vector:
            return await query(session, config, expression)

        at = self.now()
        up = await ask(selected(UP, config.selector))
        firing, active, evaluated = await ask(FIRING), await ask(ACTIVE), await ask(EVALUATED_AGO)
        alerts, self.strange = answers.alerts(firing.samples, active.samples, self._rules, config.node_label)
        nodes: dict[str, bool] = {}
        for sample in up.samples:
            if name := answers.node_of(sample.metric, config.node_label):
                nodes[name] = nodes.get(name, False) or sample.value[1] == "1"
        ago = answers.values(evaluated.samples, "rule")
        fresh = frozenset(rule for rule, seconds in ago.items() if seconds <= config.stale)
        self.told.take(Report(at, alerts, firing.whole, fresh, frozenset(n for n, good in nodes.items() if good)))
        self.told.there({ComponentId(Kind.NODE, name, "") for name, good in nodes.items() if good}, at)
        due = at - self._fleet_at >= (config.interval if self.told.waiting else config.inventory)
        if due or any(self._is_ours(name) and name not in self._sent for name in nodes):
            asked = self.now()
            infos = {}
            for kind in self._kinds:
                vector = await ask(selected(f"fabricmon_{kind}_info", config.selector))
                if not vector.whole:
                    raise ApiError(f"only a part of fabricmon_{kind}_info was answered")
                infos[kind] = vector.samples
            self._fleet, self._fleet_at = answers.fleet(infos, config.node_label), asked
            self.told.there(self._fleet.ids(), asked)
        answers.add(self._fleet, self.told.components())
        await self._enter(nodes)
        self.asked = at

    async def _enter(self, nodes: dict[str, bool]) -> None:
        """Nodes, rows and signs of life into the engine."""
        now = self.now()
        for count, (name, good) in enumerate(nodes.items()):
            if not count % YIELD_EVERY:
                await asyncio.sleep(0)
                now = self.now()
            self._named[name] = now
            if not self._is_ours(name):
                self._sent.pop(name, None)
                continue
            has = self._fleet.nodes.get(name, {})
            if name not in self._sent or (has and self._sent[name] != has):
                self._sequence += 1
                self._numbers[name] = self._sequence
                told = answers.inventory(name, has, self._sequence, float(self.config.interval))
                self.engine.inventory(name, told, now)
                self._sent[name] = {kind: dict(names) for kind, names in has.items()}
            if self._up.get(name) is not good:
                self._up[name] = good
                presence, detail = (Presence.LIVE, "") if good else (Presence.UNREACHABLE, "the ruler's scrape fails")
                self.engine.presence(name, presence, detail, now)
            if good:
                kinds = self._sent[name]
                values = np.full(sum(map(len, kinds.values())), np.nan)
                taken = np.full(len(kinds), now)
                self.engine.frame(name, Frame(self._numbers[name], 0, now, taken, None, values), now)
        for name in [name for name, at in self._named.items() if now - at > self.config.forget]:
            self._forget(name, now)
        known = self.engine.fleet.nodes
        self.told.nodes = answers.numbers(known[name].number for name in self._sent if name in known)

    def _is_ours(self, name: str) -> bool:
        """No stream tells of this node."""
        known = self.engine.fleet.nodes.get(name)
        return known is None or known.inventory is None or known.inventory.identity.agent == answers.AGENT

    def _forget(self, name: str, now: float) -> None:
        for kept in (self._named, self._up, self._sent, self._numbers):
            kept.pop(name, None)
        self._fleet.nodes.pop(name, None)
        self.told.forget(name)
        if self._is_ours(name):
            self.engine.forget(name, now)
