"""Answers of schedulers as they write them, made of a few facts; and stand-ins that give them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from aiohttp import web

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


class Kubernetes:
    """An API server with pods only: LIST in pages, WATCH from a resource version, bookmarks, 410 for old versions.

    asked    query of every request, in order
    refuse   (status, body) for the next requests, oldest first
    """

    def __init__(self, page: int = 2) -> None:
        self.page, self.version, self.oldest = page, 100, 0
        self.pods: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.refuse: list[tuple[int, str]] = []
        self.watches: list[asyncio.Queue[bytes | None]] = []

    async def start(self) -> Kubernetes:
        app = web.Application()
        app.router.add_get("/api/v1/pods", self._pods)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._pods)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def stop(self) -> None:
        self.end_watches()
        await self.runner.cleanup()

    def put(self, found: dict[str, Any], kind: str = "ADDED") -> None:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            self.pods.pop(found["metadata"]["uid"], None)
        else:
            self.pods[found["metadata"]["uid"]] = found
        self._event({"type": kind, "object": found})

    def bookmark(self) -> None:
        self.version += 1
        self._event({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}})

    def forget(self) -> None:
        """Versions up to now are too old to watch from."""
        self.events.clear()
        self.oldest = self.version

    def say(self, line: bytes) -> None:
        for queue in self.watches:
            queue.put_nowait(line)

    def end_watches(self) -> None:
        for queue in self.watches:
            queue.put_nowait(None)

    def _event(self, event: dict[str, Any]) -> None:
        self.events.append((self.version, event))
        self.say(json.dumps(event).encode() + b"\n")

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        self.asked.append({**request.query, "path": request.path})
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.refuse:
            status, text = self.refuse.pop(0)
            return web.Response(status=status, text=text)
        namespace = request.match_info.get("namespace")
        if request.query.get("watch"):
            return await self._watch(request)
        pods = [p for p in self.pods.values() if namespace in (None, p["metadata"]["namespace"])]
        first = int(request.query.get("continue", "0"))
        meta = {"resourceVersion": str(self.version)}
        if first + self.page < len(pods):
            meta["continue"] = str(first + self.page)
        return web.json_response({"kind": "PodList", "metadata": meta, "items": pods[first : first + self.page]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if version < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for at, event in self.events:
            if at > version:
                queue.put_nowait(json.dumps(event).encode() + b"\n")
        self.watches.append(queue)
        try:
            with contextlib.suppress(ConnectionError):
                while (line := await queue.get()) is not None:
                    for at in range(0, len(line), 1000):  # lines come in pieces
                        await response.write(line[at : at + 1000])
        finally:
            self.watches.remove(queue)
        return response
