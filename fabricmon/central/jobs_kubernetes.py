"""Jobs of Kubernetes: LIST of the running pods, then WATCH from there, as the API's own clients do.

A watch that the server ends is taken up from its last resource version; one that is too old (410 Gone) begins with a
new LIST. Bookmarks keep the version young while no pod changes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from fabricmon.central.jobs_settings import KubernetesJobs
from fabricmon.central.jobs_source import USER_AGENT, JobsError, Parser, body, refusal, tls
from fabricmon.jobs.kubernetes import Pod, jobs, pod
from fabricmon.jobs.model import MAX_ODD, Listing
from fabricmon.senders.post import read_secret

PAGE = 500  # pods of one page, as kubectl asks for
MAX_PODS = 200_000  # pods of interest that are kept
MAX_EVENT = 8 << 20  # bytes of one watch event; an object of the API has at most about 1.5 MiB
WATCH = 240.0  # seconds after which the server is asked to end a watch
GRACE = 30.0  # seconds a watch may be silent beyond that
COALESCE = 1.0  # seconds in which changes are told once
RELIST = 1.0  # seconds before a watch that ended is taken up again
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
GONE = 410


class _Meta(Struct):
    resourceVersion: str = ""
    next: str = msgspec.field(name="continue", default="")


class _Page(Struct):
    metadata: _Meta
    items: list[Any] | None = None


class _Event(Struct):
    type: str
    object: Any = None


class _Gone(Exception):
    """The resource version is too old."""


class PodSource:
    """Pods of one namespace, "" all."""

    def __init__(self, config: KubernetesJobs, namespace: str, deadline: float, stale_after: float) -> None:
        self.config, self.namespace, self.deadline = config, namespace, float(deadline)
        self.name = f"kubernetes {namespace}" if namespace else "kubernetes"
        self.period = RELIST
        # A watch without news ends and is taken up again, which shows that the server is there, before it is stale.
        self._watch = min(WATCH, float(stale_after) / 3)
        self._parser = Parser("kubernetes jobs", self.deadline)
        self._pods: dict[str, Pod] = {}
        self._odd: list[str] = []
        self._version = ""

    def close(self) -> None:
        self._parser.close()

    async def follow(self, tell: Callable[[Listing], None]) -> None:
        base, token_file, ca_file = self._server()
        path = f"/api/v1/namespaces/{self.namespace}/pods" if self.namespace else "/api/v1/pods"
        connector = aiohttp.TCPConnector(limit=2, ssl=tls(ca_file))
        try:
            async with aiohttp.ClientSession(connector=connector, headers={"User-Agent": USER_AGENT}) as session:
                if not self._version:
                    await self._list(session, base + path, token_file)
                    tell(self._listing())
                await self._follow(session, base + path, token_file, tell)
        except _Gone:
            self._version = ""
        except TimeoutError as error:
            raise JobsError(f"no answer within {self.deadline:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise JobsError(f"{type(error).__name__}: {error}") from error

    def _server(self) -> tuple[str, str, str]:
        """Base URL, token file and CA file."""
        config = self.config
        if config.api != "cluster":
            return config.api.rstrip("/"), config.token_file, config.ca_file
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise JobsError("not inside a cluster: KUBERNETES_SERVICE_HOST is not set")
        where = f"[{host}]" if ":" in host else host
        token, ca = config.token_file or f"{ACCOUNT}/token", config.ca_file or f"{ACCOUNT}/ca.crt"
        return f"https://{where}:{port}", token, ca

    def _headers(self, token_file: str) -> dict[str, str]:
        if not token_file:
            return {}
        try:
            return {"Authorization": f"Bearer {read_secret(token_file)}"}
        except (OSError, ValueError) as error:
            raise JobsError(f"token file: {error}") from error

    # ---------------------------------------------------------------- LIST

    async def _list(self, session: aiohttp.ClientSession, url: str, token_file: str) -> None:
        pods: dict[str, Pod] = {}
        odd: list[str] = []
        following = ""
        while True:
            query = {"limit": str(PAGE), "fieldSelector": "status.phase=Running"}
            if following:
                query["continue"] = following
            async with session.get(
                url,
                params=query,
                headers=self._headers(token_file),
                timeout=aiohttp.ClientTimeout(total=self.deadline),
                allow_redirects=False,
            ) as answer:
                if answer.status == GONE:
                    raise _Gone
                if answer.status != 200:
                    raise JobsError(await refusal(answer))
                data = await body(answer)
            version, following = await self._page(data, pods, odd)
            if not following:
                break
        self._pods, self._odd, self._version = pods, odd, version

    async def _page(self, data: bytes, pods: dict[str, Pod], odd: list[str]) -> tuple[str, str]:
        """Put a page's pods to the others; its resource version and what continues it."""
        found: list[_Page] = []

        def parse() -> Listing:
            page = msgspec.json.decode(data, type=_Page)
            found.append(page)
            for item in page.items or ():
                one = pod(item, self.config.resources)
                if isinstance(one, str):
                    odd.append(one)
                elif one is not None:
                    if len(pods) >= MAX_PODS:
                        raise JobsError(f"more than {MAX_PODS} pods with devices")
                    pods[one.uid] = one
            return Listing(())

        try:
            await self._parser.parse(parse)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise JobsError(f"no list of pods: {error}") from error
        return found[0].metadata.resourceVersion, found[0].metadata.next

    # ---------------------------------------------------------------- WATCH

    async def _follow(
        self, session: aiohttp.ClientSession, url: str, token_file: str, tell: Callable[[Listing], None]
    ) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(self._watch))),
            "fieldSelector": "status.phase=Running",
        }
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self.deadline, sock_read=self._watch + GRACE)
        headers = self._headers(token_file)
        async with session.get(url, params=query, headers=headers, timeout=limit, allow_redirects=False) as answer:
            if answer.status == GONE:
                raise _Gone
            if answer.status != 200:
                self._version = ""
                raise JobsError(await refusal(answer))
            tell(self._listing())
            pending: asyncio.TimerHandle | None = None
            loop = asyncio.get_running_loop()
            told_at = loop.time()
            try:
                async for line in _lines(answer):
                    self._take(line)
                    if pending is None or pending.when() <= loop.time():
                        due = max(0.0, told_at + COALESCE - loop.time())
                        told_at = loop.time() + due
                        pending = loop.call_later(due, lambda: tell(self._listing()))
            finally:
                if pending is not None and not pending.cancelled():
                    pending.cancel()
                    tell(self._listing())

    def _take(self, line: bytes) -> None:
        """One event of a watch."""
        try:
            event = msgspec.json.decode(line, type=_Event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._version = ""  # an event was lost: begin anew
            raise JobsError(f"no watch event: {error}") from error
        found = event.object if isinstance(event.object, dict) else {}
        if event.type == "ERROR":
            if found.get("code") == GONE or found.get("reason") in ("Expired", "Gone"):
                raise _Gone
            self._version = ""
            raise JobsError(f"watch ended: {found.get('message') or found.get('reason') or 'without a reason'}")
        meta = found.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        if isinstance(meta.get("resourceVersion"), str):
            self._version = meta["resourceVersion"]
        if event.type == "BOOKMARK":
            return
        one = pod(found, self.config.resources) if event.type in ("ADDED", "MODIFIED") else None
        if isinstance(one, Pod):
            if one.uid not in self._pods and len(self._pods) >= MAX_PODS:
                raise JobsError(f"more than {MAX_PODS} pods with devices")
            self._pods[one.uid] = one
        else:
            uid = meta.get("uid")
            self._pods.pop(uid if isinstance(uid, str) else f"{meta.get('namespace')}/{meta.get('name')}", None)

    def _listing(self) -> Listing:
        return Listing(jobs(self._pods.values()), tuple(self._odd[:MAX_ODD]), len(self._odd))


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a body as they come; JobsError for one that never ends."""
    rest = bytearray()
    async for chunk in answer.content.iter_any():
        rest += chunk
        *lines, last = rest.split(b"\n")
        rest = bytearray(last)
        if len(rest) > MAX_EVENT:
            raise JobsError(f"a watch event has more than {MAX_EVENT} bytes")
        for line in lines:
            if line.strip():
                yield bytes(line)
