"""The centre's database file: its schema, its lock, and how it is opened so that nothing blocks a restart.

One SQLite file `state.db` in the state directory, WAL journal, synchronous=FULL: what a transaction committed
survives a kill -9 and a power cut. A second centre on the same directory is refused by flock(2) on `lock`; the
kernel drops that lock with the process, however it ended. A file that is damaged is moved aside, never deleted, and
a new one is begun.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import IO, NamedTuple

FILE = "state.db"
APPLICATION_ID = 0x46424D4E  # "FBMN": tells file(1) and us whose database this is

# Entry n brings a database from version n to n + 1. Never edit an entry that was released; append.
MIGRATIONS = (
    """
    CREATE TABLE incidents (
        id TEXT PRIMARY KEY, status TEXT NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL, component TEXT NOT
        NULL, since REAL, updated REAL, resolved REAL, revision INTEGER NOT NULL, body BLOB NOT
        NULL
    ) WITHOUT ROWID;
    CREATE INDEX incidents_status ON incidents (status, updated);
    CREATE TABLE transitions (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, incident TEXT NOT NULL, at REAL NOT NULL, change TEXT NOT NULL,
        reason TEXT NOT NULL, UNIQUE (incident, at, change, reason)
    );
    CREATE INDEX transitions_at ON transitions (at);
    CREATE TABLE told (
        receiver TEXT NOT NULL, incident TEXT NOT NULL, status TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (receiver, incident)
    ) WITHOUT ROWID;
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, receiver TEXT NOT NULL, created REAL NOT
        NULL, state TEXT NOT NULL DEFAULT 'pending', finished REAL, attempts INTEGER NOT NULL DEFAULT 0, error TEXT
        NOT NULL DEFAULT '', body BLOB NOT NULL
    );
    CREATE INDEX outbox_pending ON outbox (receiver, seq) WHERE state = 'pending';
    CREATE INDEX outbox_finished ON outbox (finished) WHERE state <> 'pending';
    CREATE TABLE silences (id TEXT PRIMARY KEY, starts REAL NOT NULL, ends REAL NOT NULL, body BLOB NOT NULL)
    WITHOUT ROWID; CREATE TABLE maintenance (
        id TEXT PRIMARY KEY, starts REAL NOT NULL, ends REAL NOT NULL, body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE nodes (name TEXT PRIMARY KEY, last_seen REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
    """,
)


class StoreError(Exception):
    """The state cannot be used or written; the text says which file, why, and what to do."""


class Opened(NamedTuple):
    """connection, the held lock (close it last), and what was wrong with the file that was there ("" nothing)."""

    connection: sqlite3.Connection
    lock: IO[str]
    damage: str


def open_database(directory: Path, now: float) -> Opened:
    """Open or begin the database in `directory`; StoreError where another centre has it or it cannot be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / "lock").open("a+")
    except OSError as error:
        raise StoreError(f"{directory}: cannot keep state here: {error.strerror}") from error
    try:
        _take(lock, directory)
        path = directory / FILE
        damage = _damage(path)
        if damage:
            _move_aside(path, now)
        return Opened(_connect(path), lock, damage)
    except BaseException:
        lock.close()
        raise


def _take(lock: IO[str], directory: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read(32).strip() or "unknown"
        raise StoreError(
            f"{directory}: another centre (process {holder}) uses this state directory; give each its own --state"
        ) from error
    lock.seek(0)
    lock.truncate()
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _damage(path: Path) -> str:
    """What makes the file useless; "" where it is whole or not there. A file of a newer release is not damage."""
    if not path.exists():
        return ""
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            found: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
            tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError as error:
        # Locked, not readable, disk full: the file may be whole, so it stays where it is.
        raise StoreError(f"{path}: cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        return str(error)
    if found != "ok":
        return found
    if tables and owner != APPLICATION_ID:
        return f"is the database of another program (application id {owner:#x})"
    return ""


def _move_aside(path: Path, now: float) -> None:
    """state.db -> state.db.damaged-<now>, and its journal with it."""
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{path}.damaged-{int(now)}{suffix}")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        _migrate(connection, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: cannot be opened: {error}") from error
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path}: written by a newer fabricmon (schema {version}, this one knows {len(MIGRATIONS)}); "
            "run that release, or give --state another directory"
        )
    for number in range(version, len(MIGRATIONS)):
        # One transaction a step, its version number within: a kill in the middle leaves the step undone.
        connection.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[number]}; PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {number + 1}; COMMIT;"
        )
