"""One receiver's lane against a store and a receiver in memory: what is sent, recorded, repeated and logged."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import structlog

from fabricmon.central.delivery import lane as lanes
from fabricmon.central.delivery.lane import Delivery, DeliveryLane
from fabricmon.central.delivery.lane_queue import LaneQueue
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import FAILED, PENDING, SENT, SUPERSEDED, Ack, Backlog, PendingNotification
from fabricmon.model import Notification
from fabricmon.notify.last_notification import LastNotification
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.settings import NotifyConfig
from fabricmon.runtime import logs
from fabricmon.senders.alertmanager import RESEND_RESOLVED
from fabricmon.senders.attempt import Attempt
from fabricmon.units import Duration
from tests.notify.made import T0, incident, note
from tests.notify.test_coalesce import queue

QUICK = NotifyConfig(retry_min=Duration(0.001), retry_max=Duration(0.002), backlog=10)


@pytest.fixture(autouse=True)
def every_line_is_logged() -> None:
    """Other tests of this process may have asked for errors only."""
    structlog.reset_defaults()


class Store:
    """`failing`: operations that raise; `hanging`: those that do not answer."""

    def __init__(self, *queued: Notification) -> None:
        self.queued = {one.key: one for one in queued}
        self.acks: list[Ack] = []
        self.kept: dict[str, str] = {}
        self.stands: list[tuple[Any, LastNotification]] = []
        self.since = 0.0
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        self.read = 0

    async def _answer(self, what: str) -> None:
        if what in self.hanging:
            await asyncio.sleep(3600)
        if what in self.failing:
            raise StoreError("disk full")

    async def commit(self, acked: Sequence[Ack]) -> None:
        await self._answer("commit")
        self.acks += acked
        for ack in acked:
            if ack.state != PENDING:
                self.queued.pop(ack.key, None)

    async def pending(self, _name: str, limit: int) -> list[PendingNotification]:
        await self._answer("pending")
        self.read += 1
        return [PendingNotification(seq, one) for seq, one in enumerate(list(self.queued.values())[:limit])]

    async def backlog(self) -> dict[str, Backlog]:
        oldest = min((one.created for one in self.queued.values()), default=0.0)
        return {"ops": Backlog(len(self.queued), oldest)} if self.queued else {}

    async def receipts(self, _name: str, ids: Sequence[str]) -> dict[str, str]:
        return {id: self.kept[id] for id in ids if id in self.kept}

    async def standing(self, _name: str, since: float) -> list[tuple[Any, LastNotification]]:
        await self._answer("standing")
        self.since = since
        return self.stands


class Receiver:
    """Answers as told, then accepts; an event: accepts once it is set."""

    name = "ops"

    def __init__(self, *answers: Any, keeps: bool = False, period: float = 0.0) -> None:
        self.answers, self.keeps, self.refresh_period = list(answers), keeps, period
        self.got: list[str] = []
        self.receipts: list[Mapping[str, str]] = []
        self.refreshed: list[list[str]] = []

    async def send(self, _session: object, one: Notification, receipts: Mapping[str, str]) -> Attempt:
        self.got.append(one.key)
        self.receipts.append(dict(receipts))
        answer = self.answers.pop(0) if self.answers else Attempt.done("ok")
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return Attempt.done("ok")
        return answer

    async def refresh(self, _session: object, standing: Sequence[tuple[Any, LastNotification]]) -> Attempt:
        self.refreshed.append([known.id for known, _ in standing])
        return self.answers.pop(0) if self.answers else Attempt.done("ok")


class Lent:
    def lent(self) -> Any:
        return nullcontext()


def lane_of(store: Store, receiver: Receiver, delivery: Delivery | None = None) -> DeliveryLane:
    return DeliveryLane(
        store, receiver, delivery or Delivery(), QUICK, logs.Transitions(logs.get(part="outbox")),  # type: ignore[arg-type]
        nullcontext, Lent(), Pacing(), itertools.count(T0).__next__,  # type: ignore[arg-type]
    )  # fmt: skip


async def until(lane: DeliveryLane, done: Callable[[], bool], run: str = "deliver") -> None:
    task = asyncio.create_task(getattr(lane, run)(None))
    try:
        async with asyncio.timeout(20):
            while not done() and not task.done():
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def notes(*keys: str) -> list[Notification]:
    return [note(key, incident(key), created=T0 + at) for at, key in enumerate(keys)]


async def test_what_is_queued_is_sent_in_order_and_recorded() -> None:
    store, receiver, delivery = Store(*notes("a", "b", "c")), Receiver(), Delivery()
    lane = lane_of(store, receiver, delivery)
    await until(lane, lambda: len(store.acks) == 3)
    assert receiver.got == ["a", "b", "c"]
    assert [(ack.key, ack.state, ack.attempts, ack.receiver) for ack in store.acks] == [
        (key, SENT, 1, "ops") for key in "abc"
    ]
    assert (delivery.sent, delivery.failed, delivery.retried, delivery.depth) == (3, 0, 0, 0)
    assert (delivery.attempts, delivery.error) == (0, "")
    assert store.read == 1  # the whole queue is in memory


@pytest.mark.parametrize("in_time", [True, False])
async def test_what_is_under_way_at_a_stop_is_recorded_where_the_receiver_answers_soon(
    in_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LAST_ANSWER", 20.0 if in_time else 0.0)
    store, answer = Store(*notes("a", "b")), asyncio.Event()
    receiver = Receiver(answer)
    task = asyncio.create_task(lane_of(store, receiver).deliver(None))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        while not receiver.got:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        if in_time:
            answer.set()
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert receiver.got == ["a"], "nothing else is begun"
    assert [(ack.key, ack.state) for ack in store.acks] == ([("a", SENT)] if in_time else [])


async def test_a_refusal_is_recorded_as_failed_with_its_reason_and_logged() -> None:
    store, delivery = Store(*notes("a", "b")), Delivery()
    with structlog.testing.capture_logs() as logged:
        await until(lane_of(store, Receiver(Attempt.never("HTTP 400")), delivery), lambda: len(store.acks) == 2)
    assert [(ack.key, ack.state, ack.error) for ack in store.acks] == [("a", FAILED, "HTTP 400"), ("b", SENT, "")]
    assert (delivery.sent, delivery.failed, delivery.depth, delivery.error) == (1, 1, 0, "")
    (line,) = logged
    assert (line["receiver"], line["key"], line["incidents"], line["reason"]) == ("ops", "a", ["a"], "HTTP 400")


async def test_failed_attempts_are_counted_until_one_is_accepted_and_each_trouble_logged_once() -> None:
    store, delivery = Store(*notes("a", "b")), Delivery()
    away = [Attempt.retry("no answer")] * 3
    receiver = Receiver(*away, ValueError("odd"), Attempt.retry("busy", answered=True))
    with structlog.testing.capture_logs() as logged:
        await until(lane_of(store, receiver, delivery), lambda: len(store.acks) == 2)
    assert receiver.got == ["a"] * 6 + ["b"]
    assert [ack.attempts for ack in store.acks] == [3, 1]  # only those that the receiver processed, and the last
    assert (delivery.retried, delivery.sent, delivery.attempts, delivery.error) == (5, 2, 0, "")
    assert [(line["event"], line["reason"]) for line in logged] == [
        ("delivery fails; retrying", "no answer"), ("delivery works again", "ok"),
    ]  # fmt: skip


async def test_one_that_fails_again_and_again_lets_others_pass_but_not_those_of_its_incident() -> None:
    first, other = note("a", incident("x")), note("b", incident("y"))
    later = note("c", incident("x", status="resolved", resolved=T0 + 9), reason="resolved")
    store, choked = Store(first, later, other), [Attempt.retry("500", answered=True)] * (lanes.PATIENCE + 1)
    receiver = Receiver(*choked[:-1])
    await until(lane_of(store, receiver), lambda: len(store.acks) == 3)
    assert receiver.got[: lanes.PATIENCE] == ["a"] * lanes.PATIENCE
    assert receiver.got[lanes.PATIENCE :] == ["b", "a", "c"]
    assert [ack.key for ack in store.acks] == ["b", "a", "c"]
    assert [ack.attempts for ack in store.acks] == [1, lanes.PATIENCE + 1, 1]


async def test_a_receiver_that_asks_for_time_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, float | None, float, float]] = []

    def pause(attempts: int, retry_after: float | None, least: float, most: float, _jitter: float) -> float:
        asked.append((attempts, retry_after, least, most))
        return 0.0

    monkeypatch.setattr(lanes, "pause", pause)
    busy = Attempt.retry("429", retry_after=7.0, answered=True)
    store, receiver = Store(*notes("a", "b")), Receiver(*[busy] * (lanes.PATIENCE + 1), Attempt.retry("no answer"))
    await until(lane_of(store, receiver), lambda: len(store.acks) == 2)
    assert receiver.got == ["a"] * (lanes.PATIENCE + 3) + ["b"]  # it answers: others wait as long
    assert asked[:-1] == [(number, 7.0, 0.001, 0.002) for number in range(1, lanes.PATIENCE + 2)]
    assert asked[-1] == (lanes.PATIENCE + 2, None, 0.001, 0.002)


async def test_what_is_superseded_is_recorded_as_such_and_not_sent() -> None:
    store, delivery, receiver = Store(*queue([["fire"] * 3])), Delivery(), Receiver()
    first, second, last = store.queued
    await until(lane_of(store, receiver, delivery), lambda: len(store.acks) == 3)
    assert sorted((ack.key, ack.state, ack.attempts) for ack in store.acks) == sorted(
        [(first, SUPERSEDED, 0), (second, SUPERSEDED, 0), (last, SENT, 1)]
    )
    assert (receiver.got, delivery.superseded, delivery.sent, delivery.depth) == ([last], 2, 1, 0)


# --- the store


async def test_what_is_in_memory_is_delivered_while_the_store_hangs_and_recorded_once_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "STORE_WAIT", 0.005)
    store, receiver, delivery = Store(), Receiver(), Delivery(queue=LaneQueue())
    delivery.queue.filled([], 0)
    lane = lane_of(store, receiver, delivery)
    store.hanging = {"commit"}
    lane.accept(notes("a", "b"))
    await until(lane, lambda: receiver.got == ["a", "b"])
    assert store.acks == []
    store.hanging = set()
    await until(lane, lambda: len(store.acks) == 2)
    assert receiver.got == ["a", "b"]
    assert sorted(ack.key for ack in store.acks) == ["a", "b"]


async def test_a_store_that_fails_is_tried_again_and_logged_once() -> None:
    store, receiver = Store(*notes("a")), Receiver()
    store.failing = {"pending"}
    lane = lane_of(store, receiver)
    with structlog.testing.capture_logs() as logged:
        task = asyncio.create_task(lane.deliver(None))  # type: ignore[arg-type]
        await asyncio.sleep(0.03)
        assert receiver.got == []
        store.failing = set()
        async with asyncio.timeout(10):
            while not store.acks:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = [(line["event"], line["log_level"], line["reason"]) for line in logged]
    assert found == [("store fails; retrying", "warning", "disk full"), ("store works again", "info", "")]


async def test_parts_that_were_delivered_are_kept_before_the_rest_is_sent_and_follow_ups_get_them() -> None:
    half = Attempt.retry("second half failed", answered=True)._replace(receipts={"a": "thread-1"})
    store, receiver = Store(*notes("a", "b")), Receiver(half, keeps=True)
    store.kept = {"b": "thread-0"}
    await until(lane_of(store, receiver), lambda: len(store.acks) == 3)
    kept, *_ = store.acks
    assert (kept.key, kept.state, kept.attempts, kept.receipts) == ("a", PENDING, 0, {"a": "thread-1"})
    assert [ack.state for ack in store.acks] == [PENDING, SENT, SENT]
    assert receiver.receipts == [{}, {}, {"b": "thread-0"}]
    plain = Receiver()
    await until(lane_of(Store(*notes("b")), plain), lambda: bool(plain.got))
    assert plain.receipts == [{}]


# --- repetition of the current state


def standing(id: str, status: str = "firing", at: float = T0) -> tuple[Any, LastNotification]:
    return incident(id), LastNotification("ops", id, status, 1, at, ())


async def test_the_current_state_is_repeated_and_its_failures_counted() -> None:
    store, delivery = Store(), Delivery()
    store.stands = [standing("a"), standing("b", "resolved")]
    receiver = Receiver(Attempt.done("ok"), Attempt.retry("503"), Attempt.never("400"), period=0.001)
    with structlog.testing.capture_logs() as logged:
        await until(lane_of(store, receiver, delivery), lambda: len(receiver.refreshed) > 4, "refresh")
    assert receiver.refreshed[0] == ["a", "b"]
    assert (delivery.refresh_failed, delivery.refreshed >= 3) == (2, True)
    assert [(line["event"], line["reason"]) for line in logged] == [
        ("refresh fails; retrying", "503"), ("refresh works again", "ok"),
    ]  # fmt: skip
    assert store.since == pytest.approx(time.time() - RESEND_RESOLVED, abs=60)


@pytest.mark.parametrize("trouble", ["failing", "hanging"])
async def test_without_the_store_what_is_known_is_repeated_except_ends_of_long_ago(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "STORE_WAIT", 0.005)
    store, receiver = Store(), Receiver(period=0.001)
    now = time.time()
    store.stands = [standing("a"), standing("b", "resolved", now), standing("c", "resolved", now - RESEND_RESOLVED - 5)]
    lane = lane_of(store, receiver)
    await until(lane, lambda: bool(receiver.refreshed), "refresh")
    assert receiver.refreshed[0] == ["a", "b", "c"]  # the store decides what it gives
    getattr(store, trouble).add("standing")
    receiver.refreshed.clear()
    lane.accept(notes("d"))
    await until(lane, lambda: bool(receiver.refreshed), "refresh")
    assert set(receiver.refreshed[0]) == {"a", "b", "d"}
