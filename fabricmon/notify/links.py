"""Where a person finds more of an incident: on the page, what to do about its kind, the readings around it. Pure."""

from __future__ import annotations

from urllib.parse import quote

from msgspec import Struct

from fabricmon.model import Incident
from fabricmon.notify.matchers import nodes_of

RUNBOOKS = "runbooks"
"""Path below the centre's page at which it serves the runbooks itself."""

KIND = "{kind}"
"""Stands for the incident's kind in `Links.runbooks`."""

FIELDS = ("{node}", "{component}", "{kind}", "{id}")
"""Stand in `Links.dashboards` for what they name, percent-encoded."""

NODE_BOARD, INCIDENTS_BOARD = "fabricmon-node", "fabricmon-incidents"
"""Of our own dashboards those that an incident's link leads to: of the node that it is about, or of all incidents."""

BEFORE = 3600.0
"""Seconds before an incident's start at which the dashboard's time range begins."""


class Links(Struct, frozen=True):
    """What links are made of; "" where nobody said, and then there is no such link.

    page      where people reach the centre's page: "https://fabricmon.example"
    runbooks  a site's own runbooks instead of those that the centre serves below `page`: an address to which "/" and
              the kind are added, or one in which "{kind}" stands for it
    dashboards  Grafana's address, where our own dashboards are loaded; or the address of another one, in which FIELDS
              stand for what they name
    """

    page: str = ""
    runbooks: str = ""
    dashboards: str = ""

    def incident(self, id: str) -> str:
        """The incident on the page."""
        return f"{self.page.rstrip('/')}/#{id}" if self.page else ""

    def runbook(self, kind: str) -> str:
        """What to do about an incident of this kind."""
        base = self.runbooks or (f"{self.page.rstrip('/')}/{RUNBOOKS}" if self.page else "")
        if KIND in base:
            return base.replace(KIND, kind)
        return f"{base.rstrip('/')}/{kind}" if base else ""

    def dashboard(self, incident: Incident) -> str:
        """The readings around an incident; "" where the address asks for a node and the incident is about none."""
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
        since = f"from={max(0, round((incident.since - BEFORE) * 1000))}&to=now"
        board = f"{NODE_BOARD}?var-node={quote(node, safe='')}&" if node else f"{INCIDENTS_BOARD}?"
        return f"{self.dashboards.rstrip('/')}/d/{board}{since}"


NO_LINKS = Links()
