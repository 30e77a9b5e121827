"""Asks a real Prometheus what every panel of a dashboard asks, with variables filled in as Grafana does."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ANNOTATION = "annotation"
"""Before the name of an annotation, as title of its answer."""

_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$([A-Za-z_]\w*)")
_LABEL_VALUES = re.compile(r"label_values\((?:(.+), )?(\w+)\)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one query of one panel got. error: "" or what Prometheus said. points: how many values are numbers."""

    panel: int
    title: str
    ref: str
    expr: str
    instant: bool
    error: str = ""
    series: int = 0
    points: int = 0
    milliseconds: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # labels that the legend names and no series has


def panels(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels but headings, folded ones too."""
    for panel in document["panels"]:
        yield from (panel["panels"] if panel["type"] == "row" else [panel])


class Asker:
    """url: of the Prometheus. seconds: width of the time range, which ends now. scrape: its scrape interval."""

    def __init__(self, url: str, seconds: float, scrape: float, chosen: Mapping[str, str] | None = None) -> None:
        self._url, self._chosen = url, dict(chosen or {})
        self.end = time.time()
        self.start, self._scrape = self.end - seconds, scrape

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The data of an answer. ValueError with what Prometheus says is wrong."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error)["error"]) from None
        return {"data": body["data"]}

    def variables(self, document: Mapping[str, Any]) -> dict[str, str]:
        """Name -> value of each variable: all where all may be chosen, else the first one."""
        values: dict[str, str] = {}
        for variable in document["templating"]["list"]:
            name = variable["name"]
            if variable["type"] == "datasource":
                continue
            if variable["type"] == "textbox":
                values[name] = variable["query"]
                continue
            found = self.options(variable, values)
            chosen = self._chosen.get(name) or (found[0] if found else "")
            values[name] = ".*" if variable["includeAll"] else chosen
        return values

    def options(self, variable: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
        """What a query variable can be chosen from."""
        asked = _LABEL_VALUES.fullmatch(variable["query"]["query"])
        assert asked, variable["query"]
        query = {"match[]": filled(asked[1], values)} if asked[1] else {}
        found: list[str] = self.get(f"label/{asked[2]}/values", **query)["data"]  # type: ignore[assignment]
        if variable["regex"]:
            pattern = re.compile(variable["regex"].strip("/"))
            found = [match[1] for value in found if (match := pattern.search(value))]
        return list(dict.fromkeys(found))

    def ask(self, document: Mapping[str, Any]) -> list[Answer]:
        """Every query of the dashboard."""
        values = self.variables(document)
        span = self.end - self.start
        found = []
        for panel in panels(document):
            step = max(self._scrape, span / 500, _seconds(panel.get("interval", "0s")))
            own = {"__range": f"{span:.0f}s", "__rate_interval": f"{max(step + self._scrape, 4 * self._scrape):.0f}s"}
            for target in panel["targets"]:
                expr = filled(target["expr"], {**values, **own})
                found.append(self._one(panel, target, expr, step))
        for one in document["annotations"]["list"]:
            asked = {"refId": one["target"]["refId"], "instant": False}
            about = {"id": 0, "title": f"{ANNOTATION} {one['name']}"}
            found.append(self._one(about, asked, filled(one["target"]["expr"], values), max(60.0, span / 500)))
        return found

    def _one(self, panel: Mapping[str, Any], target: Mapping[str, Any], expr: str, step: float) -> Answer:
        instant = bool(target["instant"])
        about = (panel["id"], panel["title"], target["refId"], expr, instant)
        began = time.perf_counter()
        try:
            if instant:
                data = self.get("query", query=expr, time=f"{self.end:.3f}")["data"]
            else:
                data = self.get("query_range", query=expr, start=f"{self.start:.3f}", end=f"{self.end:.3f}",
                                step=f"{step:g}")["data"]  # fmt: skip
        except ValueError as error:
            return Answer(*about, error=str(error))
        took = (time.perf_counter() - began) * 1000
        rows = data["result"] if data["resultType"] != "scalar" else [{"metric": {}, "value": data["result"]}]
        values = [v[1] for row in rows for v in row.get("values", [row["value"]] if "value" in row else [])]
        labels = {name for row in rows for name in row["metric"]}
        wanted = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
        missing = tuple(name for name in wanted if rows and name not in labels)
        more = {"start": self.start, "end": self.end, "step": step, "legend": target.get("legendFormat", "")}
        return Answer(*about, series=len(rows), points=sum(v != "NaN" for v in values), milliseconds=took,
                      result={**more, **data}, missing=missing)  # fmt: skip


def filled(text: str, values: Mapping[str, str]) -> str:
    """Variables in place of their names; KeyError for one that is not there."""
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)


def _seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
