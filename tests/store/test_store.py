"""The state on disk: what is committed stays, what is damaged blocks nothing."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.central.store import database, worker
from fabricmon.central.store.database import FILE, MIGRATIONS, StoreError
from fabricmon.central.store.records import Ack, Backlog, ExpectedNode
from fabricmon.central.store.store import KEEP_FINISHED, KEEP_RESOLVED, Store
from fabricmon.model import Face, HistoryEntry, Maintenance, Severity
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.last_notification import last_notifications
from fabricmon.notify.silence import silence
from tests.notify.made import T0, incident, note


async def test_everything_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    firing, over = incident("a"), incident("b", status="resolved", resolved=T0 + 1, updated=T0 + 1)
    note_a = note("k1", firing, before={"a": (Face("link_down", firing.component, firing.severity),)})
    hush = silence("s-1", ["kind=link_flapping"], T0, T0 + 60, "me", "why")
    window = Maintenance("m-1", T0, T0 + 60, hosts=("host-1",))
    node = ExpectedNode("host-1", "10.0.0.1:9790", "agent-1", T0, T0 + 5, {"rack": "r1"})
    await store.commit(
        incidents=[firing, over], notifications=[note_a], silences=[hush], maintenance=[window], nodes=[node]
    )
    store.close()
    store = Store(tmp_path)
    state = store.load(T0 + 10)
    store.close()
    # NaN is equal to nothing, so incidents that hold one are compared by their words
    assert "nan" in repr(firing)
    assert sorted(map(repr, state.incidents)) == sorted(map(repr, [firing, over]))
    assert state.notified == last_notifications(note_a)
    assert state.notified[0].faces[0].kind == "link_down"
    assert (state.silences, state.maintenance, state.nodes) == ([hush], [window], [node])
    assert state.backlog == {"ops": Backlog(1, T0)}
    assert store.damage == ""


async def test_what_is_withdrawn_is_gone_after_a_restart_and_the_rest_is_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    nodes = [ExpectedNode(name, f"{name}:9790", "a", T0, T0) for name in ("host-1", "host-2")]
    acks = [Acknowledgement(id, T0, "me", "mine", Severity.WARNING) for id in ("i-1", "i-2")]
    await store.commit(incidents=[incident("i-1"), incident("i-2")], nodes=nodes, acknowledgements=acks)
    await store.commit(forgotten=["host-1"], withdrawn=["i-2"])
    store.close()
    store = Store(tmp_path)
    state = store.load(T0)
    assert [one.name for one in state.nodes] == ["host-2"]
    assert [one.incident for one in state.acknowledgements] == ["i-1"]
    store.close()


@pytest.mark.parametrize("change", ["incidents ADD COLUMN more INTEGER", "nodes RENAME COLUMN name TO nome"])
def test_a_schema_that_is_another_is_damage_and_a_new_database_is_begun(tmp_path: Path, change: str) -> None:
    Store(tmp_path).close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(f"ALTER TABLE {change}")
    db.commit()
    db.close()
    store = Store(tmp_path)
    assert "tables differ from the schema" in store.damage
    store.close()
    store = Store(tmp_path)
    assert store.damage == ""
    store.close()


async def test_load_leaves_out_what_was_resolved_long_ago_and_nothing_that_fires(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = incident("old", status="resolved", resolved=T0, updated=T0)
    await store.commit(incidents=[old, incident("fires")])
    assert [i.id for i in store.load(T0 + 86400).incidents] == ["fires"]
    assert [i.id for i in await store.incidents(["old", "never"])] == ["old"]
    assert [i.id for i in await store.resolved(T0 - 1)] == ["old"]
    store.close()


async def test_all_openings_that_are_kept_come_back_for_who_breaks_again_and_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for n in range(3):
        at = T0 + n * 86400.0
        opened = (HistoryEntry(at, "reopened" if n else "opened", ""), HistoryEntry(at + 5, "members", ""))
        await store.commit(incidents=[incident("again", history=opened)])
        over = (*opened, HistoryEntry(at + 60, "resolved", ""))
        await store.commit(incidents=[incident("again", status="resolved", resolved=at + 60, history=over)])
    await store.commit(incidents=[incident("note", severity=Severity.INFO)])
    (past,) = store.load(T0 + 5 * 86400).past
    store.close()
    assert (past.id, past.status) == ("again", "resolved")
    assert [(e.at, e.change) for e in past.history] == [
        (T0, "opened"), (T0 + 86400, "reopened"), (T0 + 2 * 86400, "reopened"),
    ]  # fmt: skip


async def test_the_same_commit_twice_is_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    i = incident()
    for _ in range(2):
        await store.commit(incidents=[i], notifications=[note("k1", i)])
    assert len(await store.pending("ops", 10)) == 1
    assert await store.history("i-1") == list(i.history)
    await store.commit(acked=[Ack("k1", "sent", T0)])
    await store.commit(notifications=[note("k1", i)])
    assert await store.pending("ops", 10) == [], "what was delivered is not delivered again"
    store.close()


async def test_history_keeps_what_the_incident_itself_has_dropped(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for n in range(5):
        await store.commit(incidents=[incident(history=(HistoryEntry(T0 + n, "members", f"{n} of 32"),))])
    assert [h.reason for h in await store.history("i-1")] == [f"{n} of 32" for n in range(5)]
    assert [h.reason for h in await store.history("i-1", 2)] == ["3 of 32", "4 of 32"]
    store.close()


async def test_waiting_notifications_come_in_order_and_in_pages(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.commit(notifications=[note(f"k{n}", incident(f"i-{n}")) for n in range(5)])
    await store.commit(notifications=[note("x", incident(), receiver="other")])
    assert [p.notification.key for p in await store.pending("ops", 3)] == ["k0", "k1", "k2"]
    await store.commit(acked=[Ack("k0", "sent", T0), Ack("k1", "failed", T0, 1, "HTTP 400")])
    assert [p.notification.key for p in await store.pending("ops", 3)] == ["k2", "k3", "k4"]
    assert await store.backlog() == {"ops": Backlog(3, T0), "other": Backlog(1, T0)}
    [(failed, ack)] = await store.finished("failed")
    assert (failed.key, ack.error) == ("k1", "HTTP 400")
    store.close()


async def test_an_item_that_cannot_be_stored_costs_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.commit(incidents=[incident("bad", title="\udcff"), incident("good", since=math.nan)])
    await store.commit(incidents=[incident("better")])
    assert sorted(i.id for i in store.load(T0).incidents) == ["better", "good"]
    assert store.unreadable == 1
    store.close()


async def test_a_row_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    await store.commit(
        incidents=[incident("a"), incident("b")], notifications=[note("k1", incident("a")), note("k2", incident("b"))]
    )
    store.close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("UPDATE incidents SET body = x'00' WHERE id = 'a'")
    db.execute("UPDATE outbox SET body = x'c1' WHERE key = 'k1'")
    db.commit()
    db.close()
    store = Store(tmp_path)
    assert [i.id for i in store.load(T0).incidents] == ["b"]
    assert [p.notification.key for p in await store.pending("ops", 10)] == ["k2"]
    assert store.unreadable == 3, "two bodies; the one that waited was asked for twice"
    assert await store.backlog() == {"ops": Backlog(1, T0)}, "it does not stand before the others for ever"
    store.close()


async def test_only_what_is_old_and_over_is_pruned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    over = incident("over", status="resolved", resolved=T0, updated=T0)
    await store.commit(
        incidents=[over, incident("fires")],
        notifications=[note("k1", over), note("k2", incident("fires")), note("k3", incident("fires"))],
        silences=[silence("s", ["kind=x"], T0, T0 + 9, "me")],
        acked=[],
    )
    await store.commit(acked=[Ack("k1", "sent", T0), Ack("k2", "failed", T0)])
    await store.prune(T0 + KEEP_FINISHED - 1)
    assert len(await store.finished("sent")) == 1
    await store.prune(T0 + KEEP_FINISHED + 1)
    assert await store.finished("sent") == []
    assert await store.finished("failed") == []
    await store.prune(T0 + KEEP_RESOLVED + 100)
    state = store.load(T0)
    assert [i.id for i in state.incidents] == ["fires"]
    assert [t.incident for t in state.notified] == ["fires"]
    assert state.silences == []
    assert [h.reason for h in await store.history("fires")] == ["third down"]
    assert len(await store.pending("ops", 10)) == 1, "nothing that waits is pruned, however old"
    store.close()


async def test_what_stands_is_what_was_reported_and_is_still_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    a, b, c = incident("a"), incident("b"), incident("c")
    await store.commit(incidents=[a, b, c], notifications=[note("k1", a, b)])
    over = replace(b, status="resolved", resolved=T0 + 5)
    await store.commit(incidents=[over], notifications=[note("k2", over, created=T0 + 5)])
    standing = await store.standing("ops", T0)
    assert sorted((i.id, i.status) for i, _ in standing) == [("a", "firing"), ("b", "resolved")]
    assert [i.id for i, _ in await store.standing("ops", T0 + 6)] == ["a"]
    store.close()


def test_a_second_server_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=f"process {os.getpid()}"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def _hold(directory: Path, ready: object) -> None:
    store = Store(directory)
    asyncio.run(store.commit(incidents=[incident()]))
    ready.set()  # type: ignore[attr-defined]
    time.sleep(60)


def test_a_killed_server_blocks_nobody(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(30)
    with pytest.raises(StoreError, match=f"process {process.pid}"):
        Store(tmp_path)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    store = Store(tmp_path)
    assert [i.id for i in store.load(T0).incidents] == ["i-1"]
    store.close()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file/state"):
        Store(tmp_path / "file" / "state")


def test_a_disk_that_becomes_full_or_read_only_at_the_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=f"{tmp_path}: cannot keep state here"):
        Store(tmp_path)


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).close()
    db = sqlite3.connect(tmp_path / FILE)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.execute("UPDATE schema SET version = version + 1")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="newer fabricmon"):
        Store(tmp_path)
    assert not list(tmp_path.glob("*damaged*"))
    # and the lock is free again
    with pytest.raises(StoreError, match="newer fabricmon"):
        Store(tmp_path)


async def test_an_older_schema_is_brought_up_to_date_with_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    await store.commit(incidents=[incident()])
    store.close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "ALTER TABLE incidents ADD COLUMN place TEXT;"))
    store = Store(tmp_path)
    assert (store.damage, [i.id for i in store.load(T0).incidents]) == ("", ["i-1"])
    store.close()
    db = sqlite3.connect(tmp_path / FILE)
    assert db.execute("SELECT place FROM incidents").fetchall() == [(None,)]
    assert db.execute("PRAGMA user_version").fetchone() == db.execute("SELECT version FROM schema").fetchone()
    db.close()


def test_another_programs_database_is_moved_aside(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("CREATE TABLE incidents (x)")
    db.close()
    store = Store(tmp_path)
    assert "another program" in store.damage
    assert store.load(T0).incidents == []
    store.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of a few dozen rows, as a file."""
    directory = tmp_path_factory.mktemp("whole")
    store = Store(directory)
    many = [incident(f"i-{n}") for n in range(20)]
    asyncio.run(store.commit(incidents=many, notifications=[note(f"k-{i.id}", i) for i in many]))
    store.close()
    return (directory / FILE).read_bytes()


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["truncate", "garbage", "flip", "empty", "text"]),
    where=st.floats(0, 1, exclude_max=True),
    length=st.integers(1, 4096),
)
def test_no_damage_to_the_file_blocks_a_restart(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, kind: str, where: float, length: int
) -> None:
    directory = tmp_path_factory.mktemp("state")
    path = directory / FILE
    at = int(where * len(whole))
    if kind == "truncate":
        path.write_bytes(whole[:at])
    elif kind == "garbage":
        path.write_bytes(whole[:at] + b"\xa5" * length + whole[at + length :])
    elif kind == "flip":
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        path.write_text("not a database\n" * 100)
    store = Store(directory)
    state = store.load(T0)
    assert len(state.incidents) <= 20
    if store.damage:
        assert list(directory.glob("state.db.damaged-*")), "moved aside, not deleted"
    asyncio.run(store.commit(incidents=[incident("after")]))
    assert "after" in [i.id for i in store.load(T0).incidents]
    store.close()


