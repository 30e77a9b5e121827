"""The document of `GET /api/v1/jobs`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabricmon.forms.documents import optional_time
from fabricmon.jobs.model import Job, Jobs, host_name
from fabricmon.model import Incident


def jobs_document(
    sources: Sequence[Jobs], incidents: Sequence[Incident], now: float, query: Mapping[str, str], limit: int
) -> dict[str, Any]:
    """Jobs with the open incidents that affect them, affected ones first, and every source with its age."""
    hit: dict[tuple[str, str], list[dict[str, str]]] = {}
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


def _job(source: Jobs, job: Job, incidents: list[dict[str, str]], now: float) -> dict[str, Any]:
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


def _source(source: Jobs, now: float) -> dict[str, Any]:
    return {
        "source": source.source,
        "as_of": optional_time(source.as_of),
        "known": source.fresh(now),
        "jobs": len(source.jobs),
        "odd": source.odd,
        "error": source.error,
    }
