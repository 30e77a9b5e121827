"""Queries of the state, in the thread of the store; unreadable rows are left out."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from msgspec.structs import replace

from fabricmon.central.store.database import StoreError
from fabricmon.central.store.records import Ack, Backlog, ExpectedNode, PendingNotification, StoredState
from fabricmon.central.store.rows import Rows, S
from fabricmon.fleet.daylong import StoredDay
from fabricmon.model import HistoryEntry, Incident, Maintenance, Notification
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.acting import Deed
from fabricmon.notify.last_notification import LastNotification
from fabricmon.notify.pacing import PERIOD, SentNotification, Withheld
from fabricmon.notify.silence import Silence

T = TypeVar("T")

DAY = 86400.0  # seconds of readings
RECENT = 3600.0  # seconds; resolved incidents that `load` returns, as long as the engine lists them
PAST = 20_000  # newest openings that it returns too, for repeat offenders
BATCH = 500  # values of one query
READ_LIMIT = 5.0  # seconds of a query; who asks while the disk hangs gets an answer


class StateReads(ABC):
    """Queries of an open store."""

    _rows: Rows

    @abstractmethod
    def _submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in the thread of the store."""

    @abstractmethod
    def _at_start(self, call: Callable[[], T]) -> T:
        """Run a call in the thread of the store and wait for it; StoreError where the disk hangs."""

    async def _call(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(call))

    async def _read(self, call: Callable[[], T]) -> T:
        """The result of a query; StoreError where the disk does not answer within READ_LIMIT."""
        try:
            async with asyncio.timeout(READ_LIMIT):
                return await self._call(call)
        except TimeoutError:
            raise StoreError(f"the state cannot be read: no answer within {READ_LIMIT:g} s") from None

    async def _select(self, kind: type[S], table: str, sql: str, *values: object) -> list[S]:
        return await self._read(lambda: self._rows.select(kind, table, sql, *values))

    async def _fetch(self, make: Callable[[list[Any]], T], sql: str, *values: object) -> T:
        """`make` applied to the rows of a query."""
        return await self._read(lambda: make(self._rows.db.execute(sql, values).fetchall()))

    # ---------------------------------------------------------------- restart

    def load(self, now: float | None = None) -> StoredState:
        """The state after a restart. Blocks; call it once, before the event loop has other work. StoreError where the
        disk does not answer."""
        now = time.time() if now is None else now
        since = now - RECENT
        recent = "SELECT body FROM incidents WHERE status = 'firing' OR updated >= ?"
        taken = "SELECT a.body FROM acknowledgements a JOIN incidents i ON i.id = a.incident AND i.status = 'firing'"

        def read() -> StoredState:
            select = self._rows.select
            return StoredState(
                incidents=select(Incident, "incidents", recent, since),
                notified=select(LastNotification, "notified", "SELECT body FROM notified"),
                silences=select(Silence, "silences", "SELECT body FROM silences ORDER BY starts"),
                maintenance=select(Maintenance, "maintenance", "SELECT body FROM maintenance ORDER BY starts"),
                nodes=select(ExpectedNode, "nodes", "SELECT body FROM nodes"),
                backlog=self._backlog(),
                past=self._past(),
                acknowledgements=select(Acknowledgement, "acknowledgements", taken),
                sent=self._sent(now - PERIOD, now),
                withheld=select(Withheld, "withheld", "SELECT body FROM withheld"),
                days=select(StoredDay, "days", "SELECT body FROM days WHERE at >= ?", now - DAY),
            )

        return self._at_start(read)

    def _sent(self, since: float, now: float) -> list[SentNotification]:
        """Notifications that are not delivered, or were answered after `since`. An answer later than `now` (the system
        clock was set back) counts as of `now`."""
        sql = (
            "SELECT key, receiver, messages, min(finished, ?) FROM outbox WHERE state = 'pending'"
            " OR (state <> 'superseded' AND finished > ?)"
        )
        return [SentNotification(*row) for row in self._rows.db.execute(sql, (now, since)).fetchall()]

    def _past(self) -> list[Incident]:
        """Every stored incident of warning or higher, as resolved, with the openings of all its episodes as history."""
        found = self._rows.db.execute(
            "SELECT incident, at, change, reason FROM transitions WHERE change IN ('opened', 'reopened', 'absorbed')"
            " AND incident IN (SELECT id FROM incidents WHERE severity <> 'info') ORDER BY seq DESC LIMIT ?",
            (PAST,),
        ).fetchall()
        history: dict[str, list[HistoryEntry]] = {}
        for id, *entry in reversed(found):
            history.setdefault(id, []).append(HistoryEntry(*entry))
        return [
            replace(incident, status="resolved", resolved=entries[-1].at, history=tuple(entries))
            for id, entries in history.items()
            for incident in self._rows.select(Incident, "incidents", "SELECT body FROM incidents WHERE id = ?", id)
        ]

    # ---------------------------------------------------------------- notifications

    async def pending(self, receiver: str, limit: int) -> list[PendingNotification]:
        """The oldest undelivered notifications of a receiver, in order."""
        sql = "SELECT seq, key, body FROM outbox WHERE receiver = ? AND state = 'pending' ORDER BY seq LIMIT ?"

        def read() -> list[PendingNotification]:
            db, good = self._rows.db, []
            for seq, key, body in db.execute(sql, (receiver, limit)).fetchall():
                note = self._rows.unpacked(Notification, "outbox", body)
                if note is not None and note.key == key:
                    good.append(PendingNotification(seq, note))
                else:
                    # Not deliverable: it must not block the others. It was no message, and is pruned as others are.
                    lost = "UPDATE outbox SET state = 'failed', finished = created, error = 'unreadable' WHERE seq = ?"
                    db.execute(lost, (seq,))
            return good

        return await self._read(read)

    async def backlog(self) -> dict[str, Backlog]:
        """Receiver -> number of undelivered notifications and time of the oldest."""
        return await self._read(self._backlog)

    def _backlog(self) -> dict[str, Backlog]:
        sql = "SELECT receiver, count(*), min(created) FROM outbox WHERE state = 'pending' GROUP BY receiver"
        return {receiver: Backlog(depth, oldest) for receiver, depth, oldest in self._rows.db.execute(sql).fetchall()}

    async def finished(self, state: str, limit: int = 100) -> list[tuple[Notification, Ack]]:
        """The newest notifications that ended as `state` ("sent", "failed", "superseded"), newest first."""

        def read(found: list[Any]) -> list[tuple[Notification, Ack]]:
            both = ((self._rows.unpacked(Notification, "outbox", body), Ack(*ack)) for body, *ack in found)
            return [(note, ack) for note, ack in both if note is not None]

        columns = "body, key, state, finished, attempts, error"
        sql = f"SELECT {columns} FROM outbox WHERE state = ? ORDER BY seq DESC LIMIT ?"
        return await self._fetch(read, sql, state, limit)

    async def standing(self, receiver: str, since: float, limit: int = 5000) -> list[tuple[Incident, LastNotification]]:
        """State for a receiver that needs repeats: last notified as firing, or as resolved after `since` (wall)."""

        def read(found: list[Any]) -> list[tuple[Incident, LastNotification]]:
            unpacked = self._rows.unpacked
            both = ((unpacked(Incident, "incidents", a), unpacked(LastNotification, "notified", b)) for a, b in found)
            return [(incident, last) for incident, last in both if incident is not None and last is not None]

        return await self._fetch(
            read,
            "SELECT i.body, t.body FROM notified t JOIN incidents i ON i.id = t.incident AND i.status = t.status"
            " WHERE t.receiver = ? AND (t.status = 'firing' OR t.at >= ?) ORDER BY t.at DESC LIMIT ?",
            receiver,
            since,
            limit,
        )

    async def receipts(self, receiver: str, ids: Iterable[str]) -> dict[str, str]:
        """Incident id -> last answer of this receiver to a notification of it."""
        wanted = list(ids)
        sql = f"SELECT incident, value FROM receipts WHERE receiver = ? AND incident IN ({_marks(wanted)})"
        return await self._fetch(dict, sql, receiver, *wanted)

    async def deeds(self, actor: str, since: float) -> list[Deed]:
        """Actions of this actor after `since` (wall), oldest first."""
        sql = "SELECT body FROM deeds WHERE actor = ? AND at >= ? ORDER BY seq"
        return await self._select(Deed, "deeds", sql, actor, since)

    # ---------------------------------------------------------------- incidents

    async def incidents(self, ids: Iterable[str]) -> list[Incident]:
        """These incidents as last committed; unknown ids are left out."""
        wanted = list(ids)

        def read() -> list[Incident]:
            found: list[Incident] = []
            for start in range(0, len(wanted), BATCH):
                some = wanted[start : start + BATCH]
                sql = f"SELECT body FROM incidents WHERE id IN ({_marks(some)})"
                found += self._rows.select(Incident, "incidents", sql, *some)
            return found

        return await self._read(read)

    async def resolved(self, since: float, limit: int = 1000) -> list[Incident]:
        """Incidents that were resolved and not changed after `since` (wall), newest first."""
        sql = "SELECT body FROM incidents WHERE status <> 'firing' AND updated >= ? ORDER BY updated DESC LIMIT ?"
        return await self._select(Incident, "incidents", sql, since, limit)

    async def beginning(self, prefix: str, limit: int = 1000) -> list[Incident]:
        """Incidents whose id begins with `prefix`, newest change first."""
        sql = "SELECT body FROM incidents WHERE substr(id, 1, ?) = ? ORDER BY updated DESC LIMIT ?"
        return await self._select(Incident, "incidents", sql, len(prefix), prefix, limit)

    async def query(self, make: Callable[[Rows], T]) -> T:
        """The result of a bounded query (archive.py)."""
        return await self._read(lambda: make(self._rows))

    async def history(self, incident: str, limit: int = 1000) -> list[HistoryEntry]:
        """All stored transitions of an incident, oldest first; Incident.history is bounded."""
        sql = "SELECT at, change, reason FROM transitions WHERE incident = ? ORDER BY seq DESC LIMIT ?"
        return await self._fetch(lambda found: [HistoryEntry(*row) for row in reversed(found)], sql, incident, limit)


def _marks(values: list[str]) -> str:
    return ",".join("?" * len(values))
