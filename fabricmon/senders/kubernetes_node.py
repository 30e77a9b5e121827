"""Sender `kubernetes_node`: says of each node of a cluster how its fabric is, and keeps pods off a faulty one.

Two things. The condition FabricHealthy of every node that has an agent: True, False with the incident's kind as
reason, or Unknown; with a heartbeat, so that one can see when nobody looks any more. And, where `taint` is on, a taint
on the few nodes of which `notify.acting` allows it.

What stands is read from the cluster by LIST and WATCH, so a restart of the centre neither repeats nor forgets; the
taint's value is the incident for which it was set. A taint is changed only in the version of the node that was read:
what somebody else changed meanwhile is never undone. With `dry_run` every request carries dryRun=All: the API server
checks rights and form, and keeps nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Iterable, Mapping

from fabricmon.kubernetes.client import CONFLICT, ApiError, Client, server
from fabricmon.kubernetes.listwatch import ListWatch
from fabricmon.kubernetes.objects import NODES, Condition, Node, Taint, node, seconds
from fabricmon.notify.acting import Deed, Held, decide
from fabricmon.notify.links import Links
from fabricmon.notify.matchers import parse
from fabricmon.notify.node_condition import UNWATCHED, Verdict, verdicts
from fabricmon.runtime import logs
from fabricmon.senders.acting import Diary, Report, Standing, past
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
from fabricmon.senders.kubernetes_settings import Config

__all__ = ["Actor", "Config", "open"]

MANAGER = "fabricmon"  # name of the field manager
WRITES = 500  # conditions written in one call; news comes before heartbeats
AT_ONCE = 4  # requests
BELIEVED = 60.0  # seconds what was just written is taken to stand, until the watch shows it
RETRY_MAX = 60.0  # longest pause after the API server could not be asked
MAX_PROBED = 10_000  # requests of a dry run that are remembered, so that each is made once


class Actor:
    """Serves one entry below `senders:`."""

    def __init__(self, name: str, config: Config, links: Links) -> None:
        self.period = float(config.period)
        self._name, self._config, self._links = name, config, links
        self._terms, self._matchers = config.terms(), tuple(map(parse, config.match))
        self._client: Client | None = None
        self._nodes: ListWatch[Node] | None = None
        self._following: asyncio.Task[None] | None = None
        self._listed = asyncio.Event()
        self._error = "the cluster's nodes are not listed yet"
        self._written: dict[str, tuple[Condition, float]] = {}
        self._marked: dict[str, tuple[str, float]] = {}  # node -> value of the taint just set, "" of one just removed
        self._probed: dict[tuple[str, str, str], None] = {}
        self._begun: float | None = None
        self._log = logs.get(part="kubernetes", actor=name)

    async def close(self) -> None:
        """Let go of connections; conditions and taints stay, and the last heartbeat tells how old they are."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        if self._nodes is not None:
            self._nodes.close()
        if self._client is not None:
            await self._client.close()
        self._following = self._nodes = self._client = None

    async def act(self, standing: Standing, diary: Diary) -> Report:
        """Bring conditions and taints to what stands."""
        report = Report(dry=self._config.dry_run)
        try:
            nodes = await self._cluster()
        except ApiError as error:
            report.error = str(error)
            return report
        if self._begun is None:
            self._begun = standing.at
        names = pairs((n.node for n in standing.nodes), nodes)
        # Taints first: a condition makes another version of the node, and a taint asks for the one that was read.
        if self._config.taint:
            await self._taint(standing, diary, nodes, names, report)
        await self._tell(standing, nodes, names, report)
        return report

    # ---------------------------------------------------------------- what the cluster shows

    async def _cluster(self) -> dict[str, Node]:
        """Nodes by name as they are now. ApiError while that is not known."""
        if self._following is None:
            config = self._config
            self._client = Client(server(config.api, config.token_file, config.ca_file), float(config.timeout))
            self._nodes = ListWatch(self._client, NODES, node)
            self._following = asyncio.create_task(
                self._nodes.keep(self._heard, self._failed, RETRY_MAX, random.Random()), name=f"nodes {self._name}"
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(float(config.timeout)):
                    await self._listed.wait()
        if self._error or self._nodes is None:
            raise ApiError(self._error)
        return {one.name: one for one in self._nodes.items.values()}

    def _heard(self) -> None:
        self._error = ""
        self._listed.set()

    def _failed(self, error: str) -> None:
        self._error = error
        self._listed.set()

    # ---------------------------------------------------------------- conditions

    async def _tell(
        self, standing: Standing, nodes: Mapping[str, Node], names: Mapping[str, str], report: Report
    ) -> None:
        config, at = self._config, standing.at
        said = verdicts(standing.incidents, standing.nodes, config.condition_severity, self._matchers,
                        float(config.unknown_after), at, self._links)  # fmt: skip
        wanted = {names[name]: verdict for name, verdict in said.items() if name in names}
        if self._begun is not None and at - self._begun >= config.unknown_after:
            # After a restart the fleet takes a moment to be whole; then who is not in it is watched by nobody.
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

    def _current(self, one: Node, at: float) -> Condition | None:
        """The node's condition, with what was written just now and the watch may not show yet."""
        shown = one.condition(self._config.condition)
        written = self._written.get(one.name)
        if written is None:
            return shown
        seen = seconds(shown.last_heartbeat_time) if shown is not None else None
        if at - written[1] > BELIEVED or (seen is not None and seen >= math.floor(written[1])):
            del self._written[one.name]
            return shown
        return written[0]

    async def _write(
        self, gate: asyncio.Semaphore, name: str, before: Condition | None, verdict: Verdict, at: float, report: Report
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

    # ---------------------------------------------------------------- taints

    async def _taint(
        self, standing: Standing, diary: Diary, nodes: Mapping[str, Node], names: Mapping[str, str], report: Report
    ) -> None:
        at, theirs = standing.at, {name: mine for mine, name in names.items()}
        marks = {one.name: value for one in nodes.values() if (value := self._mark(one, at)) is not None}
        held = [Held(theirs.get(name, name), value) for name, value in marks.items()]
        behind = await past(diary, {h.incident for h in held}, standing.incidents)
        taken = {n.node: "it is no node of the cluster" for n in standing.nodes if n.node not in names}
        found = decide(self._terms, [*standing.incidents, *behind], standing.silenced, standing.nodes, held, taken,
                       standing.deeds, at)  # fmt: skip
        report.withheld = found.withheld
        for mine, incident in found.act:
            await self._act(diary, nodes[names[mine]], mine, incident.id, False, at, report)
        for each in found.undo:
            if each.node in names:
                await self._act(diary, nodes[names[each.node]], each.node, each.incident, True, at, report)
        report.held = len(held) + sum(not d.undo for d in report.done) - sum(d.undo for d in report.done)

    def _mark(self, one: Node, at: float) -> str | None:
        """The incident for which a node is tainted, with what was done just now; None where it is not."""
        shown = next((t.value for t in one.taints if t.key == self._config.taint_key), None)
        marked = self._marked.get(one.name)
        if marked is not None and (at - marked[1] > BELIEVED or (shown or "") == marked[0]):
            del self._marked[one.name]
            marked = None
        return shown if marked is None else marked[0] or None

    async def _act(
        self, diary: Diary, one: Node, mine: str, incident: str, undo: bool, at: float, report: Report
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
            report.failed[mine] = "the node was changed meanwhile" if changed else f"{deed.verb}: {error}"
            return
        report.done.append(deed)
        if not config.dry_run:
            self._marked[one.name] = ("" if undo else incident, at)

    # ---------------------------------------------------------------- requests

    async def _patch(self, path: str, body: bytes, media: str) -> None:
        if self._client is None:
            raise ApiError("closed")
        dry = {"dryRun": "All"} if self._config.dry_run else {}
        await self._client.patch(path, body, media, {"fieldManager": MANAGER, **dry})

    def _unprobed(self, *request: str) -> bool:
        """Whether a dry run makes this request for the first time."""
        key = (request[0], request[1], request[2])
        if key in self._probed:
            return False
        if len(self._probed) >= MAX_PROBED:
            self._probed.pop(next(iter(self._probed)))
        self._probed[key] = None
        return True


def open(name: str, config: Config, links: Links) -> Actor:
    """The actor of one entry."""
    return Actor(name, config, links)


def pairs(fleet: Iterable[str], nodes: Mapping[str, Node]) -> dict[str, str]:
    """Name in the fleet -> name in the cluster: the same, or the same but for the domain where only one is so."""
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
