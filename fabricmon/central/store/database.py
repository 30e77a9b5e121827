"""The database file of the server: schema, lock, and recovery.

One SQLite file `state.db` in the state directory, WAL journal, synchronous=FULL: a committed transaction survives
kill -9 and a power failure. flock(2) on `lock` refuses a second server on the same directory. A damaged file is moved
aside, never deleted, and replaced by an empty one.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import IO, NamedTuple

FILE = "state.db"
APPLICATION_ID = 0x46424D4E  # "FBMN"

# Entry n brings a database from version n to n + 1. Never edit an entry that was released; append.
MIGRATIONS = (
    """
    CREATE TABLE incidents (
        id TEXT PRIMARY KEY, status TEXT NOT NULL, severity TEXT NOT NULL, kind TEXT NOT NULL,
        component TEXT NOT NULL, since REAL, updated REAL, resolved REAL, revision INTEGER NOT NULL,
        body BLOB NOT NULL
    );
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
        seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, receiver TEXT NOT NULL,
        created REAL NOT NULL, state TEXT NOT NULL DEFAULT 'pending', finished REAL,
        attempts INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '', body BLOB NOT NULL
    );
    CREATE INDEX outbox_pending ON outbox (receiver, seq) WHERE state = 'pending';
    CREATE INDEX outbox_finished ON outbox (finished) WHERE state <> 'pending';
    CREATE TABLE silences (
        id TEXT PRIMARY KEY, starts REAL NOT NULL, ends REAL NOT NULL, body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE maintenance (
        id TEXT PRIMARY KEY, starts REAL NOT NULL, ends REAL NOT NULL, body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE nodes (name TEXT PRIMARY KEY, last_seen REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
    """,
    # Acknowledgements; answers of receivers that follow-ups need; actions of senders that act.
    """
    CREATE TABLE acknowledgements (incident TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE receipts (
        receiver TEXT NOT NULL, incident TEXT NOT NULL, at REAL NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (receiver, incident)
    ) WITHOUT ROWID;
    CREATE TABLE deeds (seq INTEGER PRIMARY KEY AUTOINCREMENT, actor TEXT NOT NULL, at REAL NOT NULL,
        body BLOB NOT NULL);
    CREATE INDEX deeds_at ON deeds (actor, at);
    """,
    "ALTER TABLE told RENAME TO notified;",
    # The message budget: messages of each notification, and what waits.
    """
    ALTER TABLE outbox ADD COLUMN messages INTEGER NOT NULL DEFAULT 1;
    CREATE TABLE withheld (
        receiver TEXT NOT NULL, incident TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (receiver, incident)
    ) WITHOUT ROWID;
    """,
    # Readings of a day of the components of incidents, for the charts.
    "CREATE TABLE days (component TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL);",
    # Pages of past incidents, the newest change first.
    "CREATE INDEX incidents_updated ON incidents (updated, id);",
)


class StoreError(Exception):
    """The state cannot be read or written; the text has file, reason and remedy."""


class _Damaged(Exception):
    """The file is damaged; the text explains how."""


# Primary result codes of SQLite for the environment (permissions, disk, another process), not for a damaged file.
_PLACE = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_AUTH,
    }
)


class Opened(NamedTuple):
    """The connection, the held lock (close it last), and the damage of the previous file ("" none)."""

    connection: sqlite3.Connection
    lock: IO[str]
    damage: str


def open_database(directory: Path, now: float) -> Opened:
    """Open or create the database in `directory`; StoreError where another server uses it or it cannot be written."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / "lock").open("a+")
    except OSError as error:
        raise StoreError(f"{directory}: cannot keep state here: {error.strerror}") from error
    path = directory / FILE
    try:
        _take(lock, directory)
        try:
            return Opened(_connect(path), lock, "")
        except _Damaged as found:
            _move_aside(path, now)
            return Opened(_connect(path), lock, str(found))
    except _Damaged as error:
        lock.close()
        raise StoreError(f"{path}: a new database cannot be created: {error}") from error
    except OSError as error:
        lock.close()
        raise StoreError(f"{directory}: cannot keep state here: {error.strerror}") from error
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
            f"{directory}: another server (process {holder}) uses this state directory; give each its own --state"
        ) from error
    lock.seek(0)
    lock.truncate()
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _move_aside(path: Path, now: float) -> None:
    """state.db -> state.db.damaged-<now>, and its journal with it."""
    for suffix in ("", "-wal", "-shm"):
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.rename(f"{path}.damaged-{int(now)}{suffix}")


def _connect(path: Path) -> sqlite3.Connection:
    """A connection to an intact database of the current schema. _Damaged for a damaged file, StoreError for an error of
    the environment."""
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # With flipped bits text may be invalid UTF-8; the row must stay readable, to be removed.
        connection.text_factory = lambda data: data.decode(errors="replace")
        _examine(connection, path)
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        _migrate(connection)
        _compare(connection)
        # Detects a read-only file now instead of at the first incident.
        connection.execute("UPDATE schema SET version = version")
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
            # "read-only" of a file with write permission means a damaged header.
            if code in _PLACE or (code == sqlite3.SQLITE_READONLY and not os.access(path, os.W_OK)):
                raise StoreError(f"{path}: cannot be opened: {error}") from error
            raise _Damaged(str(error)) from error
        if isinstance(error, UnicodeError):
            # The sqlite3 module fails on invalid text that SQLite quotes from a damaged schema.
            raise _Damaged(f"malformed database schema: {error}") from error
        raise
    return connection


def _examine(connection: sqlite3.Connection, path: Path) -> None:
    found: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise _Damaged(found)
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    owner: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if owner != APPLICATION_ID:
        raise _Damaged(f"is the database of another program (application id {owner:#x})")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    # The version is stored twice: a difference is damage, not a newer release.
    if version != connection.execute("SELECT version FROM schema").fetchone()[0]:
        raise _Damaged(f"has inconsistent schema versions ({version})")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path}: written by a newer fabricmon (schema {version}, this release supports {len(MIGRATIONS)}); "
            "run that release or use another --state directory"
        )


def _migrate(connection: sqlite3.Connection) -> None:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for number in range(version, len(MIGRATIONS)):
        # One transaction per step, version included: a kill leaves the step undone.
        connection.executescript(
            f"""BEGIN IMMEDIATE;
            {MIGRATIONS[number]}
            CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL);
            DELETE FROM schema;
            INSERT INTO schema VALUES ({number + 1});
            PRAGMA application_id = {APPLICATION_ID};
            PRAGMA user_version = {number + 1};
            COMMIT;"""
        )


def _compare(connection: sqlite3.Connection) -> None:
    """Detect flipped bits in the stored schema, which the integrity check does not see."""
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _migrate(fresh)
        if _columns(connection) != _columns(fresh):
            raise _Damaged("tables differ from the schema")
    finally:
        fresh.close()


def _columns(connection: sqlite3.Connection) -> set[tuple[object, ...]]:
    """Tables with name, type and constraints of each column."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        (table, *column)
        for table in tables
        if not table.startswith("sqlite_")
        for column in connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,))
    }
