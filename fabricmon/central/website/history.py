"""Readings of the last hours for the charts of the page; those of a day are stored and survive a restart.

Recorded beside the tick, a few milliseconds every STEP seconds; bounded by `fleet/trail.py`, `fleet/closeup.py` and
`fleet/daylong.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.counter import Category, Counter
from fabricmon.central.documents.past import LimitDocument, MarkDocument, PastDocument, SeriesDocument
from fabricmon.central.page.components import as_shown, column_title
from fabricmon.central.page.rule_limits import readings_of, rule_limits
from fabricmon.central.store.database import StoreError
from fabricmon.central.store.reads import DAY
from fabricmon.central.store.store import Store
from fabricmon.engine.engine import Engine
from fabricmon.fleet import daylong
from fabricmon.fleet.closeup import STEP, Closeup, Series
from fabricmon.fleet.daylong import Daylong, StoredDay
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.table import Table
from fabricmon.fleet.trail import SLOT, Trail
from fabricmon.model import ComponentId, Incident, Kind

LANE = re.compile(r"_lane\d+$")
SAVE_EVERY = 600.0  # seconds between two saves of the days
MAX_MARKED = 500  # resolved incidents among which those of a component are found
SAVE_LIMIT = 2.0  # seconds for the last one, at the stop
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

    def __init__(
        self, engine: Engine, now: Callable[[], float], store: Store | None = None, days: Iterable[StoredDay] = ()
    ) -> None:
        self._engine, self._now, self._store, self._saved = engine, now, store, now()
        self.trail, self.closeup, self.daylong = Trail(), Closeup(), Daylong(days)

    async def run(self) -> None:
        """Record every STEP seconds until cancelled."""
        try:
            while True:
                self.record(self._now())
                if not 0 <= self._now() - self._saved < SAVE_EVERY:
                    await self.save()
                await asyncio.sleep(STEP - self._now() % STEP)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_LIMIT):
                    await self.save()

    async def save(self) -> None:
        """Store the days that changed; where the disk fails, with the next change."""
        self._saved = self._now()
        if self._store is not None:
            with contextlib.suppress(StoreError):
                await self._store.keep_days(*self.daylong.unsaved())

    def record(self, now: float) -> None:
        """Record the readings since the last call; `now` is wall seconds."""
        fleet = self._engine.fleet
        self.trail.update(self._engine.utilisation(), now)
        self.closeup.update(self._wanted(fleet), fleet.tables, now)
        self.daylong.update(self.closeup, now)

    def _wanted(self, fleet: Fleet) -> Iterator[ComponentId]:
        """Parts of open incidents, in order of the incidents: the first part of each, then the second of each."""
        firing = [i for i in self._engine.incidents() if i.status == "firing"]
        for place in range(max((len(i.parts) for i in firing), default=0)):
            for incident in firing:
                if place < len(incident.parts) and (found := fleet.find(incident.parts[place])) is not None:
                    yield found

    async def day_document(self, component: ComponentId) -> PastDocument:
        """A component's last 24 hours, as far as it was part of an incident or asked for."""
        now = self._now()
        incidents = {i.id: i for i in await self._resolved(now)} | {i.id: i for i in self._engine.incidents()}
        self.closeup.follow(component, now)
        table = self._engine.fleet.tables[component.kind]
        row = table.row(component)
        found = [_close(series, _limits(table, row, series.name)) for series in self.daylong.series_of(component, now)]
        self._add_limits(found, component, incidents.values())
        for series in found:
            series["from"] = now - DAY
        return {
            "kind": component.kind.value,
            "node": component.node,
            "name": component.name,
            "from": now - DAY,
            "to": now,
            "step": daylong.STEP,
            "series": sorted(found, key=lambda one: _place(one["name"])),
            "marks": list(_marks(incidents.values(), component, now - DAY)),
            "quiet": [],
        }

    def _add_limits(
        self, made: Iterable[SeriesDocument], component: ComponentId, incidents: Iterable[Incident]
    ) -> None:
        """Add the limits of the rules that fired on the component."""
        table = self._engine.fleet.tables[component.kind]
        readings = list(readings_of(component, self._engine.symptoms(), incidents))
        for series in made:
            series["limits"] += rule_limits(series["name"], readings, table, table.row(component))

    async def _resolved(self, now: float) -> list[Incident]:
        """Incidents that ended within a day, the newest; none while the store fails."""
        if self._store is None:
            return []
        try:
            return await self._store.resolved(now - DAY, MAX_MARKED)
        except StoreError:
            return []

    def series_document(self, component: ComponentId) -> PastDocument:
        """A component's last hours as JSON; starts recording it closely. Points are [wall seconds, value]."""
        now = self._now()
        self.closeup.follow(component, now)
        table = self._engine.fleet.tables[component.kind]
        row = table.row(component)
        coarse = self.trail.series_of(table, row) if row is not None and component.kind is Kind.PORT else {}
        close, quiet = self.closeup.series_of(component, table)
        near = [_close(series, _limits(table, row, series.name)) for series in close]
        made = [*_coarse(coarse), *sorted(near, key=lambda one: _place(one["name"]))]
        self._add_limits(made, component, self._engine.incidents())
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
            "marks": list(_marks(self._engine.incidents(), component, begin)),
            "quiet": quiet,
        }


