"""One interface's row as parts: what travels to the centre, and what stays on the node's /metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Component, Kind, Part


def ordered(columns: Iterable[str]) -> tuple[str, ...]:
    """Those that travel first (Counter.wire); the others, and those that the catalogue does not know, stay."""
    listed = tuple(columns)
    return (*(c for c in listed if _travels(c)), *(c for c in listed if not _travels(c)))


def parts(collector: str, component: Component, columns: tuple[str, ...], period: float) -> tuple[Part, ...]:
    """The parts of a row whose values are in the order of `columns`, which are `ordered`. None for no columns."""
    count = sum(map(_travels, columns))
    found = (
        Part(collector, Kind.PORT, columns[:count], (component,), period),
        Part(collector, Kind.PORT, columns[count:], (component,), period, wire=False),
    )
    return tuple(part for part in found if part.columns)


def _travels(column: str) -> bool:
    counter = CATALOGUE.get(column)
    return counter is not None and counter.wire
