"""Delivery: in order, at least once, one receiver's trouble its own. Against real receivers on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from fabricmon.central.delivery.lane import MAX_RETRY_AFTER, pause
from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.store import Store
from fabricmon.model import Face, Notification
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders.destination import Destination, destination
from fabricmon.senders.webhook import WebhookConfig
from fabricmon.units import Duration
from tests.notify.made import incident, note
from tests.rigs.daemons import free_port
from tests.rigs.served import Served, serve

QUICK = NotifyConfig(retry_min=Duration(0.01), retry_max=Duration(0.05), backlog=10)


class Hook:
    """A receiver that can be there or not, on one port, and answers what it is told to."""

    def __init__(self) -> None:
        self.port = free_port()
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[int] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.chokes_on: set[str] = set()  # incident ids
        self._served: Served | None = None

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.got]

    def to(self, name: str = "ops") -> Destination:
        return destination(name, "webhook", WebhookConfig(f"http://127.0.0.1:{self.port}/"), QUICK)

    async def up(self) -> None:
        async def take(request: web.Request) -> web.Response:
            self.got.append((request.headers["Idempotency-Key"], json.loads(await request.read())))
            if self.chokes_on & {i["id"] for i in self.got[-1][1]["incidents"]}:
                return web.Response(status=500)
            await self.may_answer.wait()
            return web.Response(status=self.answers.pop(0) if self.answers else 204)

        app = web.Application()
        app.router.add_post("/", take)
        self._served = await serve(app, port=self.port)

    async def down(self) -> None:
        if self._served is not None:
            await self._served.stop()
            self._served = None


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    await made.up()
    yield made
    await made.down()


@asynccontextmanager
async def running(
    store: Store, *destinations: Destination, registry: CollectorRegistry | None = None
) -> AsyncIterator[Outbox]:
    outbox = Outbox(store, destinations, QUICK, store.load().backlog, registry)
    task = asyncio.create_task(outbox.run())
    try:
        yield outbox
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not what():
        assert time.monotonic() < end, "did not come true"
        await asyncio.sleep(0.005)


async def put(store: Store, outbox: Outbox, *notes: Notification) -> None:
    await store.commit(notifications=notes)
    outbox.accept(notes)


def notes(count: int, receiver: str = "ops") -> list[Notification]:
    return [note(f"{receiver}-{n}", incident(f"i-{n}"), receiver=receiver) for n in range(count)]


async def test_what_is_committed_arrives_in_order_and_once(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(200))
        await until(lambda: outbox.deliveries()["ops"].sent == 200)
        assert hook.keys == [f"ops-{n}" for n in range(200)]
        await until(lambda: outbox.deliveries()["ops"].oldest is None)
        assert outbox.deliveries()["ops"].depth == 0
    assert await store.backlog() == {}
    store.close()


async def test_what_waits_from_before_a_restart_is_delivered(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    await store.commit(notifications=notes(3))
    store.close()
    store = Store(tmp_path)
    async with running(store, hook.to()) as outbox:
        assert outbox.deliveries()["ops"].depth == 3
        await until(lambda: len(hook.got) == 3)
    store.close()


async def test_a_receiver_that_is_away_gets_it_later_with_the_same_key(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    hook.answers = [503, 429, 500]
    registry = CollectorRegistry()
    async with running(store, hook.to(), registry=registry) as outbox:
        await put(store, outbox, *notes(2))
        await until(lambda: outbox.deliveries()["ops"].sent == 2)
        attempts = "fabricmon_central_delivery_duration_seconds_count"
        assert registry.get_sample_value(attempts, {"receiver": "ops"}) == 5
        assert hook.keys == ["ops-0"] * 4 + ["ops-1"]
        assert outbox.deliveries()["ops"].retried == 3
        await hook.down()
        await put(store, outbox, note("later", incident()))
        await until(lambda: outbox.deliveries()["ops"].attempts >= 2)
        assert "Connect" in outbox.deliveries()["ops"].error
        await hook.up()
        await until(lambda: hook.keys[-1] == "later")
        await until(lambda: outbox.deliveries()["ops"].error == "")
    store.close()


async def test_a_refusal_is_final_kept_and_holds_up_nothing(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    hook.answers = [400]
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(2))
        await until(lambda: outbox.deliveries()["ops"].sent == 1)
        assert hook.keys == ["ops-0", "ops-1"]
        assert outbox.deliveries()["ops"].failed == 1
    [(refused, ack)] = await store.finished("failed")
    assert (refused.key, ack.error) == ("ops-0", "HTTP 400")
    store.close()


async def test_a_notification_on_which_a_receiver_chokes_holds_up_only_its_own_incident(
    tmp_path: Path, hook: Hook
) -> None:
    store = Store(tmp_path)
    hook.chokes_on = {"bad"}
    over = [note("bad-over", incident("bad", status="resolved")), note("after", incident("i-9"))]
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, note("bad-new", incident("bad")), *notes(3), *over)
        await until(lambda: outbox.deliveries()["ops"].sent == 4)
        assert "bad-over" not in hook.keys, "the end never overtakes the beginning"
        await put(store, outbox, note("more", incident("i-10")))
        await until(lambda: outbox.deliveries()["ops"].sent == 5)
        hook.chokes_on = set()
        await until(lambda: outbox.deliveries()["ops"].sent == 7)
        assert [k for k in hook.keys if k != "bad-new"] == ["ops-0", "ops-1", "ops-2", "after", "more", "bad-over"]
    assert await store.backlog() == {}
    store.close()


async def test_one_receivers_trouble_is_its_own(tmp_path: Path, hook: Hook) -> None:
    store, dead = Store(tmp_path), Hook()
    async with running(store, dead.to("dead"), hook.to("well")) as outbox:
        await put(store, outbox, *notes(3, "dead"), *notes(3, "well"))
        await until(lambda: outbox.deliveries()["well"].sent == 3)
        assert outbox.deliveries()["dead"].depth == 3
    store.close()


async def test_a_receiver_that_comes_back_hears_what_is_true_and_every_end(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    await hook.down()
    look = Face("link_flapping", "link(host-007/mlx5_3/i-0)", incident().severity)
    over = incident("i-1", status="resolved")
    told = [
        note("new", incident("i-0")),
        note("repeat-1", incident("i-0"), before={"i-0": (look,)}),
        note("short", incident("i-1")),
        note("short-over", over, before={"i-1": (look,)}),
        note("repeat-2", incident("i-0"), before={"i-0": (look,)}),
    ]
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *told)
        await until(lambda: outbox.deliveries()["ops"].superseded == 2)
        await hook.up()
        await until(lambda: len(hook.got) == 3)
        assert hook.keys == ["short", "short-over", "repeat-2"]
        await until(lambda: outbox.deliveries()["ops"].depth == 0)
    assert sorted(n.key for n, _ in await store.finished("superseded")) == ["new", "repeat-1"]
    store.close()


async def test_a_full_outbox_says_so_and_a_drained_one_does_not(tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    await hook.down()
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(QUICK.backlog - 1))
        assert outbox.full == frozenset()
        await put(store, outbox, note("last", incident()))
        assert outbox.full == {"ops"}
        await hook.up()
        await until(lambda: not outbox.full)
    store.close()


async def test_receivers_change_while_it_runs(tmp_path: Path, hook: Hook) -> None:
    store, second = Store(tmp_path), Hook()
    await second.up()
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(1), *notes(1, "second"))
        await until(lambda: outbox.deliveries()["ops"].sent == 1)
        assert outbox.deliveries()["second"].depth == 1, "it waits for a receiver that is not there"
        outbox.configure([second.to("second")], QUICK)
        await until(lambda: len(second.got) == 1)
        await put(store, outbox, note("more", incident()))
        await put(store, outbox, note("more-2", incident(), receiver="second"))
        await until(lambda: second.keys == ["second-0", "more-2"])
        assert len(hook.got) == 1, "nobody serves the removed one"
        outbox.configure([hook.to(), second.to("second")], QUICK)
        await until(lambda: hook.keys == ["ops-0", "more"])
    await second.down()
    store.close()


@pytest.mark.parametrize("how", ["stop", "reload"])
async def test_what_is_under_way_is_not_sent_again(how: str, tmp_path: Path, hook: Hook) -> None:
    store = Store(tmp_path)
    hook.may_answer.clear()

    async def answer() -> None:
        await asyncio.sleep(0.05)
        hook.may_answer.set()

    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(2))
        await until(lambda: len(hook.got) == 1)
        answering = asyncio.create_task(answer())
        if how == "reload":
            outbox.configure([hook.to()], replace(QUICK, backlog=11))
            await until(lambda: len(hook.got) == 2)
    await answering
    async with running(store, hook.to()) as outbox:
        await until(lambda: len(hook.got) == 2)
        await until(lambda: outbox.deliveries()["ops"].depth == 0)
    assert hook.keys == ["ops-0", "ops-1"]
    store.close()


async def test_a_senders_own_fault_loses_nothing(tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    store, dest = Store(tmp_path), hook.to()
    right, calls = dest.module.send, []

    async def wrong_once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise ZeroDivisionError
        return await right(*args)

    monkeypatch.setattr(dest.module, "send", wrong_once)
    async with running(store, dest) as outbox:
        await put(store, outbox, *notes(1))
        await until(lambda: outbox.deliveries()["ops"].sent == 1)
        assert outbox.deliveries()["ops"].retried == 1
    store.close()


async def test_a_disk_that_fails_does_not_make_us_repeat(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, failures = Store(tmp_path), []
    right = store.commit

    async def full_thrice(**what: Any) -> None:
        if what.get("acked") and len(failures) < 3:
            failures.append(what)
            raise StoreError("disk full")
        await right(**what)

    monkeypatch.setattr(store, "commit", full_thrice)
    async with running(store, hook.to()) as outbox:
        await put(store, outbox, *notes(2))
        await until(lambda: outbox.deliveries()["ops"].sent == 2)
        assert len(failures) == 3
        assert hook.keys == ["ops-0", "ops-1"]
    store.close()


@given(
    st.integers(1, 10_000),
    st.none() | st.floats(0, 1e9),
    st.floats(0.001, 10),
    st.floats(1, 300),
    st.floats(0, 1),
)
def test_pauses_are_bounded(attempts: int, asked: float | None, least: float, factor: float, jitter: float) -> None:
    most = least * factor
    wait = pause(attempts, asked, least, most, jitter)
    assert 0.5 * least <= wait <= max(most, MAX_RETRY_AFTER)
    if asked is None:
        assert wait <= most
        assert pause(attempts + 1, None, least, most, jitter) >= wait
    elif asked <= MAX_RETRY_AFTER:
        assert wait >= asked
