"""Panels and their parts, in Grafana's classic dashboard JSON. Pure.

The description of a panel explains what it shows and which values are bad; `empty` is its text without data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "text"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query. `instant`: at the end of the time range only, always so for tables."""

    expr: str
    legend: str = ""
    instant: bool = False
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its position. Width in 24ths, height in rows of about 38 pixels."""

    kind: str
    title: str
    description: str
    queries: tuple[Query, ...]
    width: int
    height: int
    defaults: Json
    options: Json
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()
    interval: str = ""

    def document(self, number: int, x: int, y: int) -> Json:
        """The panel at a position of the grid."""
        panel: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": self.defaults, "overrides": list(self.overrides)},
            "options": self.options,
            "targets": [self._target(at, query) for at, query in enumerate(self.queries)],
        }
        if self.transformations:
            panel["transformations"] = list(self.transformations)
        if self.interval:
            panel["interval"] = self.interval
        return panel

    def _target(self, at: int, query: Query) -> Json:
        target: Json = {"refId": query.ref or chr(ord("A") + at), "datasource": DATASOURCE, "expr": query.expr}
        if self.kind == "table":
            return {**target, "format": "table", "instant": True, "range": False}
        if query.instant:
            target |= {"instant": True, "range": False}
        else:
            target |= {"instant": False, "range": True}
        return {**target, "legendFormat": query.legend or "__auto"}


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A heading and the panels below it; `folded`: loaded when opened."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


# Thresholds, value names, links


def steps(*limits: tuple[float, str], base: str = GREEN) -> Json:
    """Thresholds: colours from each limit on, `base` below the first."""
    found: list[Json] = [{"color": base, "value": None}]
    found += [{"color": color, "value": value} for value, color in sorted(limits)]
    return {"mode": "absolute", "steps": found}


WARN, BAD = steps((1, ORANGE)), steps((1, RED))
"""Thresholds at 1: warning, bad."""


def names(words: Mapping[float, tuple[str, str]]) -> list[Json]:
    """Value mappings: number -> (word, colour)."""
    options = {
        f"{value:g}": {"text": text, "color": color, "index": at}
        for at, (value, (text, color)) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def link(title: str, url: str, new_tab: bool = False) -> Json:
    """A link of a value."""
    return {"title": title, "url": url, "targetBlank": new_tab}


def by_name(name: str, **properties: Any) -> Json:
    """An override of one column or series. `__` in a property means a dot: custom__width."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def colours(of_series: Mapping[Any, str]) -> list[Json]:
    """Overrides: series name -> colour."""
    return [by_name(str(name), color={"mode": "fixed", "fixedColor": color}) for name, color in of_series.items()]


# Panels


def stat(
    title: str, description: str, expr: str, *, unit: str = "short", limits: Json | None = None, width: int = 4,
    height: int = 4, empty: str = "", links: Sequence[Json] = (), decimals: int | None = None, graph: bool = True,
    mappings: Sequence[Json] = (), legend: str = "", text: str = "auto", instant: bool = False,
) -> Panel:
    """The current value with a line behind it; coloured by `limits`."""
    defaults = _defaults(unit, limits or steps(base=BLUE), "thresholds", empty, decimals, links, mappings)
    options = {
        "colorMode": "background" if limits else "value",
        "graphMode": "area" if graph and not instant else "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": text,
        "wideLayout": True,
    }
    query = Query(expr, legend or title, instant=instant)
    return Panel("stat", title, description, (query,), width, height, defaults, options)


def series(
    title: str, description: str, *queries: Query, unit: str = "short", limits: Json | None = None, width: int = 12,
    height: int = 8, empty: str = "", links: Sequence[Json] = (), stacked: bool = False, logarithmic: bool = False,
    least: float | None = 0, most: float | None = None, interval: str = "", overrides: Sequence[Json] = (),
    table_legend: bool = False, points: bool = False, decimals: int | None = None,
) -> Panel:
    """Lines over time. `limits` are drawn as lines; `table_legend`: a table with last and maximum value."""
    defaults = _defaults(unit, limits or steps(), "palette-classic", empty, decimals, links, ())
    defaults |= _given(min=None if logarithmic else least, max=most)
    defaults["custom"] = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 35 if stacked else 4 if len(queries) == 1 and "{{" not in queries[0].legend else 0,
        "showPoints": "always" if points else "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "scaleDistribution": {"type": "log", "log": 10} if logarithmic else {"type": "linear"},
        "thresholdsStyle": {"mode": "dashed" if limits else "off"},
    } | _given(axisSoftMin=None if logarithmic else 0)
    legend: Json = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}
    if table_legend:
        legend = {"showLegend": True, "displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"],
                  "sortBy": "Max", "sortDesc": True}  # fmt: skip
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return Panel(
        "timeseries", title, description, queries, width, height, defaults, options, tuple(overrides), (), interval
    )


