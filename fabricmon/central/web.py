"""The centre's HTTP face put together: page, API, /metrics, /health and the probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from aiohttp import web

from fabricmon import __version__
from fabricmon.central import api, api_request
from fabricmon.central.centre import Centre
from fabricmon.central.history import History
from fabricmon.central.overview import sentence
from fabricmon.central.page.document import CSP
from fabricmon.central.page.routes import SMALL, Page
from fabricmon.central.runbook_site import RunbookSite
from fabricmon.jobs.model import Jobs
from fabricmon.model import Severity
from fabricmon.notify.links import Links
from fabricmon.runtime.exposition import Format, accepts_gzip, gzip, negotiate
from fabricmon.runtime.http import add_probes

SECURITY = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Web:
    """`warnings` are sentences about the centre itself; `metrics_page` renders /metrics in a format; `jobs` is what
    every source of jobs said last; `access` tells a caller what it may do, `history` what was in the last hours."""

    def __init__(
        self,
        centre: Centre,
        warnings: Callable[[], list[str]],
        metrics_page: Callable[[Format], bytes],
        live: Callable[[], str | None],
        ready: Callable[[], str | None],
        jobs: Callable[[], Sequence[Jobs]] = tuple,
        links: Callable[[], Links] = Links,
        access: api.Handler | None = None,
        history: History | None = None,
        targets: api.Handler | None = None,
    ) -> None:
        self._centre, self._warnings, self._metrics_page = centre, warnings, metrics_page
        self.app = web.Application(client_max_size=api_request.MAX_BODY, middlewares=[secure, api.errors])
        router = self.app.router
        Page(centre, warnings, history).add_routes(self.app)
        router.add_get("/metrics", self._metrics)
        router.add_get("/health", self._health)
        api.Api(centre, jobs, links).add_routes(self.app)
        RunbookSite(centre.engine, links).add_routes(self.app)
        if access is not None:
            router.add_get(f"{api.PREFIX}/access", access)
        if targets is not None:
            router.add_get(f"{api.PREFIX}/targets", targets)
        add_probes(self.app, live, ready)

    async def _metrics(self, request: web.Request) -> web.Response:
        wanted = negotiate(request.headers.get("Accept", ""))
        headers = {"Content-Type": wanted.value, "Vary": "Accept"}
        return _packed(request, web.Response(body=self._metrics_page(wanted), headers=headers))

    async def _health(self, request: web.Request) -> web.Response:
        """One word for a check: pass, warn, critical or unknown, with the sentence behind it."""
        _, overview, _, _ = self._centre.look()
        status = {Severity.CRITICAL: "critical", Severity.WARNING: "warn"}.get(overview.worst or Severity.INFO, "pass")
        if not overview.known:
            status = "unknown"
        body = {
            "status": status,
            "reason": sentence(overview),
            "version": __version__,
            "fabric": overview.fabric,
            "nodes": overview.nodes,
            "firing": overview.firing,
            "warnings": self._warnings(),
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")


@web.middleware
async def secure(request: web.Request, handler: api.Handler) -> web.StreamResponse:
    """Headers that keep a browser from doing more with an answer than we mean."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(SECURITY)
        raise
    response.headers.update(SECURITY)
    return response


def _packed(request: web.Request, response: web.Response) -> web.Response:
    body = response.body
    if isinstance(body, bytes) and len(body) >= SMALL and accepts_gzip(request.headers.get("Accept-Encoding", "")):
        response.body = gzip(body)
        response.headers["Content-Encoding"] = "gzip"
    response.headers.add("Vary", "Accept-Encoding")
    return response
