"""A state directory of release 0.1.0: what waits is delivered as it is, what was told is not told again."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from fabricmon.central.delivery.outbox import Outbox
from fabricmon.central.store.store import Store
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.route import Receiver
from fabricmon.senders.webhook import body
from tests.notify.made import T0, due_notifications
from tests.store.test_outbox import QUICK, Hook, until

OLD = Path(__file__).with_name("state-0.1.0.sql")
OPS = Receiver("ops")


def upgraded(folder: Path) -> Store:
    """Incident i-a was told as warning (sent) and as critical (waiting), i-b as warning (waiting)."""
    db = sqlite3.connect(folder / "state.db")
    db.executescript(OLD.read_text())
    db.close()
    return Store(folder, T0 + 10)


async def test_what_waits_is_delivered_under_its_key(tmp_path: Path) -> None:
    store, hook = upgraded(tmp_path), Hook()
    assert store.damage == ""
    waiting = [item.notification for item in await store.pending("ops", 10)]
    assert [[i.id for i in n.incidents] for n in waiting] == [["i-a"], ["i-b"]]
    await hook.up()
    outbox = Outbox(store, [hook.to()], QUICK, store.load(T0 + 10).backlog)
    task = asyncio.create_task(outbox.run())
    await until(lambda: outbox.deliveries()["ops"].sent == 2)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert hook.keys == [n.key for n in waiting]
    for note, (_, got) in zip(waiting, hook.got, strict=True):
        assert got["key"] == note.key
        assert [len(i["key"]) for i in got["incidents"]] == [32]
        assert json.loads(body(note)) == {**got, "server": ""}
    await hook.down()
    store.close()


async def test_what_was_reported_is_reported_again_only_when_it_changes(tmp_path: Path) -> None:
    store = upgraded(tmp_path)
    state = store.load(T0 + 10)
    told = LastNotifications(state.notified)
    assert due_notifications(state.incidents, told, [OPS], [], T0 + 10) == []
    over = [replace(i, status="resolved", resolved=T0 + 20, revision=i.revision + 1) for i in state.incidents]
    (note,) = due_notifications(over, told, [OPS], [], T0 + 20)
    await store.commit(incidents=over, notifications=[note])
    told.add(note)
    back = [replace(i, status="firing", resolved=None, revision=i.revision + 1) for i in over]
    (again,) = due_notifications(back, told, [OPS], [], T0 + 30)
    assert (note.reason, again.reason) == ("resolved", "new incident")
    assert {state.episode.partition(".")[2] for state in again.states.values()} == {"2"}, "it began in the same minute"
    store.close()
