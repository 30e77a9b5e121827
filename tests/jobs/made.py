"""Answers of schedulers as they write them, made of a few facts."""

from __future__ import annotations

import json
from typing import Any

OLD, NUMBERS, LISTS, RESOURCES, NEWEST = "v0.0.38", "v0.0.39", "v0.0.40", "v0.0.41", "v0.0.42"
VERSIONS = (OLD, NUMBERS, LISTS, RESOURCES, NEWEST)


def slurm_job(version: str, id: int, nodes: str, *, state: str = "RUNNING", started: int = 1_700_000_000,
              array: tuple[int, int] | None = None, het: tuple[int, int] | None = None) -> dict[str, Any]:
    """One job as the data parser of a version writes it."""

    def number(value: int | None) -> Any:
        if version == OLD:
            return value or 0 if value is not None else None
        return {"set": value is not None, "infinite": False, "number": value or 0}

    plain = version == OLD
    job: dict[str, Any] = {
        "account": "ml", "job_id": id, "name": f"train-{id}", "user_name": "mara", "user_id": 1001,
        "partition": "gpu", "nodes": nodes, "start_time": started if version in (OLD,) else number(started),
        "job_state": [state] if version >= LISTS else state,
        "array_job_id": number(array[0] if array else 0),
        "array_task_id": number(array[1] if array else None),
        "het_job_id": number(het[0] if het else 0),
        "het_job_offset": number(het[1] if het else (0 if plain else None)),
        "tres_alloc_str": "cpu=64,gres/gpu=8", "time_limit": number(1440), "flags": ["EXACT_TASK_COUNT_REQUESTED"],
        "job_resources": {"nodes": nodes, "allocated_cores": 64},
    }  # fmt: skip
    if version >= RESOURCES:
        job["job_resources"] = {"nodes": {"count": 2, "select_type": ["AVAILABLE"], "list": nodes, "allocation": []}}
    return job


def slurm_answer(jobs: list[Any], version: str = NEWEST, errors: tuple[Any, ...] = ()) -> bytes:
    plugin = {"type": "openapi/slurmctld", "data_parser": f"data_parser/{version}"}
    return json.dumps({"jobs": jobs, "meta": {"plugin": plugin}, "errors": list(errors), "warnings": []}).encode()


def pod(name: str, node: str | None, *, namespace: str = "team", labels: dict[str, str] | None = None,
        owner: tuple[str, str] | None = None, resources: dict[str, str] | None = None, phase: str = "Running",
        env: dict[str, str] | None = None, version: int = 1) -> dict[str, Any]:
    """A pod as the API server gives it."""
    asked = {"nvidia.com/gpu": "8"} if resources is None else resources
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": labels or {},
            "resourceVersion": str(version),
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else [],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "resources": {"limits": asked, "requests": asked},
                            "env": [{"name": k, "value": v} for k, v in (env or {}).items()]}],
        },
        "status": {"phase": phase, "startTime": "2026-05-04T09:00:00Z"},
    }  # fmt: skip
