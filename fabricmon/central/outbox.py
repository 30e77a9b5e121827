"""The outbox: brings every notification that the store holds to its receiver, in order and at least once.

Each receiver has a lane of its own (lane.py), so one that is away holds up nobody. Nothing is kept here that a kill
could lose. docs/design/outbox.md says what is promised and why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import aiohttp

from fabricmon.central.lane import Delivery, Lane
from fabricmon.central.records import Backlog
from fabricmon.central.store import Store
from fabricmon.model import Notification
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.runtime.supervise import keep
from fabricmon.senders.destination import Destination

PRUNE_EVERY = 3600.0  # seconds
MAX_CONNECTIONS = 64


class Outbox:
    """Delivery to a set of destinations that may be changed while it runs."""

    def __init__(
        self,
        store: Store,
        destinations: Sequence[Destination],
        notify: NotifyConfig,
        backlog: dict[str, Backlog] | None = None,
    ) -> None:
        """`backlog` is State.backlog: what waits from before a restart."""
        self._store, self._notify = store, notify
        self._log = logs.get(part="outbox")
        self._said = logs.Transitions(self._log)
        self._wanted = {d.name: d for d in destinations}
        self._deliveries: dict[str, Delivery] = {}
        for name, waiting in (backlog or {}).items():
            self._deliveries[name] = Delivery(depth=waiting.depth, oldest=waiting.oldest)
        for name in self._wanted:
            self._deliveries.setdefault(name, Delivery())
        self._lanes: dict[str, tuple[Lane, list[asyncio.Task[None]]]] = {}
        self._served: dict[str, tuple[Destination | None, NotifyConfig]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Deliver until cancelled. What is under way then is sent again after a restart, with the same key."""
        connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
            group.create_task(keep(self._prune, self._broken("prune")))
            while True:
                self._changed.clear()
                self._reconcile(session, group)
                await self._changed.wait()

    def configure(self, destinations: Sequence[Destination], notify: NotifyConfig) -> None:
        """New destinations from now on; what waits for a name that is no longer among them stays in the store."""
        self._notify = notify
        self._wanted = {d.name: d for d in destinations}
        for name in self._wanted:
            self._deliveries.setdefault(name, Delivery())
        self._changed.set()

    def accept(self, notifications: Iterable[Notification]) -> None:
        """These were committed: start on them at once."""
        for note in notifications:
            delivery = self._deliveries.setdefault(note.receiver, Delivery())
            delivery.depth += 1
            delivery.oldest = note.created if delivery.oldest is None else delivery.oldest
            if note.receiver in self._lanes:
                self._lanes[note.receiver][0].wake()

    @property
    def full(self) -> frozenset[str]:
        """Receivers for which nothing more may be planned now (`plan.decide(full=...)`)."""
        return frozenset(name for name, d in self._deliveries.items() if d.depth >= self._notify.backlog)

    def deliveries(self) -> dict[str, Delivery]:
        """By receiver; also of those for which something waits and that are configured no longer."""
        return self._deliveries

    # ---------------------------------------------------------------- lanes

    def _reconcile(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        for name, (_, tasks) in list(self._lanes.items()):
            if self._served.get(name) != (self._wanted.get(name), self._notify):
                for task in tasks:
                    task.cancel()
                del self._lanes[name]
        for name, destination in self._wanted.items():
            if name in self._lanes:
                continue
            lane = Lane(self._store, destination, self._deliveries[name], self._notify, self._said)
            runs = {"deliver": lane.deliver, **({"refresh": lane.refresh} if destination.refresh_period else {})}
            tasks = [
                group.create_task(keep(partial(run, session), self._broken(f"{what} {name}")))
                for what, run in runs.items()
            ]
            self._lanes[name] = (lane, tasks)
            self._served[name] = (destination, self._notify)
        for name, delivery in self._deliveries.items():
            if delivery.depth and name not in self._wanted:
                self._log.warning(
                    "notifications wait for a receiver that is not configured; they stay until it is again",
                    receiver=name,
                    waiting=delivery.depth,
                )

    async def _prune(self) -> None:
        while True:
            await self._store.prune(time.time())
            await asyncio.sleep(PRUNE_EVERY)

    def _broken(self, what: str) -> Callable[[Exception], None]:
        def tell(error: Exception) -> None:
            text = repr(error)
            self._said.tell(
                what, text, "a part of the outbox failed and is started anew", bad=True, part=what, error=text
            )

        return tell
