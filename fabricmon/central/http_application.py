"""The HTTP application of the server: page, API, /metrics, /health and the probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from fabricmon import __version__
from fabricmon.central.api import request as api_request
from fabricmon.central.api.answers import PREFIX, Handler, errors
from fabricmon.central.api.routes import add_routes
from fabricmon.central.documents.overview import sentence
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.page.document import CSP
from fabricmon.central.website.archive import ArchiveSite
from fabricmon.central.website.history import History
from fabricmon.central.website.operations import add_operations
from fabricmon.central.website.routes import StatusPage
from fabricmon.central.website.runbooks import RunbookSite
from fabricmon.jobs.model import Jobs
from fabricmon.model import Severity
from fabricmon.notify.links import IncidentLinks
from fabricmon.runtime.exposition import page
from fabricmon.runtime.http import add_probes, metrics_answer, packed

SECURITY = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class HttpApplication:
    """The handlers of the server.

    warnings         problems of the server, one sentence each
    registry         metrics of /metrics
    live, ready      None, or the reason why the probe fails
    jobs             the last answer of every job source
    access, targets, doctor  handlers of these paths of the API
    """

    def __init__(
        self,
        evaluator: Evaluator,
        warnings: Callable[[], list[str]],
        registry: CollectorRegistry,
        live: Callable[[], str | None],
        ready: Callable[[], str | None],
        jobs: Callable[[], Sequence[Jobs]] = tuple,
        links: Callable[[], IncidentLinks] = IncidentLinks,
        access: Handler | None = None,
        history: History | None = None,
        targets: Handler | None = None,
        doctor: Handler | None = None,
    ) -> None:
        self._evaluator, self._warnings, self._registry = evaluator, warnings, registry
        self.app = web.Application(client_max_size=api_request.MAX_BODY, middlewares=[secure, errors])
        router = self.app.router
        StatusPage(evaluator, warnings, history, jobs).add_routes(self.app)
        router.add_get("/metrics", self._metrics)
        router.add_get("/health", self._health)
        add_routes(self.app, evaluator, jobs, links)
        RunbookSite(evaluator.engine, links).add_routes(self.app)
        ArchiveSite(evaluator, links).add_routes(self.app)
        add_operations(self.app, evaluator.fabric)
        for name, handler in (("access", access), ("targets", targets), ("doctor", doctor)):
            if handler is not None:
                router.add_get(f"{PREFIX}/{name}", handler)
        add_probes(self.app, live, ready)

    async def _metrics(self, request: web.Request) -> web.Response:
        return metrics_answer(
            request, lambda format: [page(self._registry, format)], lambda pieces: packed(b"".join(pieces))
        )

    async def _health(self, request: web.Request) -> web.Response:
        """Status pass, warn, critical or unknown, with a reason."""
        overview = self._evaluator.current().overview
        status = {Severity.CRITICAL: "critical", Severity.WARNING: "warn"}.get(overview.worst or Severity.INFO, "pass")
        if not overview.known or (status == "pass" and overview.gap):
            status = "unknown"
        body = {
            "status": status,
            "reason": sentence(overview),
            "version": __version__,
            "fabric": overview.fabric,
            "nodes": overview.nodes,
            "firing": overview.firing,
            "checked": overview.checked,
            "unchecked": overview.unchecked,
            "warnings": self._warnings(),
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")


@web.middleware
async def secure(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Add the security headers to every answer."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers.update(SECURITY)
        raise
    response.headers.update(SECURITY)
    return response
