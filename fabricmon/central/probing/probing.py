"""Keeps every agent's assignment of probes in force: plans, sends what changed, renews, and stops all at once."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from fabricmon.central.probing.ends import ends, jobs_of, uplinks
from fabricmon.central.probing.settings import CentralProbeConfig
from fabricmon.central.streams.pull import Pull
from fabricmon.engine.engine import Engine
from fabricmon.jobs.model import Jobs
from fabricmon.model import Kind
from fabricmon.probe.assignment import NONCE, Assignment, PortProbes, encode
from fabricmon.probe.plan import Coverage, plan
from fabricmon.runtime import logs
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.reader import Overdue, Reader

LOOK = 1.0
"""Seconds between two checks of streams and rows."""
REPLAN = 15.0
"""Seconds between two plans, at least."""
PLANNING = 120.0
"""Seconds a plan may take."""
AT_ONCE = 256
"""Assignments on their way at one time."""


class _Sent(NamedTuple):
    """The last assignment of a node: over which connection, which version, for which ports, and when."""

    connection: object
    version: int
    ports: tuple[PortProbes, ...]
    at: float


class Probing:
    """coverage  of the plan in force"""

    def __init__(
        self,
        config: CentralProbeConfig,
        engine: Engine,
        pull: Pull,
        jobs: Callable[[], Iterable[Jobs]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._engine, self._pull, self._jobs = config, engine, pull, jobs
        self._monotonic = monotonic
        self._nonce = secrets.token_hex(NONCE)
        self._version = time.time_ns() // 1_000_000
        self._planned_for: tuple[object, ...] = ()
        self._planned_at = -REPLAN
        self._by_node: Mapping[str, tuple[PortProbes, ...]] = {}
        self._sent: dict[str, _Sent] = {}
        self._changed = asyncio.Event()
        self.coverage = Coverage()
        self._transitions = logs.Transitions(logs.get(part="probing"))

    def configure(self, config: CentralProbeConfig) -> None:
        """Other settings; `enabled: false` stops every agent with the next look, which comes at once."""
        self._config = config
        self._planned_for, self._planned_at = (), -REPLAN
        self._changed.set()

    async def run(self) -> None:
        """Plan and send until cancelled. Agents of a server that is gone stop by themselves."""
        while True:
            self._changed.clear()
            try:
                await self.step()
            except Exception as error:
                self._transitions.note("plan", str(error), "probes cannot be planned", bad=True, exc_info=error)
            try:
                async with asyncio.timeout(LOOK):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def step(self) -> None:
        """One look: plan where something changed, then send what is due."""
        if not self._config.enabled:
            await self._stop()
            return
        now = self._monotonic()
        if now - self._planned_at >= REPLAN:
            await self._replan(now)
        await self._send_due(now)

    async def _replan(self, now: float) -> None:
        jobs = jobs_of(self._jobs())
        ports = ends(self._engine.fleet.tables[Kind.PORT], jobs)
        known = (tuple(ports), self._config, self._engine.topology())
        if known == self._planned_for:
            return
        self._planned_at = now
        reader = Reader("probes")
        try:
            paths = uplinks(self._engine.fleet.tables[Kind.PORT], self._engine.topology())
            made = await reader.call(partial(plan, ports, paths.cables, self._config.limits, paths.unequal), PLANNING)
        except Overdue:
            return
        finally:
            reader.close()
        self._planned_for, self._by_node, self.coverage = known, made.by_node(), made.coverage
        self._version += 1

    async def _send_due(self, now: float) -> None:
        lasts = float(self._config.lasts)
        due: dict[str, Assignment] = {}
        for node, ports in self._by_node.items():
            connection, sent = self._pull.connection(node), self._sent.get(node)
            if connection is None:
                continue
            fits = sent is not None and sent.connection is connection and sent.ports == ports
            if not fits:
                due[node] = self._assignment(self._version, lasts, ports)
            elif sent is not None and now - sent.at >= lasts / 3:
                due[node] = self._assignment(sent.version, lasts, None)
        for node in self._sent.keys() - self._by_node.keys():
            if self._pull.connection(node) is not None and self._sent[node].ports:
                due[node] = self._assignment(self._version, 0.0, ())
        await self._send(due, now)

    async def _stop(self) -> None:
        """An empty assignment for each agent that may have one."""
        if self._sent:
            stops = {node: self._assignment(self._version + 1, 0.0, ()) for node in self._sent}
            await self._send(stops, self._monotonic())
            self._sent, self._by_node, self.coverage = {}, {}, Coverage()

    def _assignment(self, version: int, lasts: float, ports: tuple[PortProbes, ...] | None) -> Assignment:
        return Assignment(version, lasts, self._nonce, self._config.rate, self._config.dscp, ports)

    async def _send(self, due: Mapping[str, Assignment], now: float) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(node: str, assignment: Assignment) -> None:
            connection = self._pull.connection(node)
            async with room:
                if connection is None or not await self._pull.send(node, encode(assignment)):
                    self._sent.pop(node, None)
                    return
            before = self._sent.get(node)
            ports = before.ports if assignment.ports is None and before is not None else assignment.ports or ()
            self._sent[node] = _Sent(connection, assignment.version, ports, now)

        await asyncio.gather(*(one(node, assignment) for node, assignment in due.items()))

    def families(self) -> list[Family]:
        """The plan in force."""
        found = self.coverage
        flows = [({"path": "leaf"}, float(found.within)), ({"path": "between_leaves"}, float(found.between))]
        pairs = found.pairs[0] / found.pairs[1] if found.pairs[1] else float("nan")
        known = found.between and not math.isnan(found.probability)
        return [
            Family("fabricmon_central_probe_nodes", "gauge", "Agents with an assignment of probes",
                   [({}, float(sum(bool(sent.ports) for sent in self._sent.values())))]),
            Family("fabricmon_central_probe_ports", "gauge", "Ports in the plan of probes", [({}, float(found.ports))]),
            Family("fabricmon_central_probe_flows", "gauge", "Flows in the plan of probes", flows),
            Family("fabricmon_central_probe_leaf_pairs_ratio", "gauge",
                   "Share of the ordered pairs of leaves of a rail between which there is a flow", [({}, pairs)]),
            Family("fabricmon_central_probe_path_probability", "gauge",
                   "Least probability of all leaves that each of its uplinks carries a flow, by hash; unknown where "
                   "leaves are connected with each other", [({}, found.probability if known else float("nan"))]),
            Family("fabricmon_central_probe_flows_needed", "gauge",
                   "central.probe.between with which every leaf would have central.probe.probability",
                   [({}, float(found.needed) if known else float("nan"))]),
        ]  # fmt: skip
