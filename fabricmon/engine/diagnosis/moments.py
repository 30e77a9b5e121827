"""What fell silent at one moment, and what did not (docs/methods.md#one-moment). Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.engine.diagnosis.beginnings import MOSTLY
from fabricmon.engine.domains.groups import Floats, Ints, Mask

UNHEARD = 5.0
"""Seconds without a frame from which an agent is unheard (docs/methods.md#one-moment). Agents send a heartbeat a
second, so the last ones of hosts that a cut or a lost supply took are nearer to each other, also if some are lost."""
LEAST = 3
"""Hosts whose moment is a moment: two may be near each other by chance."""


def of_one_moment(onset: Floats, owner: Ints, place: Ints | None = None) -> Mask:
    """Whether each host that fell silent did so at the moment of most of its owner's, or is next to these. All did
    where most of them, or LEAST, have no moment: they stopped one after the other.

    place  of each in the order of the hosts' names, -1 unknown: who is between those of that moment, or beside them,
           is one of them, of which a frame was lost or late
    """
    _, of = np.unique(owner, return_inverse=True)
    near = np.abs(onset - medians(onset, of)[of]) <= UNHEARD
    count, close = np.bincount(of), np.bincount(of, near)
    sharp = (close >= MOSTLY * count) & (close >= LEAST)
    kept = near | ~sharp[of]
    if place is None or kept.all():
        return np.asarray(kept)
    rows = np.flatnonzero(near & (place >= 0))
    low, high = np.full(len(count), np.iinfo(np.int64).max), np.full(len(count), -1)
    np.minimum.at(low, of[rows], place[rows])
    np.maximum.at(high, of[rows], place[rows])
    dense = close >= MOSTLY * (high - low + 1)
    between = (place >= (low - 1)[of]) & (place <= (high + 1)[of])
    return np.asarray(kept | ((place >= 0) & dense[of] & between))


def medians(values: Floats, owner: Ints) -> Floats:
    """Median of the values of each owner (the lower one of an even number, so that it is a value that occurs)."""
    order = np.lexsort((values, owner))
    count = np.bincount(owner)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    return np.asarray(values[order][start + (count - 1) // 2])
