"""Grafana dashboards as data: their lists and limits come from the catalogue and the rules. Pure.

`BOARDS` is their table; `documents` makes the files that `fabricmon dashboards` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from fabricmon.dashboards import congestion, fleet, incidents, links, node, nvlink, rail, self_monitoring
from fabricmon.dashboards.board import CLUSTERS, Dashboard
from fabricmon.dashboards.panel import Json
from fabricmon.dashboards.site import Site
from fabricmon.rules.prometheus.rulefile import selected

BOARDS: dict[str, Callable[[Site], Dashboard]] = {
    "fabric": fleet.board,
    "rail": rail.board,
    "congestion": congestion.board,
    "links": links.board,
    "nvlink": nvlink.board,
    "node": node.board,
    "incidents": incidents.board,
    "self": self_monitoring.board,
}
"""Name -> the function that makes it, in the order of use. The file is fabricmon-<name>.json."""


def documents(site: Site, selector: str = "") -> dict[str, str]:
    """File name -> JSON of each dashboard. `selector`: label matchers that all of fabricmon's series must have."""
    found = {}
    for name, make in BOARDS.items():
        document = _narrowed(_narrowed(make(site).document(), _of_cluster), lambda expr: selected(expr, selector))
        found[f"fabricmon-{name}.json"] = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return found


def _narrowed(value: Any, narrow: Callable[[str], str]) -> Any:
    """The document with all its queries changed."""
    if isinstance(value, list):
        return [_narrowed(one, narrow) for one in value]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    for key, one in value.items():
        if key in ("expr", "query") and isinstance(one, str) and "fabricmon" in one:
            found[key] = narrow(one)
        else:
            found[key] = _narrowed(one, narrow)
    return found


_SERIES = re.compile(
    r"""("(?:[^"\\]|\\.)*")|(?<![\w:])(fabricmon_\w+|fabricmon:[\w:]+|process_\w+)(?:\{([^}]*)\})?|\{(__name__[^}]*)\}"""
)


def _of_cluster(query: str) -> str:
    """A query for the chosen cluster only, also of recorded series."""
    if query == CLUSTERS:
        return query

    def narrowed(found: re.Match[str]) -> str:
        text, name, matchers, nameless = found.groups()
        if text:
            return found[0]
        inner = ", ".join(filter(None, (matchers, nameless, 'cluster=~"$cluster"')))
        return f"{name or ''}{{{inner}}}"

    return _SERIES.sub(narrowed, query)
