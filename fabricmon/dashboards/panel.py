"""Panels and what they are made of, as Grafana's classic dashboard JSON wants them. Pure.

Every panel says in its description what it shows and what bad looks like; one whose emptiness is good says so in
`empty`.
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
    """One PromQL query. `instant`: of the end of the time range only; as rows of a table where the panel is one."""

    expr: str
    legend: str = ""
    instant: bool = False
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its place. width is of 24 columns, height in rows of about 38 pixels."""

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
        """The panel at a place of the grid."""
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
class Row:
    """A heading and the panels below it; folded, they are loaded when somebody opens it."""

    title: str
    panels: tuple[Panel, ...]
    folded: bool = False


# --------------------------------------------------------------------------------------------------------
# Thresholds, value names, links


def steps(*limits: tuple[float, str], base: str = GREEN) -> Json:
    """Colours from limits on: `base` below the first."""
    found: list[Json] = [{"color": base, "value": None}]
    found += [{"color": color, "value": value} for value, color in sorted(limits)]
    return {"mode": "absolute", "steps": found}


def names(words: Mapping[float, tuple[str, str]]) -> list[Json]:
    """Value mappings: number -> (word, colour)."""
    options = {
        f"{value:g}": {"text": text, "color": color, "index": at}
        for at, (value, (text, color)) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def link(title: str, url: str, new_tab: bool = False) -> Json:
    """A link from a value."""
    return {"title": title, "url": url, "targetBlank": new_tab}


def by_name(name: str, **properties: Any) -> Json:
    """An override of one column or series. `__` in a property stands for a dot: custom__width."""
    return _override("byName", name, properties)


def by_regex(pattern: str, **properties: Any) -> Json:
    return _override("byRegexp", f"/{pattern}/", properties)


def _override(matcher: str, what: str, properties: Mapping[str, Any]) -> Json:
    return {
        "matcher": {"id": matcher, "options": what},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def hidden_line(name: str, color: str) -> Json:
    """A series that is a limit: dashed, no area, in one colour."""
    return by_name(
        name, custom__lineStyle={"fill": "dash", "dash": [8, 6]}, custom__fillOpacity=0, custom__lineWidth=1,
        custom__stacking={"mode": "none", "group": "A"}, color={"mode": "fixed", "fixedColor": color},
    )


# --------------------------------------------------------------------------------------------------------
# Panels


def stat(
    title: str, description: str, expr: str, *, unit: str = "short", limits: Json | None = None, width: int = 4,
    height: int = 4, empty: str = "", links: Sequence[Json] = (), decimals: int | None = None, graph: bool = True,
    mappings: Sequence[Json] = (), legend: str = "", text: str = "auto", instant: bool = False,
) -> Panel:
    """One number now, with its line behind it; coloured by `limits`."""
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
    """Lines over time. `limits` are drawn as coloured lines; lists of series have a legend with their last and
    greatest value."""
    defaults = _defaults(unit, limits or steps(), "palette-classic", empty, decimals, links, ())
    if least is not None and not logarithmic:
        defaults["min"] = least
    if most is not None:
        defaults["max"] = most
    defaults["custom"] = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 35 if stacked else 4 if len(queries) == 1 and "{{" not in queries[0].legend else 0,
        "showPoints": "always" if points else "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "scaleDistribution": {"type": "log", "log": 10} if logarithmic else {"type": "linear"},
        "thresholdsStyle": {"mode": "dashed" if limits else "off"},
        "axisSoftMin": 0,
    }
    if logarithmic:
        del defaults["custom"]["axisSoftMin"]
    legend: Json = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}
    if table_legend:
        legend = {"showLegend": True, "displayMode": "table", "placement": "right", "calcs": ["lastNotNull", "max"],
                  "sortBy": "Max", "sortDesc": True}  # fmt: skip
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return Panel(
        "timeseries", title, description, queries, width, height, defaults, options, tuple(overrides), (), interval
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the field it shows, its heading, unit and so on."""

    source: str
    title: str
    unit: str = ""
    width: int = 0
    limits: Json | None = None
    links: tuple[Json, ...] = ()
    mappings: tuple[Json, ...] = ()
    decimals: int | None = None
    extra: Json = field(default_factory=dict)


def table(
    title: str, description: str, queries: Sequence[Query], columns: Sequence[Column], *, width: int = 12,
    height: int = 8, empty: str = "none", sort: str = "", ascending: bool = False,
) -> Panel:
    """Rows as of now, in the order of `columns`; all other labels are left out."""
    shown = {column.source: at for at, column in enumerate(columns)}
    transformations: list[Json] = [{"id": "merge", "options": {}}] if len(queries) > 1 else []
    transformations.append({"id": "filterFieldsByName", "options": {"include": {"names": list(shown)}}})
    transformations.append({
        "id": "organize",
        "options": {"indexByName": shown, "renameByName": {c.source: c.title for c in columns}, "excludeByName": {}},
    })  # fmt: skip
    overrides = []
    for column in columns:
        properties: Json = dict(column.extra)
        if len(queries) > 1 and column.source.startswith("Value"):
            properties["noValue"] = "–"  # a row that only other queries have
        if column.unit:
            properties["unit"] = column.unit
        if column.decimals is not None:
            properties["decimals"] = column.decimals
        if column.width:
            properties["custom__width"] = column.width
        if column.limits:
            properties |= {"thresholds": column.limits, "color": {"mode": "thresholds"},
                           "custom__cellOptions": {"type": "color-text"}}  # fmt: skip
        if column.mappings:
            properties |= {"mappings": list(column.mappings), "custom__cellOptions": {"type": "color-text"},
                           "custom__align": "left"}  # fmt: skip
        if column.links:
            properties["links"] = list(column.links)
        if properties:
            overrides.append(by_name(column.title, **properties))
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
    """A bar a series, as of now."""
    defaults = _defaults(unit, limits or steps(base=BLUE), "thresholds", empty, decimals, links, ())
    defaults["min"] = 0
    if most is not None:
        defaults["max"] = most
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
    """A strip of colours a series: what state it was in, and when."""
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
    if unit:
        found["unit"] = unit
    if decimals is not None:
        found["decimals"] = decimals
    if empty:
        found["noValue"] = empty
    return found
