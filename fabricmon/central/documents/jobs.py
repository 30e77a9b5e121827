"""The document of `GET /api/v1/jobs`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fabricmon.forms.documents import Time, optional_time
from fabricmon.jobs.model import Job, Jobs, host_name
from fabricmon.model import Incident


class JobIncident(TypedDict):
    """An open incident that affects the job, and what it does to it."""

    id: str
    verdict: str


class JobDocument(TypedDict):
    """A running job.

    known     its source answered in time
    survives  seconds of an outage that its communication survives
    failover  whether its communication moves to another adapter; null: unknown
    """

    id: str
    name: str
    user: str
    queue: str
    source: str
    known: bool
    started: Time
    survives: float | None
    failover: bool | None
    nodes: tuple[str, ...]
    incidents: list[JobIncident]


class JobSourceDocument(TypedDict):
    """A source of jobs: time of its last answer, number of its jobs, entries of it that were left out, its error."""

    source: str
    as_of: Time
    known: bool
    jobs: int
    odd: int
    error: str


class JobsDocument(TypedDict):
    """Running jobs, affected ones first, and their sources. `total` counts all matches."""

    jobs: list[JobDocument]
    total: int
    sources: list[JobSourceDocument]


def jobs_document(
    sources: Sequence[Jobs], incidents: Sequence[Incident], now: float, query: Mapping[str, str], limit: int
) -> JobsDocument:
    """Jobs with the open incidents that affect them, affected ones first, and every source with its age."""
    hit: dict[tuple[str, str], list[JobIncident]] = {}
    for incident in incidents:
        if incident.status == "firing" and incident.impact is not None:
            for job in incident.impact.jobs:
                hit.setdefault((job.source, job.id), []).append({"id": incident.id, "verdict": job.verdict.value})
    node = host_name(query.get("node", ""))
    found = [
        (source, job)
        for source in sources
        for job in source.jobs
        if query.get("source", source.source) == source.source and (not node or node in job.nodes)
    ]
    found.sort(key=lambda one: ((one[0].source, one[1].id) not in hit, one[0].source, one[1].id))
    return {
        "jobs": [_job(source, job, hit.get((source.source, job.id), []), now) for source, job in found[:limit]],
        "total": len(found),
        "sources": [_source(source, now) for source in sources],
    }


def _job(source: Jobs, job: Job, incidents: list[JobIncident], now: float) -> JobDocument:
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "queue": job.queue,
        "source": source.source,
        "known": source.fresh(now),
        "started": optional_time(job.started),
        "survives": source.survives if job.survives is None else job.survives,
        "failover": job.failover,
        "nodes": job.nodes,
        "incidents": incidents,
    }


def _source(source: Jobs, now: float) -> JobSourceDocument:
    return {
        "source": source.source,
        "as_of": optional_time(source.as_of),
        "known": source.fresh(now),
        "jobs": len(source.jobs),
        "odd": source.odd,
        "error": source.error,
    }
