"""A dashboard: variables, rows of panels laid out from left to right, links to the other dashboards. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabricmon.dashboards.panel import DATASOURCE, RED, Json, Panel, PanelRow

COLUMNS = 24
"""Width of Grafana's grid."""

TAG = "fabricmon"
"""Tag of all dashboards, for the links between them."""

CLUSTERS = "label_values(fabricmon_build_info, cluster)"
"""Values of the label `cluster` where one data source has several clusters; without it the variable is empty."""

SCHEMA = 39
"""Version of the classic dashboard JSON: read by Grafana 10 to 13."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard. `uid` is part of its address and never changes; `since`: start of its time range; `annotated`:
    matchers of the incidents whose times are tinted in its panels."""

    uid: str
    title: str
    description: str
    variables: tuple[Json, ...]
    rows: tuple[PanelRow, ...]
    since: str = "now-6h"
    refresh: str = "30s"
    annotated: str = ""

    def document(self) -> Json:
        """The JSON document for Grafana."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "timezone": "browser",
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": self.refresh,
            "time": {"from": self.since, "to": "now"},
            "links": [_others()],
            "annotations": {"list": [_incidents(self.annotated)]},
            "templating": {"list": [_datasource(), choice("cluster", "Cluster", CLUSTERS), *self.variables]},
            "panels": list(_placed(self.rows)),
        }


def _incidents(matchers: str) -> Json:
    """Annotation: the time of each incident from begin to end. `expr` for Grafana 10, `target` for later ones."""
    more = f", {matchers}" if matchers else ""
    expr = f'fabricmon_incident_start_timestamp_seconds{{severity=~"critical|warning"{more}}}'
    return {
        "name": "Incidents", "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": RED, "expr": expr,
        "step": "60s", "target": {"refId": "Anno", "expr": expr, "interval": "60s"},
        "titleFormat": "{{severity}}: {{kind}}", "textFormat": "{{component}}", "tagKeys": "severity,kind",
    }  # fmt: skip


def _placed(rows: Sequence[PanelRow]) -> Iterator[Json]:
    number, y = 0, 0
    for row in rows:
        number += 1
        heading: Json = {"id": number, "type": "row", "title": row.title, "collapsed": row.folded,
                         "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y}, "panels": []}  # fmt: skip
        y += 1
        inside, bottom = [], y
        for panel, x, top in _flow(row.panels, y):
            number += 1
            inside.append(panel.document(number, x, top))
            bottom = max(bottom, top + panel.height)
        if row.folded:
            yield {**heading, "panels": inside}
        else:
            yield heading
            yield from inside
            y = bottom


def _flow(panels: Sequence[Panel], y: int) -> Iterator[tuple[Panel, int, int]]:
    """Panels from left to right; a line starts below the highest panel of the line above."""
    x, tallest = 0, 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        yield panel, x, y
        x, tallest = x + panel.width, max(tallest, panel.height)


def _others() -> Json:
    """Links to all dashboards of the tag, with time range and variables."""
    return {
        "type": "dashboards", "title": "fabricmon", "tags": [TAG], "asDropdown": False, "includeVars": True,
        "keepTime": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": "",
    }  # fmt: skip


# Variables


def _datasource() -> Json:
    return {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {},
        "hide": 0, "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": "",
    }  # fmt: skip


def choice(
    name: str, label: str, query: str, *, regex: str = "", several: bool = False, hidden: bool = False
) -> Json:
    """A variable with values from the data source; `several`: multiple choice, with "All"."""
    found: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "current": {"text": ["All"], "value": ["$__all"]} if several else {},
        "includeAll": several,
        "multi": several,
        "hide": 2 if hidden else 0,
        "options": [],
        "refresh": 2,
        "regex": regex,
        "sort": 7,
    }
    return {**found, "allValue": ".*"} if several else found


def filter_text(name: str, label: str, default: str) -> Json:
    """A variable with a typed regular expression, instead of a list of thousands of values."""
    chosen = {"text": default, "value": default, "selected": True}
    return {"name": name, "label": label, "type": "textbox", "query": default, "current": chosen, "hide": 0,
            "options": [chosen]}  # fmt: skip
