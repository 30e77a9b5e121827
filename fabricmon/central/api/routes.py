"""Routes of the HTTP API below PREFIX (docs/api.md).

Changes need `Content-Type: application/json`, which a page of another site cannot send without a CORS preflight.
`web/gate.py` authenticates and authorises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from fabricmon.central.api import openapi
from fabricmon.central.api.answers import PREFIX
from fabricmon.central.api.fleet import FleetHandlers
from fabricmon.central.api.incidents import IncidentHandlers
from fabricmon.central.api.windows import MaintenanceHandlers, SilenceHandlers
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.jobs.model import Jobs
from fabricmon.notify.links import IncidentLinks


def add_routes(
    app: web.Application,
    evaluator: Evaluator,
    jobs: Callable[[], Sequence[Jobs]] = tuple,
    links: Callable[[], IncidentLinks] = IncidentLinks,
) -> None:
    """Add the API to an application. `jobs` is the last answer of every job source."""
    fleet, incidents = FleetHandlers(evaluator, jobs), IncidentHandlers(evaluator, links)
    silences, maintenance = SilenceHandlers(evaluator), MaintenanceHandlers(evaluator)
    for method, path, handler in (
        ("GET", "/overview", fleet.overview),
        ("GET", "/incidents", incidents.all),
        ("GET", "/incidents/{id}", incidents.one),
        ("POST", "/incidents/{id}/acknowledgement", incidents.acknowledge),
        ("DELETE", "/incidents/{id}/acknowledgement", incidents.withdraw),
        ("POST", "/acknowledgements", incidents.acknowledge_all),
        ("GET", "/symptoms", fleet.symptoms),
        ("GET", "/nodes", fleet.nodes),
        ("GET", "/ports", fleet.ports),
        ("GET", "/rails", fleet.rails),
        ("GET", "/probes", fleet.probes),
        ("GET", "/topology", fleet.topology),
        ("GET", "/jobs", fleet.jobs),
        ("GET", "/silences", silences.all),
        ("POST", "/silences", silences.add),
        ("DELETE", "/silences/{id}", silences.end),
        ("GET", "/maintenance", maintenance.all),
        ("POST", "/maintenance", maintenance.add),
        ("DELETE", "/maintenance/{id}", maintenance.end),
        ("GET", "/openapi.json", openapi.serve),
    ):
        app.router.add_route(method, PREFIX + path, handler)
