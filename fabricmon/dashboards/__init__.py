"""Grafana dashboards, authored as data so that their lists and limits stay those of catalogue and rules. Pure.

`BOARDS` is the table of them; `documents` are the files that `fabricmon dashboards` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fabricmon.dashboards import congestion, fleet, incidents, links, node, nvlink, own
from fabricmon.dashboards.board import Board
from fabricmon.dashboards.panel import Json
from fabricmon.dashboards.site import Site
from fabricmon.rules.rulefile import selected

BOARDS: dict[str, Callable[[Site], Board]] = {
    "fabric": fleet.board,
    "congestion": congestion.board,
    "links": links.board,
    "nvlink": nvlink.board,
    "node": node.board,
    "incidents": incidents.board,
    "self": own.board,
}
"""Name -> what makes it, in the order in which a person looks at them. The file is fabricmon-<name>.json."""


def documents(site: Site, selector: str = "") -> dict[str, str]:
    """File name -> JSON of each dashboard. `selector`: label matchers that all of fabricmon's series must have."""
    found = {}
    for name, make in BOARDS.items():
        document = _narrowed(make(site).document(), selector)
        found[f"fabricmon-{name}.json"] = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return found


def _narrowed(value: Any, selector: str) -> Any:
    """A document whose queries ask for series that `selector` matches only."""
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
