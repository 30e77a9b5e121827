"""Structs as rows of the database. An unreadable row or an unwritable struct is skipped and logged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from fabricmon.forms.decoding import msgpack_value

S = TypeVar("S", bound=Struct)

KEYS: dict[str, tuple[str, ...]] = {
    "silences": ("id", "starts", "ends"),
    "maintenance": ("id", "starts", "ends"),
    "nodes": ("name", "last_seen"),
    "acknowledgements": ("incident", "at"),
    "days": ("component", "at"),
    "withheld": ("receiver", "incident", "at"),
    "notified": ("receiver", "incident", "status", "at"),
}
"""Columns before the body, of tables where a struct replaces the row with its key."""


class Rows:
    """The rows of an open database, used from the thread of the store.

    unreadable  rows that could not be decoded or encoded since the start; each is logged
    """

    def __init__(self, db: sqlite3.Connection, log: FilteringBoundLogger) -> None:
        self.db, self.unreadable = db, 0
        self._log = log

    def touch(self) -> None:
        """A small write that changes nothing. SQLite leaves out an update to equal values, but not this."""
        self.db.execute("INSERT INTO nodes VALUES ('', 0, x'')")
        self.db.execute("DELETE FROM nodes WHERE name = ''")

    def put(self, table: str, items: Iterable[Struct]) -> None:
        """Insert or replace structs in a table of KEYS."""
        names = KEYS[table]
        key, marks = attrgetter(*names), ",".join("?" * (len(names) + 1))
        rows = [(*key(item), body) for item, body in self.packed(items)]
        self.db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)

    def select(self, kind: type[S], table: str, sql: str, *values: object) -> list[S]:
        """The structs of a query whose first column is the body."""
        found = (self.unpacked(kind, table, row[0]) for row in self.db.execute(sql, values).fetchall())
        return [item for item in found if item is not None]

    def unpacked(self, kind: type[S], table: str, body: bytes) -> S | None:
        """The struct of a body; None for an unreadable one."""
        try:
            return msgpack_value(body, kind)
        except (TypeError, ValueError) as error:
            self.unreadable += 1
            self._log.error("row of the state is unreadable and skipped", table=table, error=str(error))
            return None

    def packed(self, items: Iterable[S]) -> list[tuple[S, bytes]]:
        """Structs with their bodies; one that cannot be encoded (invalid text) is left out."""
        done = []
        for item in items:
            try:
                # MessagePack, not JSON: it keeps NaN (unknown).
                done.append((item, msgspec.msgpack.encode(item)))
            except (TypeError, ValueError, OverflowError) as error:
                self.unreadable += 1
                self._log.error("item cannot be stored and is skipped", item=repr(item)[:500], error=str(error))
        return done
