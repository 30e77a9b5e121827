"""What the centre must not forget: incidents and their transitions, silences, nodes, the outbox and who was told.

One thread owns the database; calls wait for it from the event loop. A commit is one transaction: incidents, the
notifications planned from them and what receivers have thereby been told become true together or not at all.
`database.py` has the schema.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from fabricmon.central.database import StoreError, open_database
from fabricmon.central.records import FAILED, PENDING, SENT, SUPERSEDED, Ack, Backlog, ExpectedNode, Pending, State
from fabricmon.central.worker import Worker
from fabricmon.model import HistoryEntry, Incident, Maintenance, Notification
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.acting import Deed
from fabricmon.notify.silence import Silence
from fabricmon.notify.told import Telling, tellings
from fabricmon.runtime import logs

__all__ = [
    "FAILED",
    "PENDING",
    "SENT",
    "SUPERSEDED",
    "Ack",
    "Backlog",
    "ExpectedNode",
    "Pending",
    "State",
    "Store",
    "StoreError",
]

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

KEEP_RESOLVED = 30 * 86400.0  # seconds; resolved incidents, transitions, ended silences, nodes not seen
KEEP_FINISHED = 7 * 86400.0  # seconds; notifications delivered, superseded or failed
RECENT = 3600.0  # seconds; resolved incidents that `load` still hands back, as long as an engine lists them
PAST = 20_000  # openings that it hands back besides, the newest, for who breaks again and again


class Store:
    """The open state directory. StoreError from the constructor where it cannot be had.

    damage    what was wrong with a file that had to be moved aside, "" usually: state was lost, show it.
    unreadable  rows that could not be decoded or encoded since the start; each costs only itself and is logged.
    """

    def __init__(self, directory: str | Path, now: float | None = None) -> None:
        self.directory = Path(directory)
        self.unreadable = 0
        self._log = logs.get(part="store")
        opened = open_database(self.directory, time.time() if now is None else now)
        self._db, self._lock, self.damage = opened
        if self.damage:
            self._log.error(
                "state was damaged and is moved aside; open incidents will be found again and told again",
                directory=str(self.directory),
                damage=self.damage,
            )
        self._worker = Worker(str(self.directory))

    # ---------------------------------------------------------------- writing

    async def commit(
        self,
        *,
        incidents: Sequence[Incident] = (),
        notifications: Sequence[Notification] = (),
        silences: Sequence[Silence] = (),
        maintenance: Sequence[Maintenance] = (),
        nodes: Sequence[ExpectedNode] = (),
        forgotten: Sequence[str] = (),
        acked: Sequence[Ack] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        withdrawn: Sequence[str] = (),
        deeds: Sequence[Deed] = (),
    ) -> None:
        """Make all of it durable in one transaction; StoreError where that failed, and then none of it is true.

        forgotten  names of expected nodes that are expected no longer.
        withdrawn  ids of incidents that nobody has taken on any more.
        An incident, silence, window or node replaces what was known under its id. A notification whose key is there
        already is there already: to commit again what may or may not have been committed does no harm.
        """

        def write() -> None:
            db = self._db
            for incident, body in self._packed(incidents):
                db.execute(
                    "INSERT OR REPLACE INTO incidents VALUES (?,?,?,?,?,?,?,?,?,?)", _incident_row(incident, body)
                )
                db.executemany(
                    "INSERT OR IGNORE INTO transitions (incident, at, change, reason) VALUES (?,?,?,?)",
                    [(incident.id, h.at, h.change, h.reason) for h in incident.history],
                )
            for note, body in self._packed(notifications):
                added = db.execute(
                    "INSERT OR IGNORE INTO outbox (key, receiver, created, body) VALUES (?,?,?,?)",
                    (note.key, note.receiver, note.created, body),
                )
                if added.rowcount:
                    db.executemany(
                        "INSERT OR REPLACE INTO told VALUES (?,?,?,?,?)",
                        [(t.receiver, t.incident, t.status, t.at, body) for t, body in self._packed(tellings(note))],
                    )
            for silence, body in self._packed(silences):
                row = (silence.id, silence.starts, silence.ends, body)
                db.execute("INSERT OR REPLACE INTO silences VALUES (?,?,?,?)", row)
            for window, body in self._packed(maintenance):
                row = (window.id, window.starts, window.ends, body)
                db.execute("INSERT OR REPLACE INTO maintenance VALUES (?,?,?,?)", row)
            for node, body in self._packed(nodes):
                db.execute("INSERT OR REPLACE INTO nodes VALUES (?,?,?)", (node.name, node.last_seen, body))
            db.executemany("DELETE FROM nodes WHERE name = ?", [(name,) for name in forgotten])
            db.executemany(
                "UPDATE outbox SET state = ?, finished = ?, attempts = ?, error = ?"
                " WHERE key = ? AND state = 'pending'",
                [(a.state, a.at, a.attempts, a.error[:1000], a.key) for a in acked if a.state != PENDING],
            )
            db.executemany(
                "INSERT OR REPLACE INTO receipts VALUES (?,?,?,?)",
                [(a.receiver, id, a.at, value) for a in acked for id, value in a.receipts.items()],
            )
            for taken, body in self._packed(acknowledgements):
                db.execute("INSERT OR REPLACE INTO acknowledgements VALUES (?,?,?)", (taken.incident, taken.at, body))
            db.executemany("DELETE FROM acknowledgements WHERE incident = ?", [(id,) for id in withdrawn])
            for deed, body in self._packed(deeds):
                db.execute("INSERT INTO deeds (actor, at, body) VALUES (?,?,?)", (deed.actor, deed.at, body))

        told = (incidents, notifications, silences, maintenance, nodes, forgotten, acked)
        if any((*told, acknowledgements, withdrawn, deeds)):
            await self._call(lambda: self._transaction(write))

    async def prune(self, now: float) -> int:
        """Drop what is older than KEEP_RESOLVED and KEEP_FINISHED; how many rows went. Nothing that fires or waits
        goes."""
        old, done = now - KEEP_RESOLVED, now - KEEP_FINISHED

        def write() -> int:
            before = self._db.total_changes
            run = self._db.execute
            run("DELETE FROM incidents WHERE status <> 'firing' AND updated < ?", (old,))
            run(
                "DELETE FROM transitions WHERE at < ?"
                " AND incident NOT IN (SELECT id FROM incidents WHERE status = 'firing')",
                (old,),
            )
            run("DELETE FROM told WHERE at < ? AND incident NOT IN (SELECT id FROM incidents)", (old,))
            run("DELETE FROM outbox WHERE state <> 'pending' AND finished < ?", (done,))
            run("DELETE FROM silences WHERE ends < ?", (old,))
            run("DELETE FROM maintenance WHERE ends < ?", (old,))
            run("DELETE FROM nodes WHERE last_seen < ?", (old,))
            for table in ("acknowledgements", "receipts"):
                run(f"DELETE FROM {table} WHERE at < ? AND incident NOT IN (SELECT id FROM incidents)", (old,))
            run("DELETE FROM deeds WHERE at < ?", (old,))
            return self._db.total_changes - before

        return await self._call(lambda: self._transaction(write))

    # ---------------------------------------------------------------- reading

    def load(self, now: float | None = None) -> State:
        """All that a restart goes on from. Blocks; call it once, before the event loop has other work."""
        since = (time.time() if now is None else now) - RECENT

        def read() -> State:
            return State(
                incidents=self._rows(
                    Incident, "incidents", "SELECT body FROM incidents WHERE status = 'firing' OR updated >= ?", since
                ),
                told=self._rows(Telling, "told", "SELECT body FROM told"),
                silences=self._rows(Silence, "silences", "SELECT body FROM silences ORDER BY starts"),
                maintenance=self._rows(Maintenance, "maintenance", "SELECT body FROM maintenance ORDER BY starts"),
                nodes=self._rows(ExpectedNode, "nodes", "SELECT body FROM nodes"),
                backlog=self._backlog(),
                past=self._past(),
                acknowledgements=self._rows(
                    Acknowledgement,
                    "acknowledgements",
                    "SELECT a.body FROM acknowledgements a JOIN incidents i"
                    " ON i.id = a.incident AND i.status = 'firing'",
                ),
            )

        return self._worker.submit(read).result()

    async def pending(self, receiver: str, limit: int) -> list[Pending]:
        """The oldest undelivered notifications of a receiver, in order."""

        def read() -> list[Pending]:
            found = self._db.execute(
                "SELECT seq, key, body FROM outbox WHERE receiver = ? AND state = 'pending' ORDER BY seq LIMIT ?",
                (receiver, limit),
            ).fetchall()
            good = []
            for seq, key, body in found:
                note = self._unpack(Notification, "outbox", body)
                if note is not None and note.key == key:
                    good.append(Pending(seq, note))
                else:
                    # Nothing to deliver, or nothing by which to mark it done: it must not stand before the others.
                    self._db.execute("UPDATE outbox SET state = 'failed', error = 'unreadable' WHERE seq = ?", (seq,))
            return good

        return await self._call(read)

    async def backlog(self) -> dict[str, Backlog]:
        """Per receiver with undelivered notifications: how many, and since when."""
        return await self._call(self._backlog)

    async def finished(self, state: str, limit: int = 100) -> list[tuple[Notification, Ack]]:
        """The newest notifications that ended as `state` ("sent", "failed", "superseded"), newest first."""

        def read() -> list[tuple[Notification, Ack]]:
            found = self._db.execute(
                "SELECT body, key, state, finished, attempts, error FROM outbox"
                " WHERE state = ? ORDER BY seq DESC LIMIT ?",
                (state, limit),
            ).fetchall()
            both = ((self._unpack(Notification, "outbox", row[0]), Ack(*row[1:])) for row in found)
            return [(note, ack) for note, ack in both if note is not None]

        return await self._call(read)

    async def incidents(self, ids: Iterable[str]) -> list[Incident]:
        """These incidents as last committed; ids that are not kept are left out."""
        wanted = list(ids)

        def read() -> list[Incident]:
            found: list[Incident] = []
            for start in range(0, len(wanted), 500):
                some = wanted[start : start + 500]
                marks = ",".join("?" * len(some))
                found += self._rows(Incident, "incidents", f"SELECT body FROM incidents WHERE id IN ({marks})", *some)
            return found

        return await self._call(read)

    async def receipts(self, receiver: str, ids: Iterable[str]) -> dict[str, str]:
        """What this receiver answered last to a word on these incidents, by incident id."""
        wanted = list(ids)

        def read() -> dict[str, str]:
            marks = ",".join("?" * len(wanted))
            sql = f"SELECT incident, value FROM receipts WHERE receiver = ? AND incident IN ({marks})"
            return dict(self._db.execute(sql, (receiver, *wanted)).fetchall())

        return await self._call(read)

    async def deeds(self, actor: str, since: float) -> list[Deed]:
        """What this actor did after `since` (wall), oldest first."""
        sql = "SELECT body FROM deeds WHERE actor = ? AND at >= ? ORDER BY seq"
        return await self._call(lambda: self._rows(Deed, "deeds", sql, actor, since))

    async def resolved(self, since: float, limit: int = 1000) -> list[Incident]:
        """Incidents that were resolved and not changed after `since` (wall), newest first."""
        return await self._call(
            lambda: self._rows(
                Incident,
                "incidents",
                "SELECT body FROM incidents WHERE status <> 'firing' AND updated >= ? ORDER BY updated DESC LIMIT ?",
                since,
                limit,
            )
        )

    async def beginning(self, prefix: str, limit: int = 1000) -> list[Incident]:
        """Incidents whose id begins so, newest change first."""
        return await self._call(
            lambda: self._rows(
                Incident,
                "incidents",
                "SELECT body FROM incidents WHERE substr(id, 1, ?) = ? ORDER BY updated DESC LIMIT ?",
                len(prefix),
                prefix,
                limit,
            )
        )

    async def history(self, incident: str, limit: int = 1000) -> list[HistoryEntry]:
        """All transitions kept of an incident, oldest first: more than Incident.history, which is bounded."""

        def read() -> list[HistoryEntry]:
            found = self._db.execute(
                "SELECT at, change, reason FROM transitions WHERE incident = ? ORDER BY seq DESC LIMIT ?",
                (incident, limit),
            ).fetchall()
            return [HistoryEntry(*row) for row in reversed(found)]

        return await self._call(read)

    async def standing(self, receiver: str, since: float, limit: int = 5000) -> list[tuple[Incident, Telling]]:
        """What a receiver that keeps state should hold now: told as firing, or told as resolved after `since`
        (wall)."""

        def read() -> list[tuple[Incident, Telling]]:
            found = self._db.execute(
                "SELECT i.body, t.body FROM told t JOIN incidents i ON i.id = t.incident AND i.status = t.status"
                " WHERE t.receiver = ? AND (t.status = 'firing' OR t.at >= ?) ORDER BY t.at DESC LIMIT ?",
                (receiver, since, limit),
            ).fetchall()
            both = ((self._unpack(Incident, "incidents", a), self._unpack(Telling, "told", b)) for a, b in found)
            return [(incident, telling) for incident, telling in both if incident is not None and telling is not None]

        return await self._call(read)

    def close(self) -> None:
        """Finish what was asked for, then let go of file and lock."""
        if self._worker.close():
            self._db.close()
            self._lock.close()

    # ---------------------------------------------------------------- within the thread

    def _backlog(self) -> dict[str, Backlog]:
        found = self._db.execute(
            "SELECT receiver, count(*), min(created) FROM outbox WHERE state = 'pending' GROUP BY receiver"
        ).fetchall()
        return {receiver: Backlog(depth, oldest) for receiver, depth, oldest in found}

    def _past(self) -> list[Incident]:
        """Every incident of warning or higher that is kept, ended, with the openings of all its episodes as history."""
        found = self._db.execute(
            "SELECT incident, at, change, reason FROM transitions WHERE change IN ('opened', 'reopened', 'absorbed')"
            " AND incident IN (SELECT id FROM incidents WHERE severity <> 'info') ORDER BY seq DESC LIMIT ?",
            (PAST,),
        ).fetchall()
        history: dict[str, list[HistoryEntry]] = {}
        for id, *entry in reversed(found):
            history.setdefault(id, []).append(HistoryEntry(*entry))
        past: list[Incident] = []
        for id, entries in history.items():
            for incident in self._rows(Incident, "incidents", "SELECT body FROM incidents WHERE id = ?", id):
                changes = {"status": "resolved", "resolved": entries[-1].at, "history": tuple(entries)}
                past.append(msgspec.structs.replace(incident, **changes))
        return past

    def _rows(self, kind: type[S], table: str, sql: str, *values: object) -> list[S]:
        found = (self._unpack(kind, table, row[0]) for row in self._db.execute(sql, values).fetchall())
        return [item for item in found if item is not None]

    def _unpack(self, kind: type[S], table: str, body: bytes) -> S | None:
        try:
            return msgspec.msgpack.decode(body, type=kind)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            self.unreadable += 1
            self._log.error("a row of the state cannot be read and is left out", table=table, error=str(error))
            return None

    def _packed(self, items: Iterable[S]) -> list[tuple[S, bytes]]:
        """Each with its bytes; one that has none (text that is no UTF-8) is left out, loudly, and costs only
        itself."""
        done = []
        for item in items:
            try:
                # MessagePack, not JSON: it keeps NaN, which is how an unknown travels.
                done.append((item, msgspec.msgpack.encode(item)))
            except (TypeError, ValueError, OverflowError) as error:
                self.unreadable += 1
                self._log.error("cannot be stored and is left out", item=repr(item)[:500], error=str(error))
        return done

    def _transaction(self, write: Callable[[], T]) -> T:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            result = write()
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        return result

    async def _call(self, read: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._worker.submit(read))


def _incident_row(i: Incident, body: bytes) -> tuple[object, ...]:
    known = (i.id, i.status, i.severity.value, i.kind, i.component, i.since, i.updated, i.resolved, i.revision)
    return (*known, body)
