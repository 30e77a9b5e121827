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
"""Downs of ports of one of AROUND within TOGETHER of one, itself included, that may be of one module: more are of
something larger, such as a leaf that restarts."""
AROUND = ("host", "leaf", "feed", "firmware", "board")
"""Domains of which a fall may be that takes a port along: elsewhere others fall for reasons of their own."""
BATCHES, MOST = ("firmware", "board"), 0.5
"""Those that are none where MOST ports or more are of one: it is what the fabric is made of
(docs/methods.md#shared-parts)."""
WHOLE = ("host", "leaf")
"""Those of which every port has one: ports of which it is unknown may all be of one."""


class Down(NamedTuple):
    """Downs of one port at one moment. at: wall clock, s."""

    at: float
    number: int
    row: int


def downs_of_modules(
    view: View, rows: NDArray[np.intp], penalty: NDArray[np.float64], least: float, lowest: float, window: float
) -> list[list[Down]]:
    """Downs, oldest first, of the modules of which several of these ports fell, more than `least` times and with a
    penalty of `lowest` together, without those at which more than ALONE ports of one of AROUND fell within TOGETHER.

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
    recent[recent] = _are_alone(view, rows[np.nonzero(recent)[1]], at[recent])
    number = np.where(recent, count, 0.0).sum(axis=0)
    found: list[list[Down]] = []
    for ids in groups:
        for group in np.flatnonzero(_enough(ids, number, least)).tolist():
            turn, port = np.nonzero(recent & (ids == group))
            found.append(_merged(at[turn, port], count[turn, port], rows[port]))
    return [each for each in found if len({down.row for down in each}) > 1]


def _are_alone(view: View, rows: NDArray[np.intp], at: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether at each of some downs at most ALONE of them are near in every group of AROUND that its port is in."""
    alone = np.ones(len(rows), np.bool_)
    if not len(at):
        return alone
    first, span = float(at.min()), float(np.ptp(at)) + 4 * TOGETHER
    for domain in AROUND:
        ids = _minority(view.group(domain))[rows] if domain in BATCHES else view.group(domain)[rows]
        key = ids * span + (at - first)  # one group after the other
        times = np.sort(key)
        near = np.searchsorted(times, key + TOGETHER, "right") - np.searchsorted(times, key - TOGETHER)
        alone &= (near <= ALONE) | ((ids < 0) & (domain not in WHOLE))
    return alone


def _minority(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Groups of rows, -1 also for those that have MOST of all that are in any."""
    size = np.bincount(ids + 1, minlength=2)
    return np.where(size[ids + 1] < MOST * size[1:].sum(), ids, np.int32(-1))


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
