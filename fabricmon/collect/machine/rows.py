"""Rows as parts: columns sent to the server, and those on the agent's /metrics only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Component, Kind, Part


def by_wire(columns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns that travel to the server (Counter.wire), the others and those not in the catalogue)."""
    listed = tuple(columns)
    travel = tuple(column for column in listed if _travels(column))
    return travel, tuple(column for column in listed if not _travels(column))


def ordered(columns: Iterable[str]) -> tuple[str, ...]:
    """The same columns, those that travel first."""
    travel, stay = by_wire(columns)
    return travel + stay


def parts(
    collector: str, kind: Kind, rows: Sequence[Component], columns: Iterable[str], period: float
) -> tuple[Part, ...]:
    """Parts of rows: one of the columns that travel, one of those that stay; none without columns."""
    travel, stay = by_wire(columns)
    found = (
        Part(collector, kind, travel, tuple(rows), period),
        Part(collector, kind, stay, tuple(rows), period, wire=False),
    )
    return tuple(part for part in found if part.columns)


def columns(parts: Iterable[Part]) -> tuple[str, ...]:
    """The columns of parts with the same rows."""
    return tuple(column for part in parts for column in part.columns)


def filled(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that are not empty."""
    return {name: value for name, value in labels.items() if value}


def known(value: float | None) -> float:
    """The value as a float, NaN for None."""
    return math.nan if value is None else float(value)


def _travels(column: str) -> bool:
    counter = CATALOGUE.get(column)
    return counter is not None and counter.wire