def _coarse(found: Mapping[str, list[tuple[float, float]]]) -> Iterator[SeriesDocument]:
    for name, points in found.items():
        ratio = name.endswith("ratio")
        yield {
            "name": name,
            "title": TITLES[name],
            "unit": "ratio" if ratio else "",
            "help": HELP[name],
            "period": SLOT,
            "top": 1.0 if ratio else None,
            "scale": "linear",
            "limits": [],
            "points": points,
            "from": 0.0,
        }


def _marks(incidents: Iterable[Incident], component: ComponentId, begin: float) -> Iterator[MarkDocument]:
    """Incidents since then with this component among their bad members."""
    for i in incidents:
        if str(component) in i.parts and (i.resolved is None or i.resolved > begin):
            yield {"id": i.id, "title": i.title, "severity": i.severity.value, "from": i.since, "to": i.resolved}


def _limits(table: Table, row: int | None, name: str) -> list[LimitDocument]:
    """Limits that the device reports for a reading: alarms of a module, the temperature of an adapter."""
    found: list[LimitDocument] = []
    base = LANE.sub("", name)
    for column, text in [(f"{base}_limit_{side}_alarm", f"{side} alarm") for side in ("high", "low")] + [
        (f"{base}_limit", "limit")
    ]:
        at = table.columns.get(column)
        value = float(table.cells[at, row]) if at is not None and row is not None else math.nan
        if math.isfinite(value) and value:
            found.append({"text": text, "value": as_shown(name, CATALOGUE[column].unit, value)[0]})
    return found


ORDER = (Category.ERROR, Category.CONGESTION, Category.RETRANSMISSION, Category.TRAFFIC, Category.STATE)


def _place(name: str) -> int:
    """Sort key: errors first."""
    counter = CATALOGUE.get(name)
    return ORDER.index(counter.category) if counter is not None and counter.category in ORDER else len(ORDER)


def _close(series: Series, limits: list[LimitDocument]) -> SeriesDocument:
    counter = CATALOGUE.get(series.name)
    unit = counter.unit if counter is not None else ""
    return {
        "name": series.name,
        "title": column_title(series.name),
        "unit": _unit(series.name, counter),
        "help": counter.text if counter is not None else "",
        "period": series.period if series.period == series.period else STEP,
        "top": None,
        "scale": "log" if series.name.endswith("_ber") else "linear",
        "limits": limits,
        "points": [(at, as_shown(series.name, unit, value)[0]) for at, value in series.points],
        "from": 0.0,
    }


def _unit(name: str, counter: Counter | None) -> str:
    if counter is None:
        return ""
    if counter.growth.counts:
        return "errors/s" if counter.category is Category.ERROR and not counter.unit else f"{counter.unit}/s"
    return as_shown(name, counter.unit, 0.0)[1]
