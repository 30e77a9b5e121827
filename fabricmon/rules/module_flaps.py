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
ALONE = 2
"""Downs of any ports within TOGETHER of one, itself included, that may be of one module: more are of something larger,
such as a leaf that restarts."""


class Down(NamedTuple):
    """Downs of one port at one moment. at: wall clock, s."""

    at: float
    number: int
    row: int


def downs_of_modules(view: View, rows: NDArray[np.intp], least: float, window: float) -> list[list[Down]]:
    """Downs, oldest first, of the modules of which several of these ports fell, `least` times or more together. Those
    of other ports within TOGETHER of a down are left out, and more than ALONE at one moment.

    rows  ports that fell within `window` seconds
    """
    rows = rows[~view.tracks.facts.swept[rows]]  # a sweep reads the same link once more
    at, count = (np.array(each) for each in zip(*view.tracks.downs.oldest_first(rows), strict=True))
    where = (count > 0) & (view.now - at <= window)
    times = np.sort(at[where])
    near = np.searchsorted(times, at + TOGETHER, "right") - np.searchsorted(times, at - TOGETHER)
    where &= near <= ALONE
    found: list[list[Down]] = []
    for domain in MODULES:
        ids = view.group(domain)[rows]
        fell = np.flatnonzero((ids >= 0) & where.any(axis=0))
        ports, number = np.bincount(ids[fell]), np.bincount(ids[fell], (count * where).sum(axis=0)[fell])
        for group in np.flatnonzero((ports > 1) & (number >= least)).tolist():
            mine = fell[ids[fell] == group]
            found.append(_merged([
                Down(at[turn, port], int(count[turn, port]), int(rows[port]))
                for port in mine.tolist() for turn in np.flatnonzero(where[:, port]).tolist()
            ]))  # fmt: skip
    return found


def _merged(downs: list[Down]) -> list[Down]:
    kept: list[Down] = []
    for one in sorted(downs):
        if all(one.at - other.at > TOGETHER or other.row == one.row for other in kept):
            kept.append(one)
    return kept
