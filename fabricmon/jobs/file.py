"""Running jobs from a JSON file, for schedulers without a client here. Pure.

    {"as_of": "2026-05-04T09:12:31Z",
     "jobs": [{"id": "4711", "name": "train-70b", "user": "mara", "nodes": "gpu[001-064]", "started": 1777885000}]}

`nodes` is a host list or a list of names; only `id` and `nodes` are needed. Times are RFC 3339 or seconds since 1970.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Required, TypedDict

from fabricmon.forms.decoding import Undecodable, any_json
from fabricmon.jobs.model import Job, Listing, ListingError, as_text, host_name, listing
from fabricmon.topology.hostlist import MOST_OF_JOBS, Expansion


class JobEntry(TypedDict, total=False):
    """A running job.

    nodes     host list ("gpu[001-064]") or names
    started   RFC 3339 or seconds since 1970
    survives  seconds of an outage that its communication survives
    failover  whether its communication moves to another adapter
    """

    id: Required[str | int]
    nodes: Required[str | list[str]]
    name: str | int | None
    user: str | int | None
    queue: str | int | None
    started: str | float | None
    survives: float | None
    failover: bool | None


class JobsFile(TypedDict, total=False):
    """Running jobs, for schedulers without a client in fabricmon (docs/jobs.md).

    as_of  time of the data: RFC 3339 or seconds since 1970
    """

    as_of: str | float | None
    jobs: Required[list[JobEntry]]


def parse(data: bytes) -> Listing:
    """The jobs of a file. ListingError where it is no such file; an invalid job is left out with an error."""
    try:
        found = any_json(data)
    except Undecodable as error:
        raise ListingError(f"not JSON: {error}") from error
    if isinstance(found, list):
        found = {"jobs": found}
    if not isinstance(found, dict) or not isinstance(found.get("jobs"), list):
        raise ListingError("expected an object with a list `jobs`")
    as_of = found.get("as_of")
    if as_of is not None and (as_of := _time(as_of)) is None:
        raise ListingError("`as_of`: expected seconds since 1970 or 2026-01-31T12:00:00Z")
    names = Expansion(MOST_OF_JOBS)
    return listing((_job(one, at, names) for at, one in enumerate(found["jobs"])), as_of)


def _job(one: Any, at: int, names: Expansion) -> Job | str:
    if not isinstance(one, dict):
        return f"jobs[{at}]: expected an object"
    id = as_text(one.get("id"))
    if not id:
        return f"jobs[{at}].id: expected a word or a number"
    nodes = one.get("nodes")
    if isinstance(nodes, list) and all(isinstance(name, str) for name in nodes):
        nodes = ",".join(nodes)
    if not isinstance(nodes, str):
        return f"jobs[{at}].nodes: expected a host list or a list of names"
    try:
        hosts = tuple(dict.fromkeys(host_name(name) for name in names.hostlist(nodes)))
    except ValueError as error:
        return f"jobs[{at}].nodes: {error}"
    if not hosts:
        return f"jobs[{at}].nodes: empty"
    survives, failover = _number(one.get("survives")), one.get("failover")
    return Job(
        id=id,
        name=as_text(one.get("name")),
        user=as_text(one.get("user")),
        nodes=hosts,
        queue=as_text(one.get("queue")),
        started=_time(one.get("started")),
        survives=survives if survives is not None and survives > 0 else None,
        failover=failover if isinstance(failover, bool) else None,
    )


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _time(value: object) -> float | None:
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.timestamp() if moment is not None and moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