@dataclass(frozen=True, slots=True)
class PanelColumn:
    """A column of a table: the field it shows, its heading, unit and so on."""

    source: str
    title: str
    unit: str = ""
    width: int = 0
    limits: Json | None = None
    links: tuple[Json, ...] = ()
    words: Mapping[float, tuple[str, str]] = field(default_factory=dict)
    decimals: int | None = None

    def properties(self, merged: bool) -> Json:
        """Overrides of the table's defaults. `merged`: rows of several queries, some without a value here."""
        found = _given(
            noValue="–" if merged and self.source.startswith("Value") else "", unit=self.unit, decimals=self.decimals,
            custom__width=self.width or None,
        )  # fmt: skip
        if self.limits:
            found |= {"thresholds": self.limits, "color": {"mode": "thresholds"},
                      "custom__cellOptions": {"type": "color-text"}}  # fmt: skip
        if self.words:
            found |= {"mappings": names(self.words), "custom__cellOptions": {"type": "color-text"},
                      "custom__align": "left"}  # fmt: skip
        return found | ({"links": list(self.links)} if self.links else {})


def table(
    title: str, description: str, queries: Sequence[Query], columns: Sequence[PanelColumn], *, width: int = 12,
    height: int = 8, empty: str = "none", sort: str = "", ascending: bool = False,
) -> Panel:
    """Current rows with these columns; other labels are left out."""
    shown = {column.source: at for at, column in enumerate(columns)}
    transformations: list[Json] = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    transformations.append({"id": "filterFieldsByName", "options": {"include": {"names": list(shown)}}})
    transformations.append({
        "id": "organize",
        "options": {"indexByName": shown, "renameByName": {c.source: c.title for c in columns}, "excludeByName": {}},
    })  # fmt: skip
    overrides = [by_name(c.title, **found) for c in columns if (found := c.properties(len(queries) > 1))]
    defaults = _defaults("", steps(base=GREY), "thresholds", empty, None, (), ())
    defaults["custom"] = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True}
    options: Json = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "fields": ""}}
    if sort:
        options["sortBy"] = [{"displayName": sort, "desc": not ascending}]
    return Panel(
        "table", title, description, tuple(queries), width, height, defaults, options, tuple(overrides),
        tuple(transformations),
    )  # fmt: skip


def bars(
    title: str, description: str, query: Query, *, unit: str = "short", limits: Json | None = None, width: int = 12,
    height: int = 8, empty: str = "", most: float | None = None, links: Sequence[Json] = (), decimals: int | None = None,
) -> Panel:
    """A bar per series, current values."""
    defaults = _defaults(unit, limits or steps(base=BLUE), "thresholds", empty, decimals, links, ())
    defaults |= _given(min=0, max=most)
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "showUnfilled": True,
        "valueMode": "color",
    }
    now = Query(query.expr, query.legend, instant=True)
    return Panel("bargauge", title, description, (now,), width, height, defaults, options)


def states(
    title: str, description: str, *queries: Query, mappings: Sequence[Json] = (), limits: Json | None = None,
    unit: str = "short", width: int = 12, height: int = 8, empty: str = "", links: Sequence[Json] = (),
) -> Panel:
    """A strip of colours per series: its states over time."""
    defaults = _defaults(unit, limits or steps(base=GREY), "thresholds", empty, None, links, mappings)
    defaults["custom"] = {"fillOpacity": 80, "lineWidth": 0}
    options = {
        "mergeValues": True,
        "showValue": "never",
        "alignValue": "left",
        "rowHeight": 0.9,
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return Panel("state-timeline", title, description, queries, width, height, defaults, options)


def _defaults(
    unit: str, limits: Json, color: str, empty: str, decimals: int | None, links: Sequence[Json],
    mappings: Sequence[Json],
) -> Json:
    found: Json = {"color": {"mode": color}, "thresholds": limits, "mappings": list(mappings), "links": list(links)}
    return found | _given(unit=unit, decimals=decimals, noValue=empty)


def _given(**properties: Any) -> Json:
    return {name: value for name, value in properties.items() if value is not None and value != ""}
