"""The message budget over restarts: what was sent, what waits, and the answers of a real receiver."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path

from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.database import FILE
from fabricmon.central.store.records import FAILED, SENT, SUPERSEDED, Ack
from fabricmon.central.store.store import KEEP_RESOLVED, Store
from fabricmon.model import Face
from fabricmon.notify.due import plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.pacing import PERIOD, Pacing, Withheld
from fabricmon.notify.route import Receiver
from tests.notify.made import T0, incident, note
from tests.store.test_outbox import QUICK, Hook, until

OPS = Receiver("ops", repeat=0.0, budget=2)


def kept(store: Store, now: float) -> Pacing:
    state = store.load(now)
    return Pacing(state.sent, state.withheld)


async def test_messages_count_while_they_wait_and_for_five_minutes_after_the_answer(tmp_path: Path) -> None:
    store = Store(tmp_path, T0)
    names = ("waits", "sent", "failed", "gone", "old")
    await store.commit(notifications=[note(name, incident(name), messages=2) for name in names])
    answers = ((SENT, "sent", T0), (FAILED, "failed", T0), (SUPERSEDED, "gone", T0), (SENT, "old", T0 - PERIOD))
    await store.commit(acked=[Ack(key, state, at) for state, key, at in answers])
    assert kept(store, T0 + 1).used("ops", T0 + 1) == 6
    assert kept(store, T0 + 1).used("ops", T0 + PERIOD) == 2, "what is not delivered counts for ever"
    assert kept(store, T0 - 500).used("ops", T0 - 500 + PERIOD) == 2, "the clock was set back by more than a period"
    store.close()


async def test_a_message_that_cannot_be_read_any_more_holds_no_budget(tmp_path: Path) -> None:
    store = Store(tmp_path, T0)
    await store.commit(notifications=[note("spoilt", incident("a")), note("good", incident("b"))])
    store.close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("UPDATE outbox SET body = x'c1' WHERE key = 'spoilt'")
    db.commit()
    db.close()
    store, hook = Store(tmp_path, T0), Hook()
    pacing = kept(store, T0)
    assert pacing.used("ops", T0) == 2
    await hook.up()
    outbox = Outbox(store, [hook.to()], QUICK, store.load(T0).backlog, pacing=pacing, now=lambda: T0)
    task = asyncio.create_task(outbox.run())
    await until(lambda: hook.keys == ["good"] and pacing.used("ops", T0) == 1)
    await until(lambda: pacing.used("ops", T0 + PERIOD) == 0)  # once the receiver's answer is known
    await until(lambda: kept(store, T0 + PERIOD).used("ops", T0 + PERIOD) == 0)  # once the answer is written down
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await hook.down()
    store.close()


async def test_what_waits_is_kept_until_it_is_sent_or_released(tmp_path: Path) -> None:
    store = Store(tmp_path, T0)
    entries = [Withheld("ops", id, T0) for id in ("a", "b", "c")]
    await store.commit(withheld=entries)
    assert kept(store, T0).incidents({"ops"}) == {"a", "b", "c"}
    await store.commit(notifications=[note("k", incident("a"))], released=entries[1:2])
    assert kept(store, T0).withheld("ops") == {"c": entries[2]}
    await store.prune(T0 + KEEP_RESOLVED + 1)
    assert kept(store, T0).withheld("ops") == {}, "its incident is forgotten"
    store.close()


async def test_a_restart_neither_forgets_what_waits_nor_spends_the_budget_again(tmp_path: Path) -> None:
    store, told, all_of_them = Store(tmp_path, T0), LastNotifications(), [incident(f"i-{n}") for n in range(4)]
    for n in range(4):
        pacing = kept(store, T0 + n)
        plan = plan_notifications(all_of_them[: n + 1], told, [OPS], [], T0 + n, pacing=pacing)
        await store.commit(
            incidents=all_of_them, notifications=plan.notifications, withheld=plan.withheld, released=plan.released
        )
        for made in plan.notifications:
            told.add(made)
        store.close()
        store = Store(tmp_path, T0 + n)
        told = LastNotifications(store.load(T0 + n).notified)
        assert len(plan.notifications) == (n == 0), "of two messages one is kept for what is critical"
    assert kept(store, T0 + 4).incidents({"ops"}) == {"i-1", "i-2", "i-3"}
    store.close()


async def test_the_answers_of_a_receiver_free_its_messages_and_so_does_what_is_superseded(tmp_path: Path) -> None:
    store, hook, pacing, now = Store(tmp_path), Hook(), Pacing(), [T0]
    hook.answers = [500, 400]
    look = {"i-0": (Face("link_flapping", "link(host-007/mlx5_3/i-0)", incident().severity),)}
    notes = [
        note("refused", incident("i-9")),
        note("first", incident("i-0")),
        note("again", incident("i-0"), before=look),
    ]
    outbox = Outbox(store, [hook.to()], QUICK, pacing=pacing, now=lambda: now[0])
    task = asyncio.create_task(outbox.run())
    await store.commit(notifications=notes)
    outbox.accept(notes)
    assert pacing.used("ops", T0) == 0
    for each in notes:
        pacing.add(each)
    assert pacing.used("ops", T0) == 3
    await until(lambda: outbox.deliveries()["ops"].superseded == 1)
    assert pacing.used("ops", T0 + PERIOD) == 2, "it does not answer yet"
    await hook.up()
    await until(lambda: outbox.deliveries()["ops"].sent == 1)
    assert hook.keys == ["refused", "refused", "again"]
    assert pacing.used("ops", T0 + PERIOD - 1) == 2
    assert pacing.used("ops", T0 + PERIOD) == 0
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await hook.down()
    store.close()
