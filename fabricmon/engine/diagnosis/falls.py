"""Rows that fell at the same moment as a flapping link (docs/methods.md#falls-together). Pure.

A part that fails again and again takes other members along each time; a member that has not fallen often enough to flap
by itself is evidence all the same.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Mask
from fabricmon.fleet.downs import Downs

TOGETHER = 10.0  # seconds (docs/methods.md#learned-groups)
TIMES = 2  # falls with a flapping link: one may be chance (docs/methods.md#falls-together)
SINCE = (
    600.0  # seconds for which a fall is evidence: the flap penalty of two downs has decayed by a third (design choice)
)


def fell_with_others(observations: Observations, downs: Downs, up: Mask, now: float) -> Observation | None:
    """Rows that fell with a flapping one, and those of its module or cage that fell and are up again; None where
    nothing flaps. `up`: rows that are up now."""
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
    rows = rows[(together >= TIMES) | (up[rows] & _mates(observations[SymptomType.LINK_FLAPPING], n)[rows])]
    known = np.zeros(n, np.bool_)
    known[rows] = True
    return Observation(flapping.groups, rows, downs.last[rows], known)


def _mates(flapping: Observation, n: int) -> Mask:
    """Rows of a module or cage of which a port flaps: few share one, so a single fall is no chance."""
    found = np.zeros(n, np.bool_)
    for domain in SMALL:
        ids = flapping.groups.ids.get(domain)
        if ids is not None:
            found |= (ids >= 0) & np.isin(ids, ids[flapping.rows])
    return found


SMALL = ("module", "cage")
