"""Readings of the last hours for the charts of the page: in memory only, empty after a restart.

Recorded beside the tick, a few milliseconds every STEP seconds; bounded by `fleet/trail.py` and `fleet/closeup.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.central.page.components import as_shown, column_title, find
from fabricmon.engine.engine import Engine
from fabricmon.fleet.closeup import STEP, Closeup, Series
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.trail import SLOT, Trail
from fabricmon.model import ComponentId, Kind

WINDOW = 4 * 3600.0  # seconds of a chart at most
LEAST = 600.0  # seconds of a chart at least
TITLES = {"receive_ratio": "Rx utilisation", "transmit_ratio": "Tx utilisation", "errors": "Errors (5 min)"}
HELP = {
    "receive_ratio": "Received bytes as share of the line rate, mean of 5 minutes",
    "transmit_ratio": "Sent bytes as share of the line rate, mean of 5 minutes",
    "errors": "Sum of all error counters within 5 minutes",
}


class History:
    """Recorder and query of the last hours. Used from the event loop only."""

    def __init__(self, engine: Engine, now: Callable[[], float]) -> None:
        self._engine, self._now = engine, now
        self.trail, self.closeup = Trail(), Closeup()

    async def run(self) -> None:
        """Record every STEP seconds until cancelled."""
        while True:
            self.record(self._now())
            await asyncio.sleep(STEP - self._now() % STEP)

    def record(self, now: float) -> None:
        """Record the readings since the last call; `now` is wall seconds."""
        fleet = self._engine.fleet
        self.trail.update(self._engine.utilisation(), now)
        self.closeup.update(self._wanted(fleet), fleet.tables, now)

    def _wanted(self, fleet: Fleet) -> Iterator[ComponentId]:
        """Parts of open incidents, in order of the incidents: the first part of each, then the second of each."""
        firing = [i for i in self._engine.incidents() if i.status == "firing"]
        for place in range(max((len(i.parts) for i in firing), default=0)):
            for incident in firing:
                if place < len(incident.parts) and (found := find(fleet, incident.parts[place])) is not None:
                    yield found

    def series_document(self, component: ComponentId) -> dict[str, Any]:
        """A component's last hours as JSON; starts recording it closely. Points are [wall seconds, value]."""
        now = self._now()
        self.closeup.follow(component, now)
        table = self._engine.fleet.tables[component.kind]
        row = table.row(component)
        coarse = self.trail.series_of(table, row) if row is not None and component.kind is Kind.PORT else {}
        close, quiet = self.closeup.series_of(component, table)
        made = [*_coarse(coarse), *sorted(map(_close, close), key=lambda one: _place(one["name"]))]
        begin = now
        for period in (SLOT, 0.0):
            # Close series began later: their charts get a time axis of their own.
            same = [series for series in made if (series["period"] == SLOT) is (period == SLOT)]
            first = min((series["points"][0][0] for series in same if series["points"]), default=now)
            for series in same:
                series["from"] = max(now - WINDOW, min(first, now - LEAST))
                series["points"] = [point for point in series["points"] if point[0] >= series["from"]]
                begin = min(begin, series["from"])
        return {
            "kind": component.kind.value,
            "node": component.node,
            "name": component.name,
            "from": begin,
            "to": now,
            "step": STEP,
            "series": made,
            "quiet": quiet,
        }


def _coarse(found: Mapping[str, list[tuple[float, float]]]) -> Iterator[dict[str, Any]]:
    for name, points in found.items():
        ratio = name.endswith("ratio")
        yield {
            "name": name,
            "title": TITLES[name],
            "unit": "ratio" if ratio else "",
            "help": HELP[name],
            "period": SLOT,
            "top": 1.0 if ratio else None,
            "points": points,
        }


ORDER = (Category.ERROR, Category.CONGESTION, Category.RETRANSMISSION, Category.TRAFFIC, Category.STATE)


def _place(name: str) -> int:
    """Sort key: errors first."""
    counter = CATALOGUE.get(name)
    return ORDER.index(counter.category) if counter is not None and counter.category in ORDER else len(ORDER)


def _close(series: Series) -> dict[str, Any]:
    counter = CATALOGUE.get(series.name)
    counts = counter is not None and counter.growth.counts
    unit = counter.unit if counter is not None else ""
    return {
        "name": series.name,
        "title": column_title(series.name),
        "unit": f"{unit}/s" if counts else as_shown(series.name, unit, 0.0)[1],
        "help": counter.help if counter is not None else "",
        "period": series.period if series.period == series.period else STEP,
        "top": None,
        "points": [(at, as_shown(series.name, unit, value)[0]) for at, value in series.points],
    }
