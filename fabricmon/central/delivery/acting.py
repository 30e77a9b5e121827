"""Runs the senders that act on schedulers: calls each with the open incidents and logs its actions.

One task per sender, one call at a time, so that a hanging scheduler delays no other. `notify/acting.py` decides what is
allowed; the store keeps each action for the hourly limit and for audit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fabricmon.central.store.database import StoreError
from fabricmon.central.store.store import Store
from fabricmon.config import Root
from fabricmon.model import Incident
from fabricmon.notify.acting import HOUR, Deed
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.runtime import logs
from fabricmon.runtime.supervise import keep
from fabricmon.senders import ACTING
from fabricmon.senders.acting import ActionReport, Actor, Standing

CALL_LIMIT = 600.0  # seconds for one call, all of its requests together
MAX_LOGGED = 200  # nodes of one report that are logged


@dataclass(frozen=True, slots=True)
class ConfiguredActor:
    """One entry below `senders:` that acts."""

    name: str
    kind: str
    config: Any
    links: IncidentLinks = NO_LINKS

    def open(self) -> Actor:
        """Its actor; KeyError for a kind that is not in ACTING."""
        actor: Actor = ACTING[self.kind].module.open(self.name, self.config, self.links)
        return actor


@dataclass(slots=True)
class ActingState:
    """State of one actor: counters since the start and the last report.

    done    actions by verb; none in a dry run
    failed  failed actions
    """

    done: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    report: ActionReport = field(default_factory=ActionReport)
    error: str = ""


def configured_actors(config: Root) -> list[ConfiguredActor]:
    """The configured senders that act."""
    links = config.central.as_links()
    return [ConfiguredActor(name, s.kind, s.config, links) for name, s in config.senders.items() if s.kind in ACTING]


class StoredActionLog:
    """`senders.acting.ActionLog` on the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, deed: Deed) -> None:
        await self._store.commit(deeds=[deed])

    async def incidents(self, ids: Collection[str]) -> Sequence[Incident]:
        return await self._store.incidents(ids) if ids else []


class Actors:
    """All actors of the server; `states` by name."""

    def __init__(
        self, store: Store, standing: Callable[[], Standing | None], wanted: Sequence[ConfiguredActor]
    ) -> None:
        """`standing` returns the current incidents, None before the first evaluation."""
        self._store, self._standing = store, standing
        self._wanted = {each.name: each for each in wanted}
        self._tasks: dict[str, tuple[ConfiguredActor, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        self._log = logs.get(part="acting")
        self._transitions = logs.Transitions(self._log)
        self.states: dict[str, ActingState] = {name: ActingState() for name in self._wanted}

    def configure(self, wanted: Sequence[ConfiguredActor]) -> None:
        """Other actors from now on. Actions of a removed one stay in place."""
        self._wanted = {each.name: each for each in wanted}
        self.states = {name: self.states.get(name, ActingState()) for name in self._wanted}
        self._changed.set()

    async def run(self) -> None:
        """Act until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                for name, (served, task) in list(self._tasks.items()):
                    if self._wanted.get(name) != served:
                        task.cancel()
                        del self._tasks[name]
                for name, wanted in self._wanted.items():
                    if name not in self._tasks:
                        serving = keep(partial(self._serve, wanted), partial(self._broken, name))
                        self._tasks[name] = (wanted, group.create_task(serving))
                await self._changed.wait()

    def warnings(self) -> list[str]:
        """Problems of actors, one sentence each."""
        found = [f"{name} cannot act: {state.error}" for name, state in self.states.items() if state.error]
        for name, state in self.states.items():
            for node, why in list(state.report.failed.items())[:3]:
                found.append(f"{name} could not act on {node}: {why}")
        return found

    async def _serve(self, configured: ConfiguredActor) -> None:
        actor = configured.open()
        try:
            while True:
                standing = self._standing()
                if standing is not None:
                    await self._once(configured.name, actor, standing)
                await asyncio.sleep(actor.period)
        finally:
            await actor.close()

    async def _once(self, name: str, actor: Actor, standing: Standing) -> None:
        deeds = await self._store.deeds(name, standing.at - HOUR)
        seen = Standing(standing.at, standing.incidents, standing.silenced, standing.nodes, deeds)
        try:
            async with asyncio.timeout(CALL_LIMIT):
                report = await actor.act(seen, StoredActionLog(self._store))
        except TimeoutError:
            report = ActionReport(error=f"not finished within {CALL_LIMIT:g} s")
        except StoreError as error:
            report = ActionReport(error=f"no action without a record in the store: {error}")
        self._report(name, report)

    def _report(self, name: str, report: ActionReport) -> None:
        state = self.states.setdefault(name, ActingState())
        state.report, state.error = report, report.error
        text = "actor fails; no actions until it works" if report.error else "actor works"
        self._transitions.note(name, text, text, bad=bool(report.error), actor=name, reason=report.error)
        for deed in report.done:
            if report.dry:
                self._log_node(name, deed.node, f"would {deed.verb}", "dry run, no action", deed.incident)
                continue
            state.done[deed.verb] += 1
            self._log.warning("action done", actor=name, verb=deed.verb, node=deed.node, incident=deed.incident)
        state.failed += len(report.failed)
        for node, why in list(report.failed.items())[:MAX_LOGGED]:
            self._log_node(name, node, "failed", why, "")
        for node, why in list(report.withheld.items())[:MAX_LOGGED]:
            self._log_node(name, node, "no action", why, "")

    def _log_node(self, name: str, node: str, state: str, why: str, incident: str) -> None:
        """Log once until the state changes."""
        about = {"incident": incident} if incident else {}
        self._transitions.note(
            f"{name} {node}", f"{state} {why}", state, bad=True, actor=name, node=node, why=why, **about
        )

    def _broken(self, name: str, error: Exception) -> None:
        state = self.states.setdefault(name, ActingState())
        state.error = repr(error)
        text = "actor failed and is restarted"
        self._transitions.note(name, "broken", text, bad=True, actor=name, reason=repr(error))
