"""Running jobs out of `squeue --json`, `scontrol show jobs --json` and slurmrestd's /slurm/<version>/jobs. Pure.

All three write the same list `jobs`; its fields changed between data_parser v0.0.38 and v0.0.44:
  * numbers are plain, or {"set": true, "infinite": false, "number": 4711} since v0.0.39;
  * `job_state` is a word, or a list of a state and flags since v0.0.40;
  * `nodes` is a host list; `job_resources.nodes` is a host list too, or {"list": "...", ...} since v0.0.41.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from fabricmon.jobs.model import Job, Listing, ListingError, host_name, listing, text
from fabricmon.topology.hostlist import hostlist

HOLDING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})
"""States in which a job has its nodes and its processes are there."""

EMPTY = frozenset({"", "(null)", "None assigned", "N/A"})


class _Answer(Struct):
    jobs: list[Any] | None = None
    errors: Any = None


class _Pieces(Struct):
    """The same with every job as it is written: most of what Slurm tells of a job is never made an object."""

    jobs: list[msgspec.Raw] | None = None
    errors: Any = None


class _Row(Struct):
    """Fields of one job; whatever they hold, so that one odd field costs no more than it must."""

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
    """ListingError where it is no answer of Slurm; a job that makes no sense costs itself."""
    answer = _answer(data)
    if answer.jobs is None:
        raise ListingError(_errors(answer.errors) or "has no `jobs`: was --json left out, or is this an old Slurm?")
    if not answer.jobs and (told := _errors(answer.errors)):
        raise ListingError(told)
    return listing(_job(raw, at) for at, raw in enumerate(answer.jobs))


def _answer(data: bytes) -> _Answer | _Pieces:
    try:
        return msgspec.json.decode(data, type=_Pieces)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as strict:
        try:
            # Some versions of Slurm print Infinity and NaN, which JSON has not.
            return msgspec.convert(json.loads(data), type=_Answer)
        except (ValueError, RecursionError):
            raise ListingError(f"not the JSON of a list of jobs: {strict}") from strict


def _job(found: Any, at: int) -> Job | str | None:
    try:
        as_written = isinstance(found, msgspec.Raw)
        row = msgspec.json.decode(found, type=_Row) if as_written else msgspec.convert(found, type=_Row)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"jobs[{at}]: {error}"
    states = row.job_state if isinstance(row.job_state, list) else [row.job_state]
    if not HOLDING.intersection(state for state in states if isinstance(state, str)):
        return None if any(isinstance(state, str) for state in states) else f"jobs[{at}].job_state: no word of a state"
    number = _number(row.job_id)
    if number is None:
        return f"jobs[{at}].job_id: no number"
    try:
        nodes = tuple(dict.fromkeys(host_name(name) for name in hostlist(_nodes(row))))
    except ValueError as error:
        return f"job {number}, nodes: {error}"
    if not nodes:
        return f"job {number} runs and names no nodes"
    return Job(
        id=_id(row, number),
        name=text(row.name),
        user=text(row.user_name) or text(_number(row.user_id)),
        nodes=nodes,
        queue=text(row.partition),
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
    for said in (row.nodes, inner.get("list") if isinstance(inner, dict) else inner):
        if isinstance(said, str) and said not in EMPTY:
            return said
        if isinstance(said, list) and said and all(isinstance(name, str) for name in said):
            return ",".join(said)
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
    """What Slurm says is wrong, as one line."""
    said = []
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            said.append(" ".join(text(error.get(key)) for key in ("source", "description", "error") if error.get(key)))
        else:
            said.append(text(error))
    return "; ".join(word for word in said[:3] if word.strip())
