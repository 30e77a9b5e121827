"""Sender `kubernetes_node`: node conditions for the health of the fabric, and taints on faulty nodes.

Every node with an agent gets the condition FabricHealthy: True, False with the incident's kind as reason, or Unknown;
with a heartbeat, whose age shows whether fabricmon is running. With `taint`, nodes allowed by `notify.acting` are
tainted.

The current state is read from the cluster by LIST and WATCH, so a restart neither forgets nor repeats an action; the
value of a taint is its incident. A taint is written only to the version of the node that was read, so concurrent
changes are never undone. With `dry_run` every request has dryRun=All: the API server checks permissions and format, and
stores nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Iterable, Mapping

from fabricmon.forms.times import wall_time
from fabricmon.kubernetes.client import CONFLICT, ApiError, KubernetesClient, server
from fabricmon.kubernetes.listwatch import ListWatch
from fabricmon.kubernetes.objects import NODES, Condition, KubernetesNode, Taint, parse_node
from fabricmon.notify.acting import ActedNode, Deed, decide
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.matchers import parse
from fabricmon.notify.node_condition import UNWATCHED, NodeCondition, node_conditions
from fabricmon.runtime import logs
from fabricmon.senders.acting import ActionLog, ActionReport, Standing, incidents_behind
from fabricmon.senders.kubernetes_patch import (
    MERGE,
    STRATEGIC,
    condition,
    condition_patch,
    due,
    tainted,
    taints_patch,
    untainted,
)
from fabricmon.senders.kubernetes_settings import KubernetesNodeConfig

MANAGER = "fabricmon"  # name of the field manager
WRITES = 500  # conditions written in one call; changes before heartbeats
AT_ONCE = 4  # concurrent requests
BELIEVED = 60.0  # seconds for which a written value counts, until the watch shows it
RETRY_MAX = 60.0  # longest pause after a failed request to the API server
MAX_PROBED = 10_000  # requests of a dry run that are remembered, each is made once


class KubernetesNodeActor:
    """One entry of `senders:`."""

    def __init__(self, name: str, config: KubernetesNodeConfig, links: IncidentLinks) -> None:
        self.period = float(config.period)
        self._name, self._config, self._links = name, config, links
        self._terms, self._matchers = config.terms(), tuple(map(parse, config.match))
        self._client: KubernetesClient | None = None
        self._nodes: ListWatch[KubernetesNode] | None = None
        self._following: asyncio.Task[None] | None = None
        self._listed = asyncio.Event()
        self._error = "the cluster's nodes are not listed yet"
        self._written: dict[str, tuple[Condition, float]] = {}
        self._marked: dict[str, tuple[str, float]] = {}  # node -> value of the taint just set, "" of one just removed
        self._probed: dict[tuple[str, str, str], None] = {}
        self._begun: float | None = None
        self._log = logs.get(part="kubernetes", actor=name)

    async def close(self) -> None:
        """Close connections; conditions and taints stay."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        if self._nodes is not None:
            self._nodes.close()
        if self._client is not None:
            await self._client.close()
        self._following = self._nodes = self._client = None

    async def act(self, standing: Standing, diary: ActionLog) -> ActionReport:
        """Set conditions and taints for the current incidents."""
        report = ActionReport(dry=self._config.dry_run)
        try:
            nodes = await self._cluster()
        except ApiError as error:
            report.error = str(error)
            return report
        if self._begun is None:
            self._begun = standing.at
        names = pairs((n.node for n in standing.nodes), nodes)
        # Taints first: a condition changes the version of the node, and a taint requires the version that was read.
        if self._config.taint:
            await self._taint(standing, diary, nodes, names, report)
        await self._set_conditions(standing, nodes, names, report)
        return report

    async def _cluster(self) -> dict[str, KubernetesNode]:
        """Current nodes by name. ApiError while they are not known."""
        if self._following is None:
            config = self._config
            cluster = server(config.api, config.token_file, config.ca_file)
            self._client = KubernetesClient(cluster, float(config.timeout))
            self._nodes = ListWatch(self._client, NODES, parse_node)
            following = self._nodes.keep(self._current_list, self._failed, RETRY_MAX, random.Random())
            self._following = asyncio.create_task(following, name=f"nodes {self._name}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(float(config.timeout)):
                    await self._listed.wait()
        if self._error or self._nodes is None:
            raise ApiError(self._error)
        return {one.name: one for one in self._nodes.items.values()}

    def _current_list(self) -> None:
        self._error = ""
        self._listed.set()

    def _failed(self, error: str) -> None:
        self._error = error
        self._listed.set()

    async def _set_conditions(
        self, standing: Standing, nodes: Mapping[str, KubernetesNode], names: Mapping[str, str], report: ActionReport
    ) -> None:
        config, at = self._config, standing.at
        verdicts = node_conditions(standing.incidents, standing.nodes, config.condition_severity, self._matchers,
                        float(config.unknown_after), at, self._links)  # fmt: skip
        wanted = {names[name]: verdict for name, verdict in verdicts.items() if name in names}
        if self._begun is not None and at - self._begun >= config.unknown_after:
            # After a restart the fleet is incomplete for a while; later, a node missing in it is not monitored.
            for one in nodes.values():
                if one.name not in wanted and self._current(one, at) is not None:
                    wanted[one.name] = UNWATCHED
        changes = []
        for name, verdict in wanted.items():
            before = self._current(nodes[name], at)
            if verdict is not None and (urgency := due(before, verdict, at, float(config.heartbeat))) is not None:
                changes.append((urgency, name, before, verdict))
        changes.sort(key=lambda change: change[:2])
        if config.dry_run:
            changes = [c for c in changes if c[0][0] == 0 and self._unprobed(c[1], c[3].status, c[3].reason)]
        gate = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._write(gate, *change[1:], at, report) for change in changes[:WRITES]))

    def _current(self, one: KubernetesNode, at: float) -> Condition | None:
        """The node's condition, including a recent write that the watch may not show yet."""
        shown = one.condition(self._config.condition)
        written = self._written.get(one.name)
        if written is None:
            return shown
        seen = wall_time(shown.last_heartbeat_time) if shown is not None else None
        if at - written[1] > BELIEVED or (seen is not None and seen >= math.floor(written[1])):
            del self._written[one.name]
            return shown
        return written[0]

    async def _write(
        self,
        gate: asyncio.Semaphore,
        name: str,
        before: Condition | None,
        verdict: NodeCondition,
        at: float,
        report: ActionReport,
    ) -> None:
        made = condition(self._config.condition, before, verdict, at)
        try:
            async with gate:
                await self._patch(f"{NODES}/{name}/status", condition_patch(made), STRATEGIC)
        except ApiError as error:
            report.failed[name] = f"condition: {error}"
            return
        news = before is None or (before.status, before.reason) != (verdict.status, verdict.reason)
        if news and (before is not None or verdict.status != "True"):
            self._log.info("would set node condition" if self._config.dry_run else "node condition", node=name,
                           status=verdict.status, reason=verdict.reason, message=verdict.message)  # fmt: skip
        if not self._config.dry_run:
            self._written[name] = (made, at)

    async def _taint(
        self,
        standing: Standing,
        diary: ActionLog,
        nodes: Mapping[str, KubernetesNode],
        names: Mapping[str, str],
        report: ActionReport,
    ) -> None:
        at, theirs = standing.at, {name: mine for mine, name in names.items()}
        marks = {one.name: value for one in nodes.values() if (value := self._mark(one, at)) is not None}
        held = [ActedNode(theirs.get(name, name), value) for name, value in marks.items()]
        behind = await incidents_behind(diary, {h.incident for h in held}, standing.incidents)
        taken = {n.node: "not a node of the cluster" for n in standing.nodes if n.node not in names}
        found = decide(self._terms, [*standing.incidents, *behind], standing.silenced, standing.nodes, held, taken,
                       standing.deeds, at)  # fmt: skip
        report.withheld = found.withheld
        for mine, incident in found.act:
            await self._act(diary, nodes[names[mine]], mine, incident.id, False, at, report)
        for each in found.undo:
            if each.node in names:
                await self._act(diary, nodes[names[each.node]], each.node, each.incident, True, at, report)
        report.held = len(held) + sum(not d.undo for d in report.done) - sum(d.undo for d in report.done)

    def _mark(self, one: KubernetesNode, at: float) -> str | None:
        """The incident of a node's taint, including a recent write; None without a taint."""
        shown = next((t.value for t in one.taints if t.key == self._config.taint_key), None)
        marked = self._marked.get(one.name)
        if marked is not None and (at - marked[1] > BELIEVED or (shown or "") == marked[0]):
            del self._marked[one.name]
            marked = None
        return shown if marked is None else marked[0] or None

    async def _act(
        self,
        diary: ActionLog,
        one: KubernetesNode,
        mine: str,
        incident: str,
        undo: bool,
        at: float,
        report: ActionReport,
    ) -> None:
        config = self._config
        deed = Deed(self._name, mine, "untaint" if undo else "taint", incident, at, undo)
        key, effect = config.taint_key, config.taint_effect
        taints = untainted(one.taints, key) if undo else tainted(one.taints, Taint(key, effect, incident))
        try:
            if not config.dry_run:
                await diary.write(deed)
            if not config.dry_run or self._unprobed(one.name, deed.verb, incident):
                await self._patch(f"{NODES}/{one.name}", taints_patch(one, taints), MERGE)
        except ApiError as error:
            changed = error.status == CONFLICT
            report.failed[mine] = "the node was changed concurrently" if changed else f"{deed.verb}: {error}"
            return
        report.done.append(deed)
        if not config.dry_run:
            self._marked[one.name] = ("" if undo else incident, at)

    async def _patch(self, path: str, body: bytes, media: str) -> None:
        if self._client is None:
            raise ApiError("closed")
        dry = {"dryRun": "All"} if self._config.dry_run else {}
        await self._client.patch(path, body, media, {"fieldManager": MANAGER, **dry})

    def _unprobed(self, *request: str) -> bool:
        """Whether a dry run has not made this request yet."""
        key = (request[0], request[1], request[2])
        if key in self._probed:
            return False
        if len(self._probed) >= MAX_PROBED:
            self._probed.pop(next(iter(self._probed)))
        self._probed[key] = None
        return True


def open(name: str, config: KubernetesNodeConfig, links: IncidentLinks) -> KubernetesNodeActor:
    """The actor of one entry."""
    return KubernetesNodeActor(name, config, links)


def pairs(fleet: Iterable[str], nodes: Mapping[str, KubernetesNode]) -> dict[str, str]:
    """Name in the fleet -> name in the cluster: equal, or equal without the domain if unique."""
    short: dict[str, list[str]] = {}
    for name in nodes:
        short.setdefault(name.partition(".")[0].lower(), []).append(name)
    found: dict[str, str] = {}
    for mine in fleet:
        others = short.get(mine.partition(".")[0].lower(), [])
        if mine in nodes:
            found[mine] = mine
        elif len(others) == 1 and others[0] not in found.values():
            found[mine] = others[0]
    return found
