"""Downs of the ports of one module, which often fall in turn, as one penalty (docs/methods.md#flap-damping). Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.view import View

MODULES = ("module", "cage")
"""Domains of the ports that share a module."""
TOGETHER = 10.0
"""Seconds within which downs of several ports are one of the module (docs/methods.md#learned-groups)."""


class Down(NamedTuple):
    """Downs of one port at one moment. at: wall clock, s."""

    at: float
    number: int
    row: int


def downs_of_modules(
    view: View, rows: NDArray[np.intp], penalty: NDArray[np.float64], least: float, window: float
) -> list[list[Down]]:
    """Downs, oldest first, of the modules of which several of these ports fell and have `least` together: those of
    other ports within TOGETHER of a down are left out.

    rows     ports that fell within `window` seconds
    penalty  of each alone
    """
    found: list[list[Down]] = []
    for domain in MODULES:
        ids = view.group(domain)[rows]
        inside = np.flatnonzero((ids >= 0) & ~view.tracks.facts.swept[rows])  # a sweep reads the same link once more
        number, fallen = np.bincount(ids[inside]), np.bincount(ids[inside], penalty[inside])
        groups = np.flatnonzero((number > 1) & (fallen >= least)).tolist()
        found += [_merged(view, rows[inside[ids[inside] == group]].tolist(), window) for group in groups]
    return found


def _merged(view: View, rows: list[int], window: float) -> list[Down]:
    downs = view.tracks.downs
    every = sorted(Down(at, count, row) for row in rows for at, count in downs.of_row(row) if view.now - at <= window)
    kept: list[Down] = []
    for one in every:
        if all(one.at - other.at > TOGETHER or other.row == one.row for other in kept[-len(rows) :]):
            kept.append(one)
    return kept
