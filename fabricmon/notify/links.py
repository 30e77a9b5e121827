"""The server behind a message: its name, and the links of an incident to page, runbook and dashboard. Pure."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from fabricmon.forms.documents import LinksDocument
from fabricmon.model import Incident
from fabricmon.notify.matchers import nodes_of

RUNBOOKS = "runbooks"
"""Path of the runbooks below the server's page."""

KIND = "{kind}"
"""Stands for the incident's kind in `IncidentLinks.runbooks`."""

FIELDS = ("{node}", "{component}", "{kind}", "{id}")
"""Stand in `IncidentLinks.dashboards` for what they name, percent-encoded."""

NODE_BOARD, RAIL_BOARD, INCIDENTS_BOARD = "fabricmon-node", "fabricmon-rail", "fabricmon-incidents"
"""Our dashboards behind an incident's link: of its node, of its rail, or of all incidents."""

AFTER = 900.0
"""Seconds after the end of a resolved incident at which it ends."""

BEFORE = 3600.0
"""Seconds before an incident's start at which the dashboard's time range begins."""


class IncidentLinks(Struct, frozen=True):
    """Addresses of links; "": no such link. `server` is the name of the server that sends.

    page      the server's page: "https://fabricmon.example"
    runbooks  a site's own runbooks instead of those below `page`: an address with "{kind}", else "/" and the kind are
              added
    dashboards  Grafana's address with our own dashboards; or the address of another dashboard with FIELDS
    """

    page: str = ""
    runbooks: str = ""
    dashboards: str = ""
    server: str = ""

    def incident(self, id: str) -> str:
        """The incident on the page."""
        return f"{self.page.rstrip('/')}/#{id}" if self.page else ""

    def runbook(self, kind: str) -> str:
        """What to do about an incident of this kind."""
        base = self.runbooks or (f"{self.page.rstrip('/')}/{RUNBOOKS}" if self.page else "")
        if KIND in base:
            return base.replace(KIND, kind)
        return f"{base.rstrip('/')}/{kind}" if base else ""

    def of(self, incident: Incident) -> LinksDocument:
        """The known addresses by their names in JSON documents."""
        found = LinksDocument()
        if url := self.incident(incident.id):
            found["url"] = url
        if runbook := self.runbook(incident.kind):
            found["runbook"] = runbook
        if dashboard := self.dashboard(incident):
            found["dashboard"] = dashboard
        return found

    def dashboard(self, incident: Incident) -> str:
        """The dashboard of an incident; "" where the address needs a node and the incident has none."""
        if not self.dashboards:
            return ""
        node = next(iter(nodes_of(incident)), "")
        if any(field in self.dashboards for field in FIELDS):
            if "{node}" in self.dashboards and not node:
                return ""
            url = self.dashboards
            for field, value in zip(FIELDS, (node, incident.component, incident.kind, incident.id), strict=True):
                url = url.replace(field, quote(value, safe=""))
            return url
        until = "now" if incident.resolved is None else round((incident.resolved + AFTER) * 1000)
        since = f"from={max(0, round((incident.since - BEFORE) * 1000))}&to={until}"
        return f"{self.dashboards.rstrip('/')}/d/{_board(node, incident.labels.get('rail', ''))}{since}"


def _board(node: str, rail: str) -> str:
    """Path of the dashboard of an incident, with its variables."""
    if node:
        return f"{NODE_BOARD}?var-node={quote(node, safe='')}&"
    return f"{RAIL_BOARD}?var-rail={quote(rail, safe='')}&" if rail else f"{INCIDENTS_BOARD}?"


NO_LINKS = IncidentLinks()
