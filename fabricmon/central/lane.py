"""One receiver's lane of the outbox: reads what waits for it, sends it, marks what became of it.

In order, one at a time. A receiver that does not answer is waited for; one that answers but keeps failing on one
notification (its own fault in handling that body) is given the others meanwhile, except further words on the same
incidents.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from fabricmon.central.records import FAILED, PENDING, SENT, SUPERSEDED, Ack
from fabricmon.central.store import Store, StoreError
from fabricmon.model import Notification
from fabricmon.notify.coalesce import superseded
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.senders.alertmanager import RESEND_RESOLVED
from fabricmon.senders.destination import Destination
from fabricmon.senders.result import NO_RECEIPTS, Outcome, Result

PAGE = 64  # notifications in memory
MAX_RETRY_AFTER = 3600.0  # seconds a receiver may ask us to wait
PATIENCE = 8  # answers "not now" to one notification until the lane goes on with others: two minutes with the defaults
LEAST_REST = 0.02  # seconds between two looks at a page of which nothing may be sent now
MAX_ASIDE = 4  # notifications gone round like that; a receiver that fails on more is taken to be unwell itself


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


class Lane:
    """Serves one destination; `delivery` is what others may look at."""

    def __init__(
        self, store: Store, destination: Destination, delivery: Delivery, notify: NotifyConfig, said: logs.Transitions
    ) -> None:
        self.destination, self.delivery = destination, delivery
        self._store, self._notify, self._said = store, notify, said
        self._woken = asyncio.Event()
        self._failures: dict[str, int] = {}  # answers "not now" by key, of the present page
        self._aside: dict[str, float] = {}  # key -> monotonic time of its next attempt, of the present page

    def wake(self) -> None:
        """Something new waits."""
        self._woken.set()

    async def deliver(self, session: aiohttp.ClientSession) -> None:
        """For ever: what waits, in order."""
        while True:
            self._woken.clear()
            notes = await self._page()
            rest = await self._pass(session, notes)
            if rest is not None:
                await self._rest(rest)

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """For ever: say what stands, at once and then every refresh period.

        What was told is refreshed even while a silence covers it: otherwise the receiver would take it for ended and
        tell people so.
        """
        while True:
            standing = await self._store.standing(self.destination.name, time.time() - RESEND_RESOLVED)
            if standing:
                result = await self.destination.refresh(session, standing)
                good = result.outcome is Outcome.DONE
                self.delivery.refreshed += good
                self.delivery.refresh_failed += not good
                self._tell("refresh", good, result.reason)
            await asyncio.sleep(self.destination.refresh_period)

    async def _page(self) -> list[Notification]:
        """The oldest that wait, without those that a later one supersedes."""
        name = self.destination.name
        notes = [item.notification for item in await self._store.pending(name, PAGE)]
        gone = superseded(notes)
        if gone:
            now = time.time()
            await self._store.commit(acked=[Ack(key, SUPERSEDED, now, attempts=0) for key in sorted(gone)])
            self.delivery.superseded += len(gone)
        waiting = (await self._store.backlog()).get(name)
        self.delivery.depth, self.delivery.oldest = (waiting.depth, waiting.oldest) if waiting else (0, None)
        keys = {note.key for note in notes} - gone
        self._failures = {key: n for key, n in self._failures.items() if key in keys}
        self._aside = {key: at for key, at in self._aside.items() if key in keys}
        return [note for note in notes if note.key in keys]

    async def _pass(self, session: aiohttp.ClientSession, notes: list[Notification]) -> float | None:
        """Send what may be sent of a page. None when there may be more; else seconds to rest, infinity until
        woken."""
        held: set[str] = set()  # incidents of which an earlier word is still owed
        loop = asyncio.get_running_loop()
        sent = False
        for note in notes:
            about = {incident.id for incident in note.incidents}
            if about & held or self._aside.get(note.key, 0.0) > loop.time():
                held |= about
                continue
            result = await self._attempt(session, note)
            if result.outcome is not Outcome.RETRY:
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
                # Look anew after the pause: meanwhile a later telling may have superseded this one.
                await asyncio.sleep(wait)
                return None
            self._aside[note.key] = loop.time() + wait
            held |= about
        if sent:
            return None
        return min(self._aside.values(), default=float("inf")) - loop.time()

    async def _rest(self, seconds: float) -> None:
        """Until something new waits, or for so long."""
        try:
            async with asyncio.timeout(None if seconds == float("inf") else max(LEAST_REST, seconds)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _attempt(self, session: aiohttp.ClientSession, note: Notification) -> Result:
        """Send once; what is done with, for better or worse, is so in the store when this returns."""
        delivery = self.delivery
        try:
            receipts = await self._receipts(note)
            result = await self.destination.send(session, note, receipts)
        except Exception as error:
            # A sender's own fault must not lose what it could not send, nor hold up what it can.
            result = Result(Outcome.RETRY, f"sender failed: {error!r}", answered=True)
        delivery.attempts += 1
        if result.outcome is Outcome.RETRY:
            delivery.retried += 1
            delivery.error = result.reason
            if result.receipts:  # part of it is told; that is not told again
                await self._mark(Ack(note.key, PENDING, time.time(), 0, "", self.destination.name, result.receipts))
            self._tell("delivery", False, result.reason)
            return result
        done = result.outcome is Outcome.DONE
        state, refusal = (SENT, "") if done else (FAILED, result.reason)
        tries = self._failures.get(note.key, 0) + 1
        await self._mark(Ack(note.key, state, time.time(), tries, refusal, self.destination.name, result.receipts))
        delivery.attempts, delivery.error = 0, refusal
        delivery.depth = max(0, delivery.depth - 1)
        if done:
            delivery.sent += 1
            self._tell("delivery", True, result.reason)
        else:
            delivery.failed += 1
            logs.get(part="outbox").error(
                "a notification was refused for good and is dropped; it stays in the store as failed",
                receiver=self.destination.name,
                key=note.key,
                incidents=[i.id for i in note.incidents],
                reason=result.reason,
            )
        return result

    async def _receipts(self, note: Notification) -> Mapping[str, str]:
        """What this receiver answered before that it needs to go on; nothing for those that need nothing."""
        if not self.destination.keeps:
            return NO_RECEIPTS
        return await self._store.receipts(self.destination.name, [incident.id for incident in note.incidents])

    async def _mark(self, ack: Ack) -> None:
        """Have it in the store what became of a notification. While the store fails nothing more is sent: a receiver
        that has it must not get it again and again because our disk is full."""
        tries = 0
        while True:
            try:
                await self._store.commit(acked=[ack])
            except StoreError as error:
                tries += 1
                self._tell("bookkeeping", False, str(error))
                await asyncio.sleep(pause(tries, None, self._notify.retry_min, self._notify.retry_max, random.random()))
            else:
                if tries:
                    self._tell("bookkeeping", True, "")
                return

    def _tell(self, what: str, good: bool, reason: str) -> None:
        """Log when a receiver goes away and when it is back, not each attempt between."""
        self._said.tell(
            f"{what} {self.destination.name}",
            "well" if good else "away",
            f"{what} works again" if good else f"{what} fails; it is tried again",
            bad=not good,
            receiver=self.destination.name,
            reason=reason,
        )


def pause(attempts: int, retry_after: float | None, least: float, most: float, jitter: float) -> float:
    """Seconds until the next attempt after `attempts` failed ones: doubling from `least` to `most`, 50 to 100 % of
    it by `jitter` (0..1), so that many centres do not come back at one moment; never sooner than the receiver
    asked, up to MAX_RETRY_AFTER."""
    wait: float = min(most, least * 2.0 ** min(attempts - 1, 30)) * (0.5 + 0.5 * jitter)
    return max(wait, min(retry_after or 0.0, MAX_RETRY_AFTER))
