"""Metric names of catalogue columns, for the PromQL of the rules: a rule can only name what exists. Pure."""

from __future__ import annotations

from fabricmon.catalogue import CATALOGUE


def metric(column: str) -> str:
    """ "symbol_errors" -> "fabricmon_port_symbol_errors_total". KeyError for a column that is not in the catalogue."""
    return CATALOGUE[column].metric


def top(column: str) -> str:
    """The value at which a saturating counter says "at least", as PromQL writes it."""
    return f"{CATALOGUE[column].top:.0f}"
