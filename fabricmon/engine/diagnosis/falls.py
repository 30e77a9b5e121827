"""Rows that fell when a flapping link did, or that share a module with one (docs/methods.md#falls-together). Pure.

A part that fails again and again takes other members along each time; a member that has not fallen often enough to flap
by itself is evidence all the same.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Floats, Groups, Ints, Mask
from fabricmon.fleet.downs import Downs

TOGETHER = 10.0  # seconds (docs/methods.md#learned-groups)
TIMES = 2  # falls with a flapping link: one may be chance (docs/methods.md#falls-together)
SINCE = (
    600.0  # seconds for which a fall is evidence: the flap penalty of two downs has decayed by a third (design choice)
)
MODULES = ("module", "cage")
"""Domains of two or so ports, of which one fall is evidence beside a port that flaps."""
ALONE = 2
"""Ports, of any place, that fell at a moment, so that it may have been one module's: more are of something larger."""


def fell_with_others(observations: Observations, downs: Downs, now: float) -> Observation | None:
    """Rows, down or up again, that fell with a flapping one; None where nothing flaps."""
    flapping = observations.get(SymptomType.LINK_FLAPPING)
    if flapping is None or not len(flapping.rows):
        return None
    n = flapping.groups.rows
    times = _falls(downs, flapping.rows, now)
    with np.errstate(invalid="ignore"):
        lately = (now - downs.last[:n] <= SINCE) & flapping.known
    every = _falls(downs, np.flatnonzero(lately), now)
    lately[flapping.rows] = False
    rows = np.flatnonzero(lately)
    if not len(times) or not len(rows):
        return None
    together, alone = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    for at, count in downs.oldest_first(rows):
        fell = (count > 0) & (now - at <= SINCE)
        together += fell & (_near(times, at) > 0)
        alone |= fell & (_near(every, at) <= ALONE)
    alone &= _up(observations, rows) & _mates(flapping.groups, rows, flapping.rows)
    rows = rows[(together >= TIMES) | alone]
    known = np.zeros(n, np.bool_)
    known[rows] = True
    return Observation(flapping.groups, rows, downs.last[rows], known)


def _falls(downs: Downs, rows: Ints, now: float) -> Floats:
    """Times of the falls of some rows within SINCE, sorted."""
    times = np.concatenate([at[count > 0] for at, count in downs.oldest_first(rows)])
    return np.sort(times[now - times <= SINCE])


def _near(times: Floats, at: Floats) -> Ints:
    """How many of some sorted times are within TOGETHER of each moment."""
    return np.searchsorted(times, at + TOGETHER, "right") - np.searchsorted(times, at - TOGETHER)


def _up(observations: Observations, rows: Ints) -> Mask:
    """Which of some rows are known to be up again: one that stays down did not flap."""
    down = observations.get(SymptomType.LINK_DOWN)
    return np.ones(len(rows), np.bool_) if down is None else down.known[rows] & ~np.isin(rows, down.rows)


def _mates(groups: Groups, rows: Ints, flapping: Ints) -> Mask:
    """Which of some rows share a module with a flapping one."""
    found = np.zeros(len(rows), np.bool_)
    for domain in MODULES:
        if domain in groups.ids:
            ids = groups.ids[domain]
            found |= (ids[rows] >= 0) & np.isin(ids[rows], ids[flapping])
    return found