# Bytes of the file's header, and of the first page's end, where the text of the schema lies.
@pytest.mark.parametrize("at", [*range(16, 100), *range(1900, 4096, 29)])
def test_no_flipped_byte_of_header_or_schema_blocks_a_restart(whole: bytes, tmp_path: Path, at: int) -> None:
    (tmp_path / FILE).write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    store = Store(tmp_path)
    asyncio.run(store.commit(incidents=[incident("after")]))
    assert "after" in [i.id for i in store.load(T0).incidents]
    store.close()


async def test_a_disk_that_hangs_is_noticed_and_holds_up_nobody_who_asks_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "HUNG_AFTER", 0.1)
    store, disk = Store(tmp_path), threading.Event()
    call = asyncio.create_task(store._call(disk.wait))
    try:
        async with asyncio.timeout(60):
            while not store.trouble:
                await asyncio.sleep(0.01)
            with pytest.raises(StoreError, match="the disk has not answered"):
                await store.commit(incidents=[incident("later")])
            disk.set()
            assert await call
            while store.trouble:
                await asyncio.sleep(0.01)
            await store.commit(incidents=[incident("after")])
    finally:
        disk.set()
    assert [i.id for i in await store.incidents(["later", "after"])] == ["after"]
    store.close()


async def test_a_disk_that_fails_is_noticed_while_nothing_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabricmon.central.store.store.LOOK_PERIOD", 0.01)
    monkeypatch.setattr("fabricmon.central.store.store.PROBE_AFTER", 0.01)
    store = Store(tmp_path)
    rows, right = store._rows, store._rows.touch
    watching = asyncio.create_task(store.watch())

    def full() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    try:
        async with asyncio.timeout(60):
            monkeypatch.setattr(rows, "touch", full)
            while "full" not in store.trouble:
                await asyncio.sleep(0.01)
            monkeypatch.setattr(rows, "touch", right)
            while store.trouble:
                await asyncio.sleep(0.01)
    finally:
        watching.cancel()
    assert (await asyncio.to_thread(store.load)).nodes == [], "the small commit leaves nothing"
    store.close()


@pytest.mark.parametrize("at", ["open_database", "load"])
def test_a_disk_that_hangs_does_not_block_the_start_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    disk = threading.Event()

    def hanging(*_: object) -> None:
        disk.wait(60)

    try:
        if at == "load":
            store = Store(tmp_path)
            monkeypatch.setattr(store._rows, "select", hanging)
        else:
            monkeypatch.setattr("fabricmon.central.store.store.open_database", hanging)
        monkeypatch.setattr(worker, "START_LIMIT", 0.1)
        monkeypatch.setattr(worker, "CLOSE_LIMIT", 0.1)
        with pytest.raises(StoreError, match="the disk has not answered for"):
            store.load() if at == "load" else Store(tmp_path)
    finally:
        disk.set()
