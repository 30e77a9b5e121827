"""Types of `GET /api/v1/archive` and `GET /api/v1/timeline`. Pure."""

from __future__ import annotations

from typing import TypedDict

from fabricmon.forms.documents import IncidentDocument, Time


class EpisodeDocument(TypedDict):
    """A time in which an incident was open. Began null: before what is stored; ended null: still open."""

    began: Time | None
    ended: Time | None


class ArchivedIncident(IncidentDocument):
    """A stored incident with its episodes in the period, oldest first."""

    episodes: list[EpisodeDocument]


class ArchiveDocument(TypedDict):
    """Incidents of a period, the last change first. `next`: `before` of the next request, null at the end."""

    incidents: list[ArchivedIncident]
    next: str | None
    since: Time
    until: Time


class TimelineDocument(TypedDict):
    """Open incidents over time.

    edges          n + 1 times of n parts
    open           severity -> the most that were open in each part
    complete_from  before this time not all are counted
    """

    edges: list[Time]
    open: dict[str, list[int]]
    complete_from: Time
