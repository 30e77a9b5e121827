"""Limits of the rules that fired, as lines on the charts of the series that they compare. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from fabricmon.central.documents.past import LimitDocument
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import Tracks
from fabricmon.model import ComponentId, Evidence, Incident, Symptom
from fabricmon.rules.measures import MEASURES, lines_of


def readings_of(
    component: ComponentId, symptoms: Iterable[Symptom], incidents: Iterable[Incident]
) -> Iterator[Evidence]:
    """Evidence of this component: of its open symptoms, then of incidents, the newest first."""
    for symptom in symptoms:
        if symptom.component == component:
            yield from symptom.evidence
    word = str(component)
    for incident in sorted(incidents, key=lambda i: i.since, reverse=True):
        yield from (e for e in incident.evidence if e.component == word)


def rule_limits(series: str, readings: Iterable[Evidence], table: Table, row: int | None) -> list[LimitDocument]:
    """The limits on the chart of a series, one for each measure. One in a unit per bit needs the line rate."""
    wanted, found = lines_of(series), dict[str, LimitDocument]()
    for reading in readings if wanted else ():
        if reading.measure not in wanted or reading.measure in found or not reading.for_it or reading.limit is None:
            continue
        value = reading.limit * (_bits_per_second(table, row) if MEASURES[reading.measure].per_bit else 1.0)
        if math.isfinite(value):
            found[reading.measure] = {"text": f"limit of {reading.measure.partition('.')[0]}", "value": value}
    return list(found.values())


def _bits_per_second(table: Table, row: int | None) -> float:
    """The rate at which the rules count the bits of a port; NaN unknown."""
    return float(table.tracks.errors.rate[row]) if isinstance(table.tracks, Tracks) and row is not None else math.nan
