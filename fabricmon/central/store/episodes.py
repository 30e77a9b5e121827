"""Episodes of incidents by their stored transitions, and how many were open when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fabricmon.model import HistoryEntry, Incident, Severity

OPENS, ENDS = ("opened", "reopened"), ("resolved", "absorbed")
"""Changes of a transition that begin and end an episode."""


class OpenPeriod(NamedTuple):
    """Wall times; -inf: begun before the stored transitions, inf: still open."""

    began: float
    ended: float


class StoredChange(NamedTuple):
    """A transition of OPENS or ENDS."""

    incident: str
    severity: str
    at: float
    change: str


class Timeline(NamedTuple):
    """Open incidents over time. edges: n + 1 wall times; counts: severity -> n numbers, the most that were open within
    each part; since: before it the counts may be too low, as not all transitions were read."""

    edges: list[float]
    counts: dict[str, list[int]]
    since: float


class ArchivePlace(NamedTuple):
    """Where a page begins: behind this change, newest first."""

    updated: float = float("inf")
    id: str = ""


class PastIncidents(NamedTuple):
    """A page. `next` is where the following one begins, None at the end."""

    found: list[tuple[Incident, list[OpenPeriod]]]
    next: ArchivePlace | None


def episodes(history: Iterable[HistoryEntry]) -> list[OpenPeriod]:
    """Episodes of one incident, oldest first; `history` is oldest first."""
    found: list[OpenPeriod] = []
    began: float | None = None
    for entry in history:
        if entry.change in OPENS and began is None:
            began = entry.at
        elif entry.change in ENDS and (began is not None or not found):
            found.append(OpenPeriod(float("-inf") if began is None else began, entry.at))
            began = None
    return found if began is None else [*found, OpenPeriod(began, float("inf"))]


def within(found: Iterable[OpenPeriod], since: float, until: float) -> list[OpenPeriod]:
    """Those that were open at some time of a period."""
    return [one for one in found if one.began <= until and one.ended >= since]


def timeline(changes: Sequence[StoredChange], since: float, until: float, parts: int, whole: bool) -> Timeline:
    """How many were open, from transitions newest first; `whole`: these are all up to `until`."""
    width = (until - since) / parts
    edges = [since + at * width for at in range(parts + 1)]
    counts = {severity.value: np.zeros(parts + 1, np.int64) for severity in reversed(Severity)}
    by_incident: dict[str, list[StoredChange]] = {}
    for change in reversed(changes):
        by_incident.setdefault(change.incident, []).append(change)
    for own in by_incident.values():
        for one in within(episodes(HistoryEntry(c.at, c.change, "") for c in own), since, until):
            first = int(max(0.0, (one.began - since) / width))
            last = int(min(parts - 1.0, (one.ended - since) / width))
            row = counts.get(own[0].severity)
            if row is not None:
                row[min(first, parts - 1)] += 1
                row[last + 1] -= 1
    made = {name: np.cumsum(row)[:parts].tolist() for name, row in counts.items()}
    return Timeline(edges, made, since if whole or not changes else changes[-1].at)


def by_incident(found: Iterable[tuple[str, float, str, str]]) -> Mapping[str, list[HistoryEntry]]:
    """Incident id -> transitions, from rows (id, at, change, reason), oldest first."""
    made: dict[str, list[HistoryEntry]] = {}
    for id, at, change, reason in found:
        made.setdefault(id, []).append(HistoryEntry(at, change, reason))
    return made
