"""Panels of open incidents, common to several dashboards. Pure."""

from __future__ import annotations

from fabricmon.dashboards.panel import Panel, PanelColumn, Query, colours, link, series, table
from fabricmon.dashboards.site import SEVERITIES, Site
from fabricmon.model import Severity

SINCE = "fabricmon_incident_start_timestamp_seconds"
MOST = 50
"""Rows of a table of incidents."""


def ranked(matchers: str = "") -> str:
    """Query: severity of each open incident as rank 1 to 3, the MOST most severe ones."""
    several = [severity for severity in SEVERITIES if severity is not Severity.INFO]
    words = [f'0 * {SINCE}{{severity="{s.value}"{_and(matchers)}}} + {s.rank + 1}' for s in several]
    return f"topk({MOST}, {' or '.join([*words, f'0 * {SINCE}{{{matchers}}} + 1'])})"


def _and(matchers: str) -> str:
    return f", {matchers}" if matchers else ""


def open_incidents(
    site: Site, width: int, *, height: int = 8, matchers: str = "", page: bool = False, title: str = "Open incidents"
) -> Panel:
    """A row per incident, the most severe first. `page`: with links to the server's page, by the variable `page`."""
    words = {severity.rank + 1.0: (severity.value, color) for severity, color in SEVERITIES.items()}
    to_page = (link("Open on the server's page", "${page}/#${__data.fields.Incident}", new_tab=True),) if page else ()
    columns = [
        PanelColumn("Value #A", "Severity", width=90, words=words),
        PanelColumn("kind", "Kind", width=150),
        PanelColumn("component", "Component", links=to_page),
        PanelColumn("node", "Node", width=130, links=(site.row_to_node,)),
        PanelColumn("device", "Device", width=100, links=(site.row_to_port,)),
        PanelColumn("Value #B", "Open for", unit="dtdurations", width=150),
    ]
    rank = ranked(matchers)
    queries = [Query(rank), Query(f"(time() - {SINCE}{{{matchers}}}) and {rank}")]
    if page:
        columns += [
            PanelColumn("Value #C", "Confidence", unit="percentunit", decimals=0, width=100),
            PanelColumn("Value #D", "Bad members", width=110),
            PanelColumn("id", "Incident", width=160),
        ]
        # `+ 0` removes the metric name, which would separate the rows of one incident
        queries += [Query(f"fabricmon_incident_{word}{{{matchers}}} + 0") for word in ("confidence_ratio", "affected_members")]
    return table(
        title,
        "One row per cause, the most severe first, with its age. Click a node for its readings. Empty is good.",
        queries,
        columns,
        width=width,
        height=height,
        empty="no open incidents",
        sort="Severity",
    )


def by_severity(width: int) -> Panel:
    return series(
        "Open incidents by severity",
        "A step of many at once is a switch, a power domain or the monitoring.",
        *(Query(f'sum(fabricmon_incidents{{severity="{s.value}"}})', s.value) for s in SEVERITIES),
        width=width,
        stacked=True,
        overrides=colours(SEVERITIES),
    )
