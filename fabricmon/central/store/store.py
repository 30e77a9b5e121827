"""The durable state of the server: incidents and their transitions, silences, nodes, outbox, last notifications.

One thread owns the database; calls wait for it from the event loop. A commit is one transaction of incidents, the
notifications planned from them and the last notification of each receiver. `database.py` has the schema, `reads.py` the
queries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from fabricmon.central.store.database import StoreError, open_database
from fabricmon.central.store.reads import DAY, StateReads
from fabricmon.central.store.records import PENDING, Ack, ExpectedNode
from fabricmon.central.store.rows import Rows
from fabricmon.central.store.worker import Worker
from fabricmon.fleet.daylong import StoredDay
from fabricmon.model import Incident, Maintenance, Notification
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.acting import Deed
from fabricmon.notify.last_notification import last_notifications
from fabricmon.notify.pacing import Withheld
from fabricmon.notify.silence import Silence
from fabricmon.runtime import logs

T = TypeVar("T")

KEEP_RESOLVED = 30 * 86400.0  # seconds; resolved incidents, transitions, ended silences, nodes not seen
KEEP_FINISHED = 7 * 86400.0  # seconds; notifications delivered, superseded or failed
PROBE_AFTER = 1.0  # seconds without an answer of the disk after which a small commit asks for one
LOOK_PERIOD = 0.5  # seconds between two looks whether one is due; with HUNG_AFTER a hung disk is noticed within 4.5 s

REPLACED = ("silences", "maintenance", "nodes", "acknowledgements", "withheld")  # tables in which a struct replaces one

_PRUNE = (
    "DELETE FROM incidents WHERE status <> 'firing' AND updated < :old",
    "DELETE FROM transitions WHERE at < :old AND incident NOT IN (SELECT id FROM incidents WHERE status = 'firing')",
    "DELETE FROM notified WHERE at < :old AND incident NOT IN (SELECT id FROM incidents)",
    "DELETE FROM withheld WHERE at < :old AND incident NOT IN (SELECT id FROM incidents)",
    "DELETE FROM outbox WHERE state <> 'pending' AND finished < :done",
    "DELETE FROM silences WHERE ends < :old",
    "DELETE FROM maintenance WHERE ends < :old",
    "DELETE FROM nodes WHERE last_seen < :old",
    "DELETE FROM acknowledgements WHERE at < :old AND incident NOT IN (SELECT id FROM incidents)",
    "DELETE FROM receipts WHERE at < :old AND incident NOT IN (SELECT id FROM incidents)",
    "DELETE FROM deeds WHERE at < :old",
    "DELETE FROM days WHERE at < :day",
)


class Store(StateReads):
    """The open state directory. The constructor raises StoreError where it cannot be used.

    damage    of a file that was moved aside, "" none: state was lost
    """

    def __init__(self, directory: str | Path, now: float | None = None) -> None:
        self.directory = Path(directory)
        log = logs.get(part="store")
        self._worker = Worker(str(self.directory))
        began = time.time() if now is None else now
        try:
            db, self._lock, self.damage = self._worker.at_start(lambda: open_database(self.directory, began))
        except BaseException:
            self._worker.close()
            raise
        if self.damage:
            log.error(
                "state database damaged and moved aside; open incidents will be detected and notified again",
                directory=str(self.directory),
                damage=self.damage,
            )
        self._rows = Rows(db, log)
        self._probe_error = ""

    @property
    def unreadable(self) -> int:
        """Rows that could not be decoded or encoded since the start; each is logged."""
        return self._rows.unreadable

    @property
    def trouble(self) -> str:
        """"" or why nothing can be committed now: the disk hangs, or the last commit of `watch` failed."""
        return self._worker.hung or self._probe_error

    async def watch(self) -> None:
        """Notice a disk that hangs, is full or read-only also while nothing is to be stored. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_PERIOD)
            if time.monotonic() - self._worker.answered >= PROBE_AFTER:
                await self._probe()

    async def _probe(self) -> None:
        """The smallest commit there is."""
        try:
            await self._call(lambda: self._transaction(self._rows.touch))
        except StoreError as error:
            self._probe_error = "" if self._worker.hung else str(error)
        else:
            self._probe_error = ""

    async def commit(
        self,
        *,
        incidents: Sequence[Incident] = (),
        notifications: Sequence[Notification] = (),
        withheld: Sequence[Withheld] = (),
        released: Sequence[Withheld] = (),
        silences: Sequence[Silence] = (),
        maintenance: Sequence[Maintenance] = (),
        nodes: Sequence[ExpectedNode] = (),
        forgotten: Sequence[str] = (),
        acked: Sequence[Ack] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        withdrawn: Sequence[str] = (),
        deeds: Sequence[Deed] = (),
    ) -> frozenset[str]:
        """Commit all in one transaction; StoreError where that failed, then nothing is committed. Returns the keys of
        the notifications that it queued.

        withheld   what waits from now on; released: what no longer does
        forgotten  names of nodes that are no longer expected
        withdrawn  ids of incidents whose acknowledgement is removed
        A struct replaces the one with its id, a notification with a known key is ignored: a commit may be repeated.
        """
        replaced = (silences, maintenance, nodes, acknowledgements, withheld)
        if not any((*replaced, released, incidents, notifications, forgotten, acked, withdrawn, deeds)):
            return frozenset()

        def write() -> frozenset[str]:
            self._put_incidents(incidents)
            queued = self._put_notifications(notifications, released)
            for table, items in zip(REPLACED, replaced, strict=True):
                self._rows.put(table, items)
            self._delete("nodes", "name", forgotten)
            self._delete("acknowledgements", "incident", withdrawn)
            self._acknowledge_deliveries(acked)
            self._append_deeds(deeds)
            return queued

        return await self._call(lambda: self._transaction(write))

    async def keep_days(self, days: Sequence[StoredDay], gone: Sequence[str]) -> None:
        """Replace the readings of these components, and delete those of the components in `gone`."""

        def write() -> None:
            self._rows.put("days", days)
            self._delete("days", "component", gone)

        if days or gone:
            await self._call(lambda: self._transaction(write))

    async def prune(self, now: float) -> int:
        """Delete rows older than KEEP_RESOLVED and KEEP_FINISHED, except open incidents and queued notifications.
        Returns the number of deleted rows."""
        limits = {"old": now - KEEP_RESOLVED, "done": now - KEEP_FINISHED, "day": now - DAY}
        return await self._call(lambda: self._transaction(lambda: sum(self._prune(sql, limits) for sql in _PRUNE)))

    def close(self) -> None:
        """Finish pending calls, then close file and lock."""
        if self._worker.close():
            self._rows.db.close()
            self._lock.close()

    # ---------------------------------------------------------------- in the thread

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        return self._worker.submit(call)

    def _at_start(self, call: Callable[[], T]) -> T:
        return self._worker.at_start(call)

    def _transaction(self, write: Callable[[], T]) -> T:
        db = self._rows.db
        db.execute("BEGIN IMMEDIATE")
        try:
            result = write()
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return result

    def _put_incidents(self, incidents: Sequence[Incident]) -> None:
        for i, body in self._rows.packed(incidents):
            known = (i.id, i.status, i.severity.value, i.kind, i.component, i.since, i.updated, i.resolved, i.revision)
            self._rows.db.execute("INSERT OR REPLACE INTO incidents VALUES (?,?,?,?,?,?,?,?,?,?)", (*known, body))
            self._rows.db.executemany(
                "INSERT OR IGNORE INTO transitions (incident, at, change, reason) VALUES (?,?,?,?)",
                [(i.id, h.at, h.change, h.reason) for h in i.history],
            )

    def _put_notifications(
        self, notifications: Sequence[Notification], released: Sequence[Withheld]
    ) -> frozenset[str]:
        """Queue each notification once, and note it as the last one of its receiver; neither its incidents nor those
        `released` wait any longer. The keys of those queued."""
        queued, over = set(), [(entry.receiver, entry.incident) for entry in released]
        for note, body in self._rows.packed(notifications):
            added = self._rows.db.execute(
                "INSERT OR IGNORE INTO outbox (key, receiver, created, messages, body) VALUES (?,?,?,?,?)",
                (note.key, note.receiver, note.created, note.messages, body),
            )
            if added.rowcount:
                self._rows.put("notified", last_notifications(note))
                queued.add(note.key)
            over += [(note.receiver, incident.id) for incident in note.incidents]
        self._rows.db.executemany("DELETE FROM withheld WHERE receiver = ? AND incident = ?", over)
        return frozenset(queued)

    def _acknowledge_deliveries(self, acked: Sequence[Ack]) -> None:
        self._rows.db.executemany(
            "UPDATE outbox SET state = ?, finished = ?, attempts = ?, error = ? WHERE key = ? AND state = 'pending'",
            [(a.state, a.at, a.attempts, a.error[:1000], a.key) for a in acked if a.state != PENDING],
        )
        self._rows.db.executemany(
            "INSERT OR REPLACE INTO receipts VALUES (?,?,?,?)",
            [(a.receiver, id, a.at, value) for a in acked for id, value in a.receipts.items()],
        )

    def _append_deeds(self, deeds: Sequence[Deed]) -> None:
        rows = [(deed.actor, deed.at, body) for deed, body in self._rows.packed(deeds)]
        self._rows.db.executemany("INSERT INTO deeds (actor, at, body) VALUES (?,?,?)", rows)

    def _delete(self, table: str, key: str, names: Sequence[str]) -> None:
        self._rows.db.executemany(f"DELETE FROM {table} WHERE {key} = ?", [(name,) for name in names])

    def _prune(self, sql: str, limits: dict[str, float]) -> int:
        return self._rows.db.execute(sql, {name: at for name, at in limits.items() if f":{name}" in sql}).rowcount
