"""Running jobs from `squeue --json`, `scontrol show jobs --json` and slurmrestd's /slurm/<version>/jobs. Pure.

All three write the same list `jobs`; its fields changed between data_parser v0.0.38 and v0.0.44:
  * numbers are plain, or {"set": true, "infinite": false, "number": 4711} since v0.0.39;
  * `job_state` is a word, or a list of a state and flags since v0.0.40;
  * `nodes` is a host list; `job_resources.nodes` is a host list too, or {"list": "...", ...} since v0.0.41.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, converted, json_value, loose_json
from fabricmon.jobs.model import Job, Listing, ListingError, as_text, host_name, listing
from fabricmon.topology.hostlist import MOST_OF_JOBS, Expansion

HOLDING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})
"""States in which a job has nodes and processes."""

EMPTY = frozenset({"", "(null)", "None assigned", "N/A"})


class _Answer(Struct):
    jobs: list[Any] | None = None
    errors: Any = None


class _Pieces(Struct):
    """The same with every job unparsed: most of its fields are never needed."""

    jobs: list[msgspec.Raw] | None = None
    errors: Any = None


class _Row(Struct):
    """Fields of one job, of any type: an invalid field costs at most this job."""

    job_id: Any = None
    array_job_id: Any = None
    array_task_id: Any = None
    het_job_id: Any = None
    het_job_offset: Any = None
    job_state: Any = None
    name: Any = None
    user_name: Any = None
    user_id: Any = None
    partition: Any = None
    nodes: Any = None
    job_resources: Any = None
    start_time: Any = None


def parse(data: bytes) -> Listing:
    """The jobs of an answer. ListingError where it is none of Slurm; an invalid job is left out with an error."""
    answer = _answer(data)
    if answer.jobs is None:
        raise ListingError(_errors(answer.errors) or "has no `jobs`: is --json missing, or is this an old Slurm?")
    if not answer.jobs and (errors := _errors(answer.errors)):
        raise ListingError(errors)
    names = Expansion(MOST_OF_JOBS)
    return listing(_job(raw, at, names) for at, raw in enumerate(answer.jobs))


def _answer(data: bytes) -> _Answer | _Pieces:
    try:
        return json_value(data, _Pieces)
    except Undecodable as strict:
        try:
            # Some versions of Slurm print Infinity and NaN, which are not JSON.
            return converted(loose_json(data), _Answer)
        except Undecodable:
            raise ListingError(f"not the JSON of a list of jobs: {strict}") from strict


def _job(found: Any, at: int, names: Expansion) -> Job | str | None:
    try:
        as_written = isinstance(found, msgspec.Raw)
        row = json_value(found, _Row) if as_written else converted(found, _Row)
    except Undecodable as error:
        return f"jobs[{at}]: {error}"
    states = row.job_state if isinstance(row.job_state, list) else [row.job_state]
    if not HOLDING.intersection(state for state in states if isinstance(state, str)):
        return None if any(isinstance(state, str) for state in states) else f"jobs[{at}].job_state: expected a word"
    number = _number(row.job_id)
    if number is None:
        return f"jobs[{at}].job_id: expected a number"
    try:
        nodes = tuple(dict.fromkeys(host_name(name) for name in names.hostlist(_nodes(row))))
    except ValueError as error:
        return f"job {number}, nodes: {error}"
    if not nodes:
        return f"job {number} runs and has no nodes"
    return Job(
        id=_id(row, number),
        name=as_text(row.name),
        user=as_text(row.user_name) or as_text(_number(row.user_id)),
        nodes=nodes,
        queue=as_text(row.partition),
        started=_time(row.start_time),
    )


def _id(row: _Row, number: int) -> str:
    """As users write it: "4711", "4700_3" of an array, "4700+1" of a heterogeneous job."""
    array, task = _number(row.array_job_id), _number(row.array_task_id)
    if array and task is not None:
        return f"{array}_{task}"
    het, offset = _number(row.het_job_id), _number(row.het_job_offset)
    return f"{het}+{offset}" if het and offset is not None else str(number)


def _nodes(row: _Row) -> str:
    resources = row.job_resources if isinstance(row.job_resources, dict) else {}
    inner = resources.get("nodes")
    for nodes in (row.nodes, inner.get("list") if isinstance(inner, dict) else inner):
        if isinstance(nodes, str) and nodes not in EMPTY:
            return nodes
        if isinstance(nodes, list) and nodes and all(isinstance(name, str) for name in nodes):
            return ",".join(nodes)
    return ""


def _number(value: object) -> int | None:
    """A plain number or one of Slurm's {set, infinite, number}; None where it is unset or none."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _time(value: object) -> float | None:
    seconds = _number(value)
    return float(seconds) if seconds else None


def _errors(errors: object) -> str:
    """Slurm's errors, as one line."""
    texts = []
    for error in errors if isinstance(errors, list) else []:
        words = [error.get(key) for key in ("source", "description", "error")] if isinstance(error, dict) else [error]
        texts.append(" ".join(filter(None, map(as_text, words))))
    return "; ".join(text for text in texts[:3] if text.strip())
