"""A stand-in of the Kubernetes API, over TLS or in the clear: LIST in pages, WATCH with bookmarks and 410 Gone, tokens
that expire, PATCH by strategic merge and by merge with 409 Conflict, dry runs, rights. Nodes and pods only."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import ssl
from typing import Any

from aiohttp import web

from tests.rigs.certificates import Pair
from tests.rigs.served import Served, serve

LIMIT = 2  # objects of a page, whatever was asked for


class StandIn:
    """`objects[path][name]` by the path of their collection.

    tokens     that are valid; with none everybody is
    asked      (method, path, query) of every request
    patches    (path, query, body) of every PATCH that was accepted
    forbidden  (method, end of the path) that are answered with 403
    refuse     status of the next answers, oldest first, whatever is asked
    stale      how many of the next `continue` are answered with 410
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.version, self.oldest = 100, 0
        self.tokens: set[str] = set()
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.patches: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.refuse: list[int] = []
        self.stale = 0
        self.watches: list[tuple[str, asyncio.Queue[bytes | None]]] = []
        self._served: Served | None = None

    async def start(self, pair: Pair | None = None, port: int = 0) -> StandIn:
        """Without a certificate it speaks plain HTTP."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._get)
        app.router.add_patch("/{path:.*}", self._patch)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if pair else None
        if tls and pair:
            tls.load_cert_chain(pair.cert, pair.key)
        self._served = await serve(app, port=port, tls=tls)
        self.port, self.url = self._served.port, self._served.url
        return self

    async def stop(self) -> None:
        self.end_watches()
        if self._served is not None:
            await self._served.stop()
            self._served = None

    # ---------------------------------------------------------------- what happens in the cluster

    def put(self, path: str, thing: dict[str, Any]) -> dict[str, Any]:
        """A new object, or one as it is now."""
        name = thing["metadata"]["name"]
        kind = "MODIFIED" if name in self.objects.setdefault(path, {}) else "ADDED"
        self.version += 1
        thing["metadata"] |= {"resourceVersion": str(self.version), "uid": f"uid-of-{name}"}
        self.objects[path][name] = copy.deepcopy(thing)
        self._tell(path, {"type": kind, "object": thing})
        return thing

    def delete(self, path: str, name: str) -> None:
        self.version += 1
        thing = self.objects[path].pop(name)
        thing["metadata"]["resourceVersion"] = str(self.version)
        self._tell(path, {"type": "DELETED", "object": thing})

    def bookmark(self, path: str) -> None:
        self.version += 1
        self._tell(path, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})

    def forget(self) -> None:
        """Versions up to now are too old to watch from."""
        self.version += 1
        self.oldest = self.version
        self.events.clear()

    def say(self, line: bytes) -> None:
        for _, queue in self.watches:
            queue.put_nowait(line)

    def end_watches(self) -> None:
        for _, queue in self.watches:
            queue.put_nowait(None)

    def _tell(self, path: str, event: dict[str, Any]) -> None:
        self.events.append((self.version, path, event))
        line = json.dumps(event).encode() + b"\n"
        for watched, queue in self.watches:
            if watched == path:
                queue.put_nowait(line)

    # ---------------------------------------------------------------- requests

    def _refused(self, request: web.Request) -> web.Response | None:
        self.asked.append((request.method, request.path, dict(request.query)))
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens and token not in self.tokens:
            return _status(401, "Unauthorized", "Unauthorized")
        if self.refuse:
            return _status(self.refuse.pop(0), "Refused", "somebody is not allowed to do that")
        if any(request.method == method and request.path.endswith(end) for method, end in self.forbidden):
            return _status(403, "Forbidden", f'"{request.path}" is forbidden: User "someone" cannot do that')
        return None

    async def _get(self, request: web.Request) -> web.StreamResponse:
        refused = self._refused(request)
        if refused is not None:
            return refused
        if request.query.get("watch"):
            return await self._watch(request)
        first = 0
        if "continue" in request.query:
            if self.stale:
                self.stale -= 1
                return _status(410, "Expired", "The provided continue parameter is too old")
            first = int(request.query["continue"])
        wanted = [pair.split("=") for pair in request.query.get("labelSelector", "").split(",") if pair]
        things = [
            thing
            for thing in self.objects.get(request.path, {}).values()
            if all(thing["metadata"].get("labels", {}).get(key) == value for key, value in wanted)
        ]
        meta = {"resourceVersion": str(self.version)}
        if first + LIMIT < len(things):
            meta["continue"] = str(first + LIMIT)
        return web.json_response({"kind": "List", "metadata": meta, "items": things[first : first + LIMIT]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if version < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for at, path, event in self.events:
            if at > version and path == request.path:
                queue.put_nowait(json.dumps(event).encode() + b"\n")
        mine = (request.path, queue)
        self.watches.append(mine)
        try:
            with contextlib.suppress(ConnectionError):
                while (line := await queue.get()) is not None:
                    for at in range(0, len(line), 1000):  # lines come in pieces
                        await response.write(line[at : at + 1000])
        finally:
            self.watches.remove(mine)
        return response

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        refused = self._refused(request)
        if refused is not None:
            return refused
        path, _, name = request.path.removesuffix("/status").rpartition("/")
        status = request.path.endswith("/status")
        media = "application/strategic-merge-patch+json" if status else "application/merge-patch+json"
        if request.content_type != media:
            return _status(415, "UnsupportedMediaType", f"expected {media}")
        found = self.objects.get(path, {}).get(name)
        if found is None:
            return _status(404, "NotFound", f'nodes "{name}" not found')
        body = json.loads(await request.read())
        asked = body.get("metadata", {}).get("resourceVersion", found["metadata"]["resourceVersion"])
        if asked != found["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        self.patches.append((request.path, dict(request.query), body))
        changed = copy.deepcopy(found)
        if status:
            kept = {c["type"]: c for c in changed.setdefault("status", {}).get("conditions", [])}
            kept |= {c["type"]: kept.get(c["type"], {}) | c for c in body["status"]["conditions"]}
            changed["status"]["conditions"] = list(kept.values())
        else:
            taints = body["spec"]["taints"]
            changed["spec"] = {**changed.get("spec", {}), "taints": taints} if taints else {}
        if request.query.get("dryRun") != "All":
            self.put(path, changed)
        return web.json_response(changed)


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


def node(
    name: str,
    address: str = "",
    *,
    ready: bool = True,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """A node as a kubelet keeps it; a condition without times is as the API server gives it."""
    return {
        "kind": "Node", "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}] if address else None,
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown", "reason": "Kubelet",
                            "lastHeartbeatTime": None, "lastTransitionTime": None}],
        },
    }  # fmt: skip


def agent_pod(node: str, address: str = "", *, name: str = "", phase: str = "Running") -> dict[str, Any]:
    """The pod of an agent."""
    labels = {"app.kubernetes.io/name": "fabricmon", "app.kubernetes.io/component": "agent"}
    return {
        "kind": "Pod", "metadata": {"name": name or f"agent-{node}", "namespace": "fabricmon", "labels": labels},
        "spec": {"nodeName": node, "hostNetwork": True}, "status": {"phase": phase, "podIP": address},
    }  # fmt: skip
