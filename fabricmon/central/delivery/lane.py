"""One receiver's lane of the outbox: sends its queued notifications in order, one at a time, and stores the outcome.

Without an answer the lane waits. Where a receiver answers but keeps failing on one notification, the others are sent
meanwhile, except those of the same incidents. Where the store fails or hangs, the lane delivers what it holds in memory
and records the outcomes later; nothing is sent twice for it, unless the process is killed before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import aiohttp

from fabricmon.central.delivery.lane_queue import PAGE, LaneQueue
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import FAILED, PENDING, SENT, SUPERSEDED, Ack
from fabricmon.central.store.store import Store
from fabricmon.model import Incident, Notification
from fabricmon.notify.coalesce import superseded
from fabricmon.notify.last_notification import LastNotification, last_notifications
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.runtime.descriptors import DescriptorReserve
from fabricmon.senders.alertmanager import RESEND_RESOLVED
from fabricmon.senders.attempt import NO_RECEIPTS, Attempt, DeliveryOutcome
from fabricmon.senders.destination import Destination

MAX_RETRY_AFTER = 3600.0  # seconds of a receiver's Retry-After at most
PATIENCE = 8  # failed answers to one notification until others are sent first: two minutes with the defaults
LEAST_REST = 0.02  # seconds until a page is read again of which nothing may be sent now
STORE_WAIT = 1.0  # seconds for the store to answer until the lane continues without it
LAST_ANSWER = 2.0  # seconds of a receiver for its answer once the lane ends, well below the process's limit for a stop
MAX_ASIDE = 4  # notifications set aside; a receiver that fails on more is treated as down


@dataclass(slots=True)
class Delivery:
    """Delivery to one receiver: counters since the start, and gauges.

    sent, failed, superseded  notifications; failed: rejected permanently
    retried                   attempts that will be repeated
    refreshed, refresh_failed periodic repeats of the current state, for receivers that need them
    depth, oldest             queued notifications, and wall time of the oldest (None: none)
    attempts                  failed attempts in a row
    error                     of the last attempt, "" when it was accepted
    queue                     what is in memory; it outlives a lane, so that a reload repeats nothing
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
    queue: LaneQueue = field(default_factory=LaneQueue)


