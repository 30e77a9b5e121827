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
    """Downs, oldest first, of the modules of which several of these ports fell and have `least` together.

    Those of other ports within TOGETHER of a down are left out, and those at which ports of other modules fell as well:
    these are of something larger, such as a leaf that restarts.

    rows     ports that fell within `window` seconds
    penalty  of each alone
    """
    found: list[list[Down]] = []
    for domain in MODULES:
        ids = view.group(domain)[rows]
        inside = np.flatnonzero((ids >= 0) & ~view.tracks.facts.swept[rows])  # a sweep reads the same link once more
        number, fallen = np.bincount(ids[inside]), np.bincount(ids[inside], penalty[inside])
        groups = np.flatnonzero((number > 1) & (fallen >= least)).tolist()
        found += [_merged(view, rows[inside[ids[inside] == group]], rows, window) for group in groups]
    return [downs for downs in found if downs]


def _merged(view: View, mine: NDArray[np.intp], rows: NDArray[np.intp], window: float) -> list[Down]:
    downs, elsewhere = view.tracks.downs, np.setdiff1d(rows[~view.tracks.facts.swept[rows]], mine)
    others = np.concatenate([at[count > 0] for at, count in downs.oldest_first(elsewhere)])
    every = sorted(Down(at, count, row) for row in mine.tolist() for at, count in downs.of_row(row))
    kept: list[Down] = []
    for one in every:
        wide = bool((np.abs(others - one.at) <= TOGETHER).any())
        again = any(one.at - other.at <= TOGETHER and other.row != one.row for other in kept)
        if view.now - one.at <= window and not wide and not again:
            kept.append(one)
    return kept
