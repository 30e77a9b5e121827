"""The outbox: delivers every stored notification to its receiver, in order and at least once (docs/design/outbox.md).

Each receiver has its own lane (lane.py), so that one that is down delays no other. All state is in the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

import aiohttp
from prometheus_client import CollectorRegistry, Histogram

from fabricmon.central.delivery.lane import Delivery, DeliveryLane
from fabricmon.central.store.records import Backlog
from fabricmon.central.store.store import Store
from fabricmon.model import Notification
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.runtime.descriptors import DescriptorReserve
from fabricmon.runtime.supervise import keep
from fabricmon.senders.destination import Destination

DURATIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram, seconds: a receiver in the same rack answers in 10 ms, attempts end after 10 s (a
receiver's default timeout) or after 30 s (a command's)."""
PRUNE_EVERY = 3600.0  # seconds
MAX_CONNECTIONS = 64


class Outbox:
    """Delivery to a set of destinations that may change at run time."""

    def __init__(
        self,
        store: Store,
        destinations: Sequence[Destination],
        notify: NotifyConfig,
        backlog: dict[str, Backlog] | None = None,
        registry: CollectorRegistry | None = None,
        descriptors: DescriptorReserve | None = None,
        pacing: Pacing | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`backlog` is StoredState.backlog: queued before a restart. `pacing` gets the answers of the receivers, with
        `now`, the clock of the plan."""
        self._store, self._notify, self._pacing, self._now = store, notify, pacing or Pacing(), now
        self._descriptors = descriptors or DescriptorReserve(0)
        self._durations = Histogram(
            "fabricmon_central_delivery_duration_seconds",
            "Duration of an attempt to deliver a notification, successful or not", ["receiver"],
            unit="seconds", registry=registry, buckets=DURATIONS,
        )  # fmt: skip
        self._log = logs.get(part="outbox")
        self._transitions = logs.Transitions(self._log)
        self._wanted = {d.name: d for d in destinations}
        self._deliveries: dict[str, Delivery] = {}
        for name, waiting in (backlog or {}).items():
            self._deliveries[name] = Delivery(depth=waiting.depth, oldest=waiting.oldest)
        for name in self._wanted:
            self._deliveries.setdefault(name, Delivery())
        self._lanes: dict[str, tuple[DeliveryLane, list[asyncio.Task[None]]]] = {}
        self._ending: dict[str, set[asyncio.Task[None]]] = {}  # of lanes before: an attempt may be in progress
        self._served: dict[str, tuple[Destination | None, NotifyConfig]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Deliver until cancelled. An attempt that the receiver does not answer soon is repeated after a restart, with
        the same key."""
        connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
            group.create_task(keep(self._prune, self._broken("prune")))
            while True:
                self._changed.clear()
                self._reconcile(session, group)
                await self._changed.wait()

    def configure(self, destinations: Sequence[Destination], notify: NotifyConfig) -> None:
        """Other destinations from now on; what is queued for a removed one stays in the store."""
        self._notify = notify
        self._wanted = {d.name: d for d in destinations}
        for name in self._wanted:
            self._deliveries.setdefault(name, Delivery())
        self._changed.set()

    def accept(self, notifications: Iterable[Notification]) -> None:
        """Notifications that a commit queued."""
        by_receiver: dict[str, list[Notification]] = {}
        for note in notifications:
            delivery = self._deliveries.setdefault(note.receiver, Delivery())
            delivery.depth += 1
            delivery.oldest = note.created if delivery.oldest is None else delivery.oldest
            by_receiver.setdefault(note.receiver, []).append(note)
        for receiver, notes in by_receiver.items():
            if receiver in self._lanes:
                self._lanes[receiver][0].accept(notes)
            else:
                self._deliveries[receiver].queue.complete = False

    @property
    def full(self) -> frozenset[str]:
        """Receivers with a full queue (`plan_notifications(full=...)`)."""
        return frozenset(name for name, d in self._deliveries.items() if d.depth >= self._notify.backlog)

    def deliveries(self) -> dict[str, Delivery]:
        """By receiver, also removed ones with queued notifications."""
        return self._deliveries

    # ---------------------------------------------------------------- lanes

    def _reconcile(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        for name, (_, tasks) in list(self._lanes.items()):
            if self._served.get(name) != (self._wanted.get(name), self._notify):
                for task in tasks:
                    task.cancel()
                ending = self._ending.setdefault(name, set())
                ending.update(tasks)
                for task in tasks:
                    task.add_done_callback(ending.discard)
                del self._lanes[name]
        for name, destination in self._wanted.items():
            if name in self._lanes:
                continue
            lane = DeliveryLane(
                self._store, destination, self._deliveries[name], self._notify, self._transitions,
                self._durations.labels(name).time, self._descriptors, self._pacing, self._now,
            )  # fmt: skip
            runs = {"deliver": lane.deliver, **({"refresh": lane.refresh} if destination.refresh_period else {})}
            tasks = [
                group.create_task(self._run(name, partial(run, session), self._broken(f"{what} {name}")))
                for what, run in runs.items()
            ]
            self._lanes[name] = (lane, tasks)
            self._served[name] = (destination, self._notify)
        for name, delivery in self._deliveries.items():
            if delivery.depth and name not in self._wanted:
                self._log.warning(
                    "notifications are queued for a receiver that is not configured",
                    receiver=name,
                    waiting=delivery.depth,
                )

    async def _run(
        self, name: str, run: Callable[[], Awaitable[None]], failed: Callable[[Exception], None]
    ) -> None:
        """Run a lane once the one before has ended: what that still sends is not sent by both."""
        if ending := set(self._ending.get(name, ())):
            await asyncio.wait(ending)
        await keep(run, failed)

    async def _prune(self) -> None:
        while True:
            await self._store.prune(time.time())
            await asyncio.sleep(PRUNE_EVERY)

    def _broken(self, what: str) -> Callable[[Exception], None]:
        def report(error: Exception) -> None:
            text = repr(error)
            self._transitions.note(
                what, text, "a part of the outbox failed and is restarted", bad=True, part=what, error=text
            )

        return report