class DeliveryLane:
    """Delivery to one destination; `delivery` is its public state."""

    def __init__(
        self,
        store: Store,
        destination: Destination,
        delivery: Delivery,
        notify: NotifyConfig,
        transitions: logs.Transitions,
        timer: Callable[[], AbstractContextManager[object]],
        descriptors: DescriptorReserve,
        pacing: Pacing,
        now: Callable[[], float],
    ) -> None:
        """`timer` returns a context manager that measures an attempt. `pacing` gets the answers, at `now`."""
        self.destination, self.delivery, self._pacing, self._now = destination, delivery, pacing, now
        self._store, self._notify, self._transitions, self._timer = store, notify, transitions, timer
        self._descriptors = descriptors
        self._queue = delivery.queue
        self._woken = asyncio.Event()
        self._turn: asyncio.Task[None] | None = None  # with the store
        self._overdue = False  # whether that turn took longer than STORE_WAIT
        self._standing: dict[str, tuple[Incident, LastNotification]] = {}  # as last refreshed, by incident id
        self._failures: dict[str, int] = {}  # failed answers by key, of the current page
        self._aside: dict[str, float] = {}  # key -> monotonic time of its next attempt, of the current page

    def accept(self, notes: Sequence[Notification]) -> None:
        """These were queued in the store."""
        self._queue.accept(notes)
        if self.destination.refresh_period:
            for note in notes:
                for incident, last in zip(note.incidents, last_notifications(note), strict=True):
                    self._standing[incident.id] = (incident, last)
        self._woken.set()

    async def deliver(self, session: aiohttp.ClientSession) -> None:
        """Send what is queued, in order, until cancelled."""
        try:
            while True:
                self._woken.clear()
                await self._keep_books(reading=not self._queue.complete)
                rest = await self._pass(session, self._page())
                if rest is not None:
                    await self._rest(rest)
        finally:
            if self._turn is not None:
                self._turn.cancel()

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """Send the current state at once and then every refresh period, until cancelled.

        Notified incidents are refreshed even while silenced: otherwise the receiver would report them as resolved.
        """
        while True:
            standing = await self._known_standing(time.time() - RESEND_RESOLVED)
            if standing:
                with self._descriptors.lent():
                    result = await self.destination.refresh(session, standing)
                good = result.outcome is DeliveryOutcome.DONE
                self.delivery.refreshed += good
                self.delivery.refresh_failed += not good
                self._log_state("refresh", good, result.reason)
            await asyncio.sleep(self.destination.refresh_period)

    async def _known_standing(self, since: float) -> list[tuple[Incident, LastNotification]]:
        """The current state from the store; where that does not answer, as known: without a repetition the receiver
        would take open incidents for resolved."""
        try:
            async with asyncio.timeout(STORE_WAIT):
                found = await self._store.standing(self.destination.name, since)
            self._standing = {incident.id: (incident, last) for incident, last in found}
        except (TimeoutError, StoreError):
            found = [both for both in self._standing.values() if both[1].firing or both[1].at >= since]
        return found

    def _page(self) -> list[Notification]:
        """The oldest queued notifications, without superseded ones."""
        notes = self._queue.waiting()
        gone = superseded(notes)
        now = time.time()
        for key in sorted(gone):
            self._queue.finish(Ack(key, SUPERSEDED, now, attempts=0))
        for note in notes:
            if note.key in gone:
                self._pacing.superseded(note, self._now())
        self.delivery.superseded += len(gone)
        self.delivery.depth = max(0, self.delivery.depth - len(gone))
        left = self._queue.waiting()
        if self._queue.complete:
            self.delivery.oldest = min((note.created for note in left), default=None)
        keys = {note.key for note in left}
        self._failures = {key: n for key, n in self._failures.items() if key in keys}
        self._aside = {key: at for key, at in self._aside.items() if key in keys}
        return left

    async def _keep_books(self, reading: bool = False) -> None:
        """A turn with the store: record outcomes, read a page. Waits for it at most STORE_WAIT; it continues then, and
        wakes the lane at its end."""
        if self._turn is None or self._turn.done():
            if not reading and not self._queue.outcomes:
                return
            self._turn, self._overdue = asyncio.create_task(self._have_turn(reading)), False
            self._turn.add_done_callback(lambda _: self._woken.set())
        if not self._overdue:
            # A receiver whose answers are kept is sent nothing before they are stored: follow-ups need them.
            limit = None if self.destination.keeps else STORE_WAIT
            await asyncio.wait({self._turn}, timeout=limit)
            self._overdue = not self._turn.done()
        if self._turn.done():
            self._turn.result()

    async def _have_turn(self, reading: bool) -> None:
        """Record the outcomes, then read the oldest queued notifications. Repeated until the store does both."""
        tries = 0
        while True:
            try:
                outcomes = list(self._queue.outcomes.values())
                await self._store.commit(acked=outcomes)
                self._queue.recorded(outcomes)
                if reading:
                    await self._read()
            except StoreError as error:
                tries += 1
                self._log_state("store", False, str(error))
                await asyncio.sleep(pause(tries, None, self._notify.retry_min, self._notify.retry_max, random.random()))
            else:
                if tries:
                    self._log_state("store", True, "")
                return

    async def _read(self) -> None:
        name, delivery = self.destination.name, self.delivery
        self._queue.reading()
        page = [item.notification for item in await self._store.pending(name, PAGE)]
        waiting = (await self._store.backlog()).get(name)
        depth = waiting.depth if waiting else 0
        self._queue.filled(page, depth)
        if self._queue.complete:
            self._pacing.undelivered(name, {note.key for note in self._queue.waiting()})
        delivery.depth = max(depth - len(self._queue.outcomes), len(self._queue.waiting()))
        delivery.oldest = waiting.oldest if waiting else None

    async def _pass(self, session: aiohttp.ClientSession, notes: list[Notification]) -> float | None:
        """Send what may be sent of a page. None when there may be more; else seconds to wait, infinity until woken."""
        held: set[str] = set()  # incidents with an earlier notification that is not delivered
        loop = asyncio.get_running_loop()
        sent = False
        for note in notes:
            about = {incident.id for incident in note.incidents}
            if about & held or self._aside.get(note.key, 0.0) > loop.time():
                held |= about
                continue
            result = await self._attempt(session, note)
            if result.outcome is not DeliveryOutcome.RETRY:
                sent = True
                continue
            failures = self._failures[note.key] = self._failures.get(note.key, 0) + result.answered
            wait = pause(
                max(failures, self.delivery.attempts),
                result.retry_after,
                self._notify.retry_min,
                self._notify.retry_max,
                random.random(),
            )
            may_wait_aside = note.key in self._aside or len(self._aside) < MAX_ASIDE
            if not result.answered or failures < PATIENCE or result.retry_after is not None or not may_wait_aside:
                # Read the page again after the pause: a later notification may supersede this one.
                await asyncio.sleep(wait)
                return None
            self._aside[note.key] = loop.time() + wait
            held |= about
        if sent:
            return None
        return min(self._aside.values(), default=float("inf")) - loop.time()

    async def _rest(self, seconds: float) -> None:
        """Wait until woken, at most `seconds`."""
        try:
            async with asyncio.timeout(None if seconds == float("inf") else max(LEAST_REST, seconds)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _attempt(self, session: aiohttp.ClientSession, note: Notification) -> Attempt:
        """Send once. A lane that ends meanwhile gives the receiver LAST_ANSWER seconds, so that what it accepts is
        recorded and not sent again after a regular stop."""
        sending = asyncio.create_task(self._send(session, note))
        try:
            return await asyncio.shield(sending)
        finally:
            try:
                await asyncio.wait({sending}, timeout=LAST_ANSWER)
            finally:
                sending.cancel()

    async def _send(self, session: aiohttp.ClientSession, note: Notification) -> Attempt:
        """Send once; a final outcome is in the store on return."""
        delivery = self.delivery
        try:
            receipts = await self._receipts(note)
            with self._timer(), self._descriptors.lent():
                result = await self.destination.send(session, note, receipts)
        except Exception as error:
            # A bug in a sender must neither lose this notification nor block others.
            result = Attempt.retry(f"sender failed: {error!r}", answered=True)
        delivery.attempts += 1
        if result.outcome is DeliveryOutcome.RETRY:
            delivery.retried += 1
            delivery.error = result.reason
            if result.receipts:  # part of it was delivered and is not repeated
                await self._save(Ack(note.key, PENDING, time.time(), 0, "", self.destination.name, result.receipts))
            self._log_state("delivery", False, result.reason)
            return result
        done = result.outcome is DeliveryOutcome.DONE
        state, refusal = (SENT, "") if done else (FAILED, result.reason)
        tries = self._failures.get(note.key, 0) + 1
        self._pacing.answered(note, self._now())
        self._queue.finish(Ack(note.key, state, time.time(), tries, refusal, self.destination.name, result.receipts))
        await self._keep_books()
        delivery.attempts, delivery.error = 0, refusal
        delivery.depth = max(0, delivery.depth - 1)
        if done:
            delivery.sent += 1
            self._log_state("delivery", True, result.reason)
        else:
            delivery.failed += 1
            logs.get(part="outbox").error(
                "notification rejected permanently and dropped; stored as failed",
                receiver=self.destination.name,
                key=note.key,
                incidents=[i.id for i in note.incidents],
                reason=result.reason,
            )
        return result

    async def _receipts(self, note: Notification) -> Mapping[str, str]:
        """Earlier answers of this receiver that it needs for follow-ups; empty for most receivers."""
        if not self.destination.keeps:
            return NO_RECEIPTS
        return await self._store.receipts(self.destination.name, [incident.id for incident in note.incidents])

    async def _save(self, receipts: Ack) -> None:
        """Store the answers to a part of a notification, before the rest is sent."""
        tries = 0
        while True:
            try:
                await self._store.commit(acked=[receipts])
            except StoreError as error:
                tries += 1
                self._log_state("store", False, str(error))
                await asyncio.sleep(pause(tries, None, self._notify.retry_min, self._notify.retry_max, random.random()))
            else:
                return

    def _log_state(self, what: str, good: bool, reason: str) -> None:
        """Log the first failure and the recovery, not each attempt."""
        self._transitions.note(
            f"{what} {self.destination.name}",
            "ok" if good else "failing",
            f"{what} works again" if good else f"{what} fails; retrying",
            bad=not good,
            receiver=self.destination.name,
            reason=reason,
        )


def pause(attempts: int, retry_after: float | None, least: float, most: float, jitter: float) -> float:
    """Seconds until the next attempt after `attempts` failed ones: doubling from `least` to `most`, 50 to 100 % of
    it by `jitter` (0..1), at least `retry_after` up to MAX_RETRY_AFTER."""
    wait: float = min(most, least * 2.0 ** min(attempts - 1, 30)) * (0.5 + 0.5 * jitter)
    return max(wait, min(retry_after or 0.0, MAX_RETRY_AFTER))
