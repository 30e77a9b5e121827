"""Grafana dashboards as data: their lists and limits come from the catalogue and the rules. Pure.

`BOARDS` is their table; `documents` makes the files that `fabricmon dashboards` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fabricmon.dashboards import congestion, fleet, incidents, links, node, nvlink, self_monitoring
from fabricmon.dashboards.board import Dashboard
from fabricmon.dashboards.panel import Json
from fabricmon.dashboards.site import Site
from fabricmon.rules.rulefile import selected

BOARDS: dict[str, Callable[[Site], Dashboard]] = {
    "fabric": fleet.board,
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
        document = _narrowed(make(site).document(), selector)
        found[f"fabricmon-{name}.json"] = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return found


def _narrowed(value: Any, selector: str) -> Any:
    """The document with `selector` in all its queries."""
    if not selector:
        return value
    if isinstance(value, list):
        return [_narrowed(one, selector) for one in value]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    for key, one in value.items():
        if key in ("expr", "query") and isinstance(one, str) and "fabricmon" in one:
            found[key] = selected(one, selector)
        else:
            found[key] = _narrowed(one, selector)
    return found
