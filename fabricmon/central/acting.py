"""Runs the senders that act: tells each what stands, writes down what it is about to do, says what came of it.

Each is served by a task of its own, one call at a time, so a scheduler that hangs delays nobody. What is allowed is
decided in `notify/acting.py`; what one has done is read from the world, and the store keeps a diary besides, for the
limit of actions an hour and for people.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from fabricmon.central.centre import Centre
from fabricmon.central.store import Store, StoreError
from fabricmon.config import Root
from fabricmon.model import Incident
from fabricmon.notify.acting import HOUR, Deed
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.runtime import logs
from fabricmon.runtime.supervise import keep
from fabricmon.senders import ACTING
from fabricmon.senders.acting import Actor, Report, Standing

CALL_LIMIT = 600.0  # seconds for one call, all of its requests together
MOST_TOLD = 200  # nodes of one report that are logged; more are counted


@dataclass(frozen=True, slots=True)
class Acting:
    """One entry below `senders:` that acts."""

    name: str
    kind: str
    config: Any
    links: Links = NO_LINKS

    def open(self) -> Actor:
        """Its actor; KeyError for a kind that ACTING has not."""
        module: ModuleType = ACTING[self.kind]
        actor: Actor = module.open(self.name, self.config, self.links)
        return actor


@dataclass(slots=True)
class ActingState:
    """How one actor is doing: counters since the start, and what its last report said.

    done    actions by verb; in a dry run they are none
    failed  actions that did not succeed
    """

    done: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    report: Report = field(default_factory=Report)
    error: str = ""


def acting(config: Root) -> list[Acting]:
    """Who acts."""
    links = config.central.as_links()
    return [Acting(name, s.kind, s.config, links) for name, s in config.senders.items() if s.kind in ACTING]


def standing(centre: Centre) -> Standing | None:
    """What stands at the centre now; None before the fleet was judged once."""
    if not centre.ticks.count:
        return None
    at, _, nodes, incidents = centre.look()
    silences = centre.silences.active(at)
    silenced = frozenset(i.id for i in incidents if any(s.covers(i) for s in silences))
    return Standing(at, incidents, silenced, nodes)


class Diary:
    """What an actor writes into during a call (`senders.acting.Diary`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, deed: Deed) -> None:
        await self._store.commit(deeds=[deed])

    async def incidents(self, ids: Collection[str]) -> Sequence[Incident]:
        return await self._store.incidents(ids) if ids else []


class Actors:
    """All actors of a centre; `states` is what others may look at."""

    def __init__(self, store: Store, look: Callable[[], Standing | None], wanted: Sequence[Acting]) -> None:
        """`look` gives what stands, None before the fleet was judged once."""
        self._store, self._look = store, look
        self._wanted = {each.name: each for each in wanted}
        self._tasks: dict[str, tuple[Acting, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        self._log = logs.get(part="acting")
        self._said = logs.Transitions(self._log)
        self.states: dict[str, ActingState] = {name: ActingState() for name in self._wanted}

    def configure(self, wanted: Sequence[Acting]) -> None:
        """Other actors from now on. What one that is gone has done stays as it is."""
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
        """What is wrong with acting, for the page."""
        found = [f"{name} cannot act: {state.error}" for name, state in self.states.items() if state.error]
        for name, state in self.states.items():
            for node, why in list(state.report.failed.items())[:3]:
                found.append(f"{name} could not act on {node}: {why}")
        return found

    async def _serve(self, acting: Acting) -> None:
        actor = acting.open()
        try:
            while True:
                standing = self._look()
                if standing is not None:
                    await self._once(acting.name, actor, standing)
                await asyncio.sleep(actor.period)
        finally:
            await actor.close()

    async def _once(self, name: str, actor: Actor, standing: Standing) -> None:
        deeds = await self._store.deeds(name, standing.at - HOUR)
        seen = Standing(standing.at, standing.incidents, standing.silenced, standing.nodes, deeds)
        try:
            async with asyncio.timeout(CALL_LIMIT):
                report = await actor.act(seen, Diary(self._store))
        except TimeoutError:
            report = Report(error=f"no end within {CALL_LIMIT:g} s")
        except StoreError as error:
            report = Report(error=f"nothing is done that cannot be written down: {error}")
        self._take(name, report)

    def _take(self, name: str, report: Report) -> None:
        state = self.states.setdefault(name, ActingState())
        state.report, state.error = report, report.error
        well = "acting works" if not report.error else "acting fails; nothing is done until it works"
        self._said.tell(name, "well" if not report.error else "away", well, bad=bool(report.error), actor=name,
                        reason=report.error)  # fmt: skip
        for deed in report.done:
            if report.dry:
                self._tell(name, deed.node, f"would {deed.verb}", "nothing done: this is a dry run", deed.incident)
                continue
            state.done[deed.verb] += 1
            self._log.warning("acted", actor=name, verb=deed.verb, node=deed.node, incident=deed.incident)
        state.failed += len(report.failed)
        for node, why in list(report.failed.items())[:MOST_TOLD]:
            self._tell(name, node, "failed", why, "")
        for node, why in list(report.withheld.items())[:MOST_TOLD]:
            self._tell(name, node, "nothing done", why, "")

    def _tell(self, name: str, node: str, state: str, why: str, incident: str) -> None:
        """Once until it is another."""
        about = {"incident": incident} if incident else {}
        self._said.tell(f"{name} {node}", f"{state} {why}", state, bad=True, actor=name, node=node, why=why, **about)

    def _broken(self, name: str, error: Exception) -> None:
        state = self.states.setdefault(name, ActingState())
        state.error = repr(error)
        self._said.tell(name, "broken", "an actor failed and is started anew", bad=True, actor=name, reason=repr(error))
