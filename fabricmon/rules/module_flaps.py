"""Downs of the ports of one module, which often fall in turn, as one penalty (docs/methods.md#flap-damping). Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

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


def downs_of_modules(
    view: View, rows: NDArray[np.intp], penalty: NDArray[np.float64], least: float, lowest: float, window: float
) -> list[list[Down]]:
    """Downs, oldest first, of the modules of which several of these ports fell, more than `least` times and with a
    penalty of `lowest` together, without those of other ports within TOGETHER of a down and more than ALONE at once.

    rows     ports that fell within `window` seconds
    penalty  of each alone
    """
    own = ~view.tracks.facts.swept[rows]  # a sweep reads the same link once more
    rows, penalty = rows[own], penalty[own]
    downs = view.tracks.downs
    number = downs.count[:, rows].sum(axis=0)
    groups = [view.group(domain)[rows] for domain in MODULES]
    if not any(_enough(ids, number, least)[_enough(ids, penalty, lowest, False)].any() for ids in groups):
        return []
    at, count = downs.at[:, rows], downs.count[:, rows]
    recent = (count > 0) & (view.now - at <= window)
    times = np.sort(at[recent])
    near = np.searchsorted(times, times + TOGETHER, "right") - np.searchsorted(times, times - TOGETHER)
    recent[recent] = near[np.searchsorted(times, at[recent])] <= ALONE
    number = np.where(recent, count, 0.0).sum(axis=0)
    found: list[list[Down]] = []
    for ids in groups:
        for group in np.flatnonzero(_enough(ids, number, least)).tolist():
            turn, port = np.nonzero(recent & (ids == group))
            found.append(_merged(at[turn, port], count[turn, port], rows[port]))
    return [each for each in found if len({down.row for down in each}) > 1]


def _enough(ids: NDArray[np.int32], value: NDArray[Any], least: float, above: bool = True) -> NDArray[np.bool_]:
    """Groups with several rows that have a value, and more than `least` of it together (`above` False: or as much)."""
    inside = np.flatnonzero((ids >= 0) & (value > 0))
    total = np.bincount(ids[inside], value[inside], minlength=int(ids.max(initial=-1)) + 1)
    several = np.bincount(ids[inside], minlength=len(total)) > 1
    return np.asarray(several & ((total > least) if above else (total >= least)))


def _merged(at: NDArray[np.float64], count: NDArray[np.float32], rows: NDArray[np.intp]) -> list[Down]:
    kept: list[Down] = []
    for one in sorted(map(Down, at.tolist(), count.astype(int).tolist(), rows.tolist())):
        if all(one.at - other.at > TOGETHER or other.row == one.row for other in kept):
            kept.append(one)
    return kept
