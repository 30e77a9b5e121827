"""Rows that fell at the same moment as a flapping link (docs/methods.md#falls-together). Pure.

A part that fails again and again takes other members along each time; a member that has not fallen often enough to flap
by itself is evidence all the same.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.fleet.downs import Downs

TOGETHER = 10.0  # seconds (docs/methods.md#learned-groups)
TIMES = 2  # falls with a flapping link: one may be chance (docs/methods.md#falls-together)
SINCE = (
    600.0  # seconds for which a fall is evidence: the flap penalty of two downs has decayed by a third (design choice)
)


def fell_with_others(observations: Observations, downs: Downs, now: float) -> Observation | None:
    """Rows, down or up again, that fell with a flapping one; None where nothing flaps."""
    flapping = observations.get(SymptomType.LINK_FLAPPING)
    if flapping is None or not len(flapping.rows):
        return None
    n = flapping.groups.rows
    times = np.concatenate([at[count > 0] for at, count in downs.oldest_first(flapping.rows)])
    times = np.sort(times[now - times <= SINCE])
    with np.errstate(invalid="ignore"):
        lately = now - downs.last[:n] <= SINCE
    lately[flapping.rows] = False
    rows = np.flatnonzero(lately & flapping.known)
    if not len(times) or not len(rows):
        return None
    together = np.zeros(len(rows), np.int64)
    for at, count in downs.oldest_first(rows):
        place = np.searchsorted(times, at)
        gap = np.minimum(
            np.abs(times[np.minimum(place, len(times) - 1)] - at), np.abs(times[np.maximum(place - 1, 0)] - at)
        )
        together += (count > 0) & (gap <= TOGETHER)
    rows = rows[together >= TIMES]
    known = np.zeros(n, np.bool_)
    known[rows] = True
    return Observation(flapping.groups, rows, downs.last[rows], known)
