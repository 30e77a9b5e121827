"""The outbox: brings every notification that the store holds to its receiver, in order and at least once.

Each receiver has a lane of its own, so one that is away holds up nobody. A lane reads pages from the store, sends one
notification at a time and marks it done in the store; it keeps nothing that a kill could lose. docs/design/outbox.md
says what is promised and why.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import aiohttp

from fabricmon.central.store import FAILED, SENT, SUPERSEDED, Ack, Backlog, Store, StoreError
from fabricmon.model import Notification
from fabricmon.notify.coalesce import superseded
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.runtime.supervise import keep
from fabricmon.senders.alertmanager import RESEND_RESOLVED
from fabricmon.senders.destination import Destination
from fabricmon.senders.result import Outcome, Result

PAGE = 64  # notifications of one receiver in memory
MAX_RETRY_AFTER = 3600.0  # seconds a receiver may ask us to wait
PRUNE_EVERY = 3600.0  # seconds
MAX_CONNECTIONS = 64


@dataclass(slots=True)
class Delivery:
    """How one receiver is doing: counters since the start, and gauges.

    sent, failed (refused for good), retried (attempts that will be repeated), superseded: notifications.
    refreshed, refresh_failed: sayings of what stands, for receivers that keep state.
    depth, oldest   undelivered notifications, and wall time at which the oldest of them was made (None: none).
    attempts        failed attempts in a row; error: what the last attempt said, "" when it was accepted.
    """

    sent: int = 0
    failed: int = 0
    retried: int = 0
    superseded: int = 0
    refreshed: int = 0
    refresh_failed: int = 0
    depth: int = 0
    oldest: float | None = None
    attempts: int = 0
    error: str = ""


@dataclass(slots=True)
class _Lane:
    destination: Destination
    delivery: Delivery
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


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
        self._lanes: dict[str, _Lane] = {}
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
            lane = self._lanes.get(note.receiver)
            if lane is not None:
                lane.woken.set()

    @property
    def full(self) -> frozenset[str]:
        """Receivers for which nothing more may be planned now (`plan.decide(full=...)`)."""
        return frozenset(name for name, d in self._deliveries.items() if d.depth >= self._notify.backlog)

    def deliveries(self) -> dict[str, Delivery]:
        """By receiver; also of those for which something waits and that are configured no longer."""
        return self._deliveries

    # ---------------------------------------------------------------- lanes

    def _reconcile(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        for name, lane in list(self._lanes.items()):
            if self._wanted.get(name) != lane.destination:
                for task in lane.tasks:
                    task.cancel()
                del self._lanes[name]
        for name, destination in self._wanted.items():
            if name in self._lanes:
                continue
            lane = _Lane(destination, self._deliveries[name])
            self._lanes[name] = lane
            lane.tasks.append(group.create_task(self._serve(session, lane), name=f"outbox {name}"))
            if destination.refresh_period:
                lane.tasks.append(group.create_task(self._stand(session, lane), name=f"refresh {name}"))
        for name, delivery in self._deliveries.items():
            if delivery.depth and name not in self._wanted:
                self._log.warning(
                    "notifications wait for a receiver that is not configured; they stay until it is again",
                    receiver=name,
                    waiting=delivery.depth,
                )

    async def _serve(self, session: aiohttp.ClientSession, lane: _Lane) -> None:
        await keep(lambda: self._deliver(session, lane), self._broken(f"lane {lane.destination.name}"))

    async def _deliver(self, session: aiohttp.ClientSession, lane: _Lane) -> None:
        while True:
            lane.woken.clear()
            page = await self._store.pending(lane.destination.name, PAGE)
            waiting = (await self._store.backlog()).get(lane.destination.name)
            lane.delivery.depth, lane.delivery.oldest = (waiting.depth, waiting.oldest) if waiting else (0, None)
            if not page:
                await lane.woken.wait()
                continue
            notes = [item.notification for item in page]
            gone = superseded(notes)
            if gone:
                now = time.time()
                await self._store.commit(acked=[Ack(key, SUPERSEDED, now, attempts=0) for key in sorted(gone)])
                lane.delivery.superseded += len(gone)
            for note in notes:
                if note.key in gone:
                    continue
                if not await self._attempt(session, lane, note):
                    # Look anew after the pause: meanwhile a later telling may have superseded this one.
                    break

    async def _attempt(self, session: aiohttp.ClientSession, lane: _Lane, note: Notification) -> bool:
        """Whether this notification is done with; if not, the pause before its next attempt is over."""
        destination, delivery = lane.destination, lane.delivery
        try:
            result = await destination.send(session, note)
        except Exception as error:
            # A sender's own fault must not lose what it could not send.
            result = Result(Outcome.RETRY, f"sender failed: {error!r}")
        delivery.attempts += 1
        if result.outcome is Outcome.RETRY:
            delivery.retried += 1
            delivery.error = result.reason
            self._tell(destination, "delivery", False, result.reason)
            await asyncio.sleep(self._pause(delivery.attempts, result.retry_after))
            return False
        done = result.outcome is Outcome.DONE
        state, refusal = (SENT, "") if done else (FAILED, result.reason)
        await self._mark(lane, Ack(note.key, state, time.time(), delivery.attempts, refusal))
        delivery.attempts, delivery.error = 0, "" if done else result.reason
        delivery.depth = max(0, delivery.depth - 1)
        if done:
            delivery.sent += 1
            self._tell(destination, "delivery", True, result.reason)
        else:
            delivery.failed += 1
            self._log.error(
                "a notification was refused for good and is dropped; it stays in the store as failed",
                receiver=destination.name,
                key=note.key,
                incidents=[i.id for i in note.incidents],
                reason=result.reason,
            )
        return True

    async def _mark(self, lane: _Lane, ack: Ack) -> None:
        """Have it in the store what became of a notification. While the store fails nothing more is sent: a receiver
        that has it must not get it again and again because our disk is full."""
        tries = 0
        while True:
            try:
                await self._store.commit(acked=[ack])
            except StoreError as error:
                tries += 1
                self._tell(lane.destination, "bookkeeping", False, str(error))
                await asyncio.sleep(self._pause(tries, None))
            else:
                if tries:
                    self._tell(lane.destination, "bookkeeping", True, "")
                return

    def _pause(self, attempts: int, retry_after: float | None) -> float:
        return pause(attempts, retry_after, self._notify.retry_min, self._notify.retry_max, random.random())

    async def _stand(self, session: aiohttp.ClientSession, lane: _Lane) -> None:
        """Say what stands, at once and then every refresh period. What was told is refreshed even while a silence
        covers it: otherwise the receiver would take it for ended and tell people so."""
        destination, delivery = lane.destination, lane.delivery

        async def repeat() -> None:
            while True:
                standing = await self._store.standing(destination.name, time.time() - RESEND_RESOLVED)
                if standing:
                    result = await destination.refresh(session, standing)
                    good = result.outcome is Outcome.DONE
                    delivery.refreshed += good
                    delivery.refresh_failed += not good
                    self._tell(destination, "refresh", good, result.reason)
                await asyncio.sleep(destination.refresh_period)

        await keep(repeat, self._broken(f"refresh {destination.name}"))

    async def _prune(self) -> None:
        while True:
            await self._store.prune(time.time())
            await asyncio.sleep(PRUNE_EVERY)

    def _tell(self, destination: Destination, what: str, good: bool, reason: str) -> None:
        """Log when a receiver goes away and when it is back, not each attempt between."""
        self._said.tell(
            f"{what} {destination.name}",
            "well" if good else "away",
            f"{what} works again" if good else f"{what} fails; it is tried again",
            bad=not good,
            receiver=destination.name,
            reason=reason,
        )

    def _broken(self, what: str) -> Callable[[Exception], None]:
        def tell(error: Exception) -> None:
            text = repr(error)
            self._said.tell(
                what, text, "a part of the outbox failed and is started anew", bad=True, part=what, error=text
            )

        return tell


def pause(attempts: int, retry_after: float | None, least: float, most: float, jitter: float) -> float:
    """Seconds until the next attempt after `attempts` failed ones: doubling from `least` to `most`, 50 to 100 % of
    it by `jitter` (0..1), so that many centres do not come back at one moment; never sooner than the receiver
    asked, up to MAX_RETRY_AFTER."""
    wait: float = min(most, least * 2.0 ** min(attempts - 1, 30)) * (0.5 + 0.5 * jitter)
    return max(wait, min(retry_after or 0.0, MAX_RETRY_AFTER))
