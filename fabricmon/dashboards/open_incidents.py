"""Panels of open incidents that several dashboards have. Pure."""

from __future__ import annotations

from fabricmon.dashboards.panel import Column, Panel, Query, by_name, link, names, series, table
from fabricmon.dashboards.site import SEVERITIES, Site
from fabricmon.model import Severity

SINCE = "fabricmon_incident_start_timestamp_seconds"
MOST = 50
"""Rows of a table of incidents."""


def ranked(matchers: str = "") -> str:
    """Rank of each open incident's severity from 1 to 3; the severest MOST."""
    several = [severity for severity in SEVERITIES if severity is not Severity.INFO]
    words = [f'0 * {SINCE}{{severity="{s.value}"{_and(matchers)}}} + {s.rank + 1}' for s in several]
    return f"topk({MOST}, {' or '.join([*words, f'0 * {SINCE}{{{matchers}}} + 1'])})"


def _and(matchers: str) -> str:
    return f", {matchers}" if matchers else ""


def open_incidents(
    site: Site, width: int, *, height: int = 8, matchers: str = "", page: bool = False, title: str = "Open incidents"
) -> Panel:
    """A row an incident, the severest first. `page`: the variable of that name has the address of the centre's page."""
    words = names({severity.rank + 1: (severity.value, color) for severity, color in SEVERITIES.items()})
    to_page = (link("On the centre's page", "${page}/#${__data.fields.Incident}", new_tab=True),) if page else ()
    columns = [
        Column("Value #A", "Severity", width=90, mappings=tuple(words)),
        Column("kind", "Kind", width=150),
        Column("component", "Component", links=to_page),
        Column("node", "Node", width=130, links=(site.row_to_node,)),
        Column("Value #B", "Open for", unit="dtdurations", width=150),
    ]
    rank = ranked(matchers)
    queries = [Query(rank), Query(f"(time() - {SINCE}{{{matchers}}}) and {rank}")]
    if page:
        columns += [
            Column("Value #C", "Confidence", unit="percentunit", decimals=0, width=100),
            Column("Value #D", "Bad members", width=110),
            Column("id", "Incident", width=160),
        ]
        # an operation takes the name away, which would keep rows of one incident apart
        queries += [Query(f"fabricmon_incident_{word}{{{matchers}}} + 0") for word in ("confidence_ratio", "affected_members")]
    return table(
        title,
        "One row for one cause, the severest first, with the time it has been open. A click on the node leads to its "
        "readings. Empty is good.",
        queries,
        columns,
        width=width,
        height=height,
        empty="no open incident",
        sort="Severity",
    )


def by_severity(width: int) -> Panel:
    return series(
        "Open incidents by severity",
        "How many are open. A step up of many at once is a switch, a power domain or the monitoring itself.",
        *(Query(f'sum(fabricmon_incidents{{severity="{s.value}"}})', s.value) for s in SEVERITIES),
        width=width,
        stacked=True,
        overrides=[by_name(s.value, color={"mode": "fixed", "fixedColor": c}) for s, c in SEVERITIES.items()],
    )
