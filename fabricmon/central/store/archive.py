"""Incidents of the past: a page of those that a search finds, and the transitions behind the time line. Bounded."""

from __future__ import annotations

from collections.abc import Callable

from fabricmon.central.store.episodes import (
    ArchivePlace,
    OpenPeriod,
    PastIncidents,
    StoredChange,
    by_incident,
    episodes,
    within,
)
from fabricmon.central.store.rows import Rows
from fabricmon.model import Incident

MAX_SCAN = 2000  # stored incidents that one request decodes
MAX_ENTRIES = 200  # transitions of one incident, the newest
MAX_CHANGES = 20_000  # transitions behind a time line
CHUNK = 200  # rows of one query

_FOUND = (
    "SELECT updated, id, body FROM incidents WHERE (updated, id) < (?, ?) AND (status = 'firing' OR updated >= ?)"
    " AND EXISTS (SELECT 1 FROM transitions t WHERE t.incident = incidents.id AND t.at <= ?)"
    " ORDER BY updated DESC, id DESC LIMIT ?"
)
_OWN = "SELECT incident, at, change, reason FROM transitions WHERE incident = ? ORDER BY seq DESC LIMIT ?"
_CHANGES = (
    "SELECT t.incident, i.severity, t.at, t.change FROM transitions t JOIN incidents i ON i.id = t.incident"
    " WHERE t.at <= ? AND t.change IN ('opened', 'reopened', 'resolved', 'absorbed')"
    " ORDER BY t.at DESC, t.seq DESC LIMIT ?"
)


def past_incidents(
    rows: Rows, since: float, until: float, begin: ArchivePlace, limit: int, matches: Callable[[Incident], bool]
) -> PastIncidents:
    """Those open at some time of the period that match, with their episodes in it; the newest change first."""
    found: list[tuple[Incident, list[OpenPeriod]]] = []
    at, scanned = begin, 0
    while scanned < MAX_SCAN:
        some = rows.db.execute(_FOUND, (*at, since, until, CHUNK)).fetchall()
        for updated, id, body in some:
            at, scanned = ArchivePlace(updated, id), scanned + 1
            incident = rows.unpacked(Incident, "incidents", body)
            if incident is None or not matches(incident):
                continue
            own = by_incident(reversed(rows.db.execute(_OWN, (id, MAX_ENTRIES)).fetchall())).get(id, [])
            inside = within(episodes(own), since, until)
            if inside:
                found.append((incident, inside))
            if len(found) == limit:
                return PastIncidents(found, at)
        if len(some) < CHUNK:
            return PastIncidents(found, None)
    return PastIncidents(found, at)


def past_changes(rows: Rows, until: float) -> tuple[list[StoredChange], bool]:
    """The newest openings and ends up to a time, newest first, and whether these are all."""
    found = [StoredChange(*row) for row in rows.db.execute(_CHANGES, (until, MAX_CHANGES)).fetchall()]
    return found, len(found) < MAX_CHANGES
