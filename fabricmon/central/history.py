"""What the centre keeps of the last hours, for the page: in memory only, begun anew with the process.

It runs beside the tick, a few milliseconds every STEP seconds, and what it holds is bounded: `fleet/trail.py`,
`fleet/closeup.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category
from fabricmon.central.page.known import find
from fabricmon.fleet.closeup import STEP, Closeup, Series
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.trail import SLOT, Trail
from fabricmon.fleet.utilisation import Utilisation
from fabricmon.model import ComponentId, Incident, Kind

WINDOW = 4 * 3600.0  # seconds that are told of
LEAST = 600.0  # seconds that a chart spans at least
TITLES = {"receive_ratio": "busy, receiving", "transmit_ratio": "busy, sending", "errors": "errors in 5 minutes"}
HELP = {
    "receive_ratio": "Mean share of the line rate that was received, over 5 minutes",
    "transmit_ratio": "Mean share of the line rate that was sent, over 5 minutes",
    "errors": "Counts of all error counters together within 5 minutes",
}


class Engine(Protocol):
    """What is asked of the engine."""

    fleet: Fleet

    def incidents(self) -> list[Incident]: ...

    def utilisation(self) -> Utilisation: ...


class History:
    """The last hours. All of it is used from the event loop."""

    def __init__(self, engine: Engine, now: Callable[[], float]) -> None:
        self._engine, self._now = engine, now
        self.trail, self.closeup = Trail(), Closeup()

    async def run(self) -> None:
        """Look every STEP seconds until cancelled."""
        while True:
            self.look(self._now())
            await asyncio.sleep(STEP - self._now() % STEP)

    def look(self, now: float) -> None:
        """Take in what was read since the look before; `now` is wall seconds."""
        fleet = self._engine.fleet
        self.trail.look(self._engine.utilisation(), now)
        self.closeup.look(self._wanted(fleet), fleet.tables, now)

    def _wanted(self, fleet: Fleet) -> Iterator[ComponentId]:
        """The parts of open incidents, the severest first, one of each before a second of any."""
        firing = [i for i in self._engine.incidents() if i.status == "firing"]
        for place in range(max((len(i.parts) for i in firing), default=0)):
            for incident in firing:
                if place < len(incident.parts) and (found := find(fleet, incident.parts[place])) is not None:
                    yield found

    def of(self, component: ComponentId) -> dict[str, Any]:
        """A component's last hours as they travel; it is followed from now on. Points are [wall seconds, value]."""
        now = self._now()
        self.closeup.ask(component, now)
        table = self._engine.fleet.tables[component.kind]
        row = table.row(component)
        coarse = self.trail.of(table, row) if row is not None and component.kind is Kind.PORT else {}
        close, quiet = self.closeup.of(component, table)
        made = [*_coarse(coarse), *sorted(map(_close, close), key=lambda one: _place(one["name"]))]
        begin = now
        for period in (SLOT, 0.0):
            # What is followed closely began later: it has the whole width of its charts to itself.
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
    """What tells of trouble comes first."""
    counter = CATALOGUE.get(name)
    return ORDER.index(counter.category) if counter is not None and counter.category in ORDER else len(ORDER)


def _close(series: Series) -> dict[str, Any]:
    counter = CATALOGUE.get(series.name)
    counts = counter is not None and counter.growth.counts
    unit = counter.unit if counter is not None else ""
    return {
        "name": series.name,
        "title": None,
        "unit": f"{unit}/s" if counts else unit,
        "help": counter.help if counter is not None else "",
        "period": series.period if series.period == series.period else STEP,
        "top": None,
        "points": series.points,
    }
