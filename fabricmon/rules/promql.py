"""Metric names of catalogue columns, for the PromQL of the rules: a rule can only name what exists. Pure."""

from __future__ import annotations

from fabricmon.catalogue import CATALOGUE


def metric(column: str) -> str:
    """ "symbol_errors" -> "fabricmon_port_symbol_errors_total", with the labels of a column of a family.

    KeyError for a column that is not in the catalogue.
    """
    counter = CATALOGUE[column]
    labels = ",".join(f'{name}="{value}"' for name, value in counter.labels)
    return counter.metric + (f"{{{labels}}}" if labels else "")


def top(column: str) -> str:
    """The value at which a saturating counter says "at least", as PromQL writes it."""
    return f"{CATALOGUE[column].top:.0f}"
