"""What fell silent or went down at one moment, and what did not (docs/methods.md#one-moment). Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.engine.diagnosis.beginnings import MOSTLY
from fabricmon.engine.domains.groups import Floats, Ints, Mask
from fabricmon.engine.domains.learned_groups import TOGETHER

UNHEARD = 5.0
"""Seconds without a frame from which an agent is unheard (docs/methods.md#one-moment). Agents send a heartbeat a
second, so the last ones of hosts that a cut or a lost supply took are nearer to each other, also if some are lost."""
LEAST = 3
"""Hosts or links whose moment is a moment: two may be near each other by chance."""


def of_one_moment(onset: Floats, owner: Ints, place: Ints | None = None) -> Mask:
    """Whether each host that fell silent did so at the moment of most of its owner's, or is next to these. All did
    where most of them, or LEAST, have no moment: they stopped one after the other.

    place  of each in the orders of the hosts' names, int[orders, k], -1 unknown: who is between those of that moment in
           one of them, or beside them, is one of them, of which a frame was lost or late
    """
    _, of = np.unique(owner, return_inverse=True)
    near = np.abs(onset - medians(onset, of)[of]) <= UNHEARD
    count, close = np.bincount(of), np.bincount(of, near)
    sharp = (close >= MOSTLY * count) & (close >= LEAST)
    kept = near | ~sharp[of]
    if place is None or kept.all():
        return np.asarray(kept)
    for order in place:
        kept = kept | _between(order, near, of, close)
    return np.asarray(kept)


def _between(place: Ints, near: Mask, of: Ints, close: Ints) -> Mask:
    """Whether each host stands between those of its owner's moment or next to them, most of a run.

    near   whether each is of the moment; close: how many are, of each owner
    """
    rows = np.flatnonzero(near & (place >= 0))
    low, high = np.full(len(close), np.iinfo(np.int64).max), np.full(len(close), -1)
    np.minimum.at(low, of[rows], place[rows])
    np.maximum.at(high, of[rows], place[rows])
    dense = close >= MOSTLY * (high - low + 1)
    return np.asarray((place >= 0) & dense[of] & (place >= (low - 1)[of]) & (place <= (high + 1)[of]))


def down_with_others(onset: Floats, before: Floats, owner: Ints, every: Floats) -> Mask:
    """Whether each link that went down did so at another moment than most of its owner's, as LEAST elsewhere did: what
    took these is likelier than its owner. One alone stays its owner's: it was read late.

    before  from when on each may have begun
    every   sorted onsets of all links that are down
    """
    if not len(onset):
        return np.zeros(0, np.bool_)
    _, of = np.unique(owner, return_inverse=True)
    order = np.lexsort((onset, of))
    first = np.append(True, (of[order][1:] != of[order][:-1]) | (np.diff(onset[order]) > TOGETHER))
    moment = np.empty(len(onset), np.int64)
    moment[order] = np.cumsum(first) - 1
    of_moment, size = of[order][first], np.bincount(moment)
    main = np.empty(int(of.max()) + 1, np.int64)
    ascending = np.argsort(size, kind="stable")
    main[of_moment[ascending]] = ascending  # the largest is written last
    begin, end = medians(np.minimum(before, onset), moment)[main], _last(onset, moment)[main]
    apart = (onset < begin[of]) | (np.minimum(before, onset) > end[of])
    span = float(np.ptp(onset)) + 4 * TOGETHER
    own = of * span + (onset - onset.min())  # one owner after the other
    return np.asarray(apart & (_near(every, onset) - _near(np.sort(own), own) >= LEAST))


def _last(values: Floats, owner: Ints) -> Floats:
    found = np.full(int(owner.max()) + 1, -np.inf)
    np.maximum.at(found, owner, values)
    return found


def _near(times: Floats, at: Floats) -> Ints:
    """How many of some sorted times are within TOGETHER of each moment."""
    return np.searchsorted(times, at + TOGETHER, "right") - np.searchsorted(times, at - TOGETHER)


def medians(values: Floats, owner: Ints) -> Floats:
    """Median of the values of each owner (the lower one of an even number, so that it is a value that occurs)."""
    order = np.lexsort((values, owner))
    count = np.bincount(owner)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    return np.asarray(values[order][start + (count - 1) // 2])
