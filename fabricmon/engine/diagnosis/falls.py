"""Rows that fell when flapping links did, or that share a module with one (docs/methods.md#falls-together). Pure.

A part that fails again and again takes other members along each time; a member that has not fallen often enough to flap
by itself is evidence all the same.
"""

from __future__ import annotations

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.domains.groups import Floats, Groups, Ints, Mask
from fabricmon.engine.domains.learned_groups import TOGETHER
from fabricmon.fleet.downs import Downs

TIMES = 2  # falls with a flapping link: one may be chance (docs/methods.md#falls-together)
SINCE = (
    600.0  # seconds for which a fall is evidence: the flap penalty of two downs has decayed by a third (design choice)
)
MODULES = ("module", "cage")
"""Domains of two or so ports, of which one fall is evidence beside a port that flaps."""
LARGER = ("host", "leaf", "feed", "firmware", "board")
"""Domains of which one fall is evidence at a moment at which most of their members fell."""
LEAST = 3  # members that are known of such a group, as of a part of a leaf
MOST = 0.5  # share of them (design choice)
ALONE = 2
"""Ports of one of LARGER that fell at a moment, so that it may have been one module's: more are of something larger."""


def fell_with_others(observations: Observations, downs: Downs, now: float) -> Observation | None:
    """Rows, down or up again, that fell with a flapping one; None where nothing flaps."""
    flapping = observations.get(SymptomType.LINK_FLAPPING)
    if flapping is None or not len(flapping.rows):
        return None
    n = flapping.groups.rows
    times = _falls(downs, flapping.rows, now)
    with np.errstate(invalid="ignore"):
        lately = (now - downs.last[:n] <= SINCE) & flapping.known
    every = np.flatnonzero(lately)
    lately[flapping.rows] = False
    rows = np.flatnonzero(lately)
    if not len(times) or not len(rows):
        return None
    together = np.zeros(len(rows), np.int64)
    for at, count in downs.oldest_first(rows):
        together += (count > 0) & (now - at <= SINCE) & (_near(times, at) > 0)
    alone = _mates(flapping.groups, rows, flapping.rows)
    alone[alone] = _fell_alone(flapping.groups, rows[alone], every, downs, now)
    twice = together >= TIMES
    most = _with_most(flapping.groups, rows, flapping.rows, flapping.rows, downs, now)
    if twice.any():
        sure = np.concatenate([flapping.rows, rows[twice]])
        most |= _with_most(flapping.groups, rows, flapping.rows, sure, downs, now)
    rows = rows[twice | ((alone | most) & _up(observations, rows))]
    known = np.zeros(n, np.bool_)
    known[rows] = True
    return Observation(flapping.groups, rows, downs.last[rows], known)


def _fell_alone(groups: Groups, rows: Ints, every: Ints, downs: Downs, now: float) -> Mask:
    """Which of some rows have a fall at which at most ALONE of what fell lately did in each of LARGER, of ports of no
    known leaf or host, of these: elsewhere others fall for reasons of their own."""
    falls: list[tuple[Ints, Floats, bool]] = []
    for domain in LARGER if len(rows) else ():
        if domain in groups.ids:
            ids = groups.ids[domain].astype(np.int64)
            keys = [_key(ids[every[fell]], at[fell], now) for at, count in downs.oldest_first(every)
                    if (fell := (count > 0) & (now - at <= SINCE + TOGETHER)).any()]  # fmt: skip
            falls.append((ids[rows], np.sort(np.concatenate([np.zeros(0), *keys])), domain in ("host", "leaf")))
    found = np.zeros(len(rows), np.bool_)
    for at, count in downs.oldest_first(rows):
        alone = (count > 0) & (now - at <= SINCE)
        for of, times, whole in falls:
            alone &= (_near(times, _key(of, at, now)) <= ALONE) | ((of < 0) & (not whole))
        found |= alone
    return found


def fell_alike(flapping: Observation, downs: Downs, now: float) -> Ints | None:
    """Per row that flaps the first one with which it fell SAME times, -1 none; None where more than COMPARED flap."""
    count = len(flapping.rows)
    if not 1 < count <= COMPARED:
        return None
    times = _times(downs, flapping.rows, now)
    near = np.abs(times[:, None, :, None] - times[None, :, None, :]) <= TOGETHER
    common = near.any(axis=3).sum(axis=2)
    same = np.minimum(common, common.T) >= SAME
    np.fill_diagonal(same, val=False)
    first = np.minimum(np.argmax(same, axis=1), np.arange(count))
    return np.where(same.any(axis=1), first, -1)


def fell_beside(flapping: Observation, fell: Ints, downs: Downs, now: float) -> Floats:
    """Per row that flaps the chance that links of other hosts, which do not, fell at its moments for reasons of their
    own: for each of their falls there the share of the time that is so near to one of its; 1.0 where their leaf is
    known, or of more than COMPARED."""
    found, groups = np.ones(len(flapping.rows)), flapping.groups
    ids, host = groups.ids["leaf"], groups.ids["host"]
    own, others = flapping.rows[ids[flapping.rows] < 0], fell[ids[fell] < 0]
    if not 0 < len(own) <= COMPARED or not 0 < len(others) <= COMPARED:
        return found
    mine, theirs = _times(downs, own, now), _times(downs, others, now)
    near = (np.abs(mine[:, None, :, None] - theirs[None, :, None, :]) <= TOGETHER).any(axis=2).sum(axis=2)
    common = np.where(host[own][:, None] != host[others][None, :], near, 0).sum(axis=1)
    share = np.minimum(1.0, np.isfinite(mine).sum(axis=1) * 2 * TOGETHER / SINCE)
    found[ids[flapping.rows] < 0] = share**common
    return found


def _times(downs: Downs, rows: Ints, now: float) -> Floats:
    """Falls of each row within SINCE, NaN where it has fewer than DEPTH."""
    times = [np.where((count > 0) & (now - at <= SINCE), at, np.nan) for at, count in downs.oldest_first(rows)]
    return np.stack(times, axis=1)


SAME = 3
"""Falls at the same moments from which two flapping links have one cause: of two that fell three times each in those 10
min for reasons of their own all do so by a chance of (3 x 20 s / 600 s)^3 = 0.001."""
COMPARED = 64
"""Flapping links of which each is compared with each."""


def _with_most(groups: Groups, rows: Ints, flapping: Ints, sure: Ints, downs: Downs, now: float) -> Mask:
    """Which of some rows fell at a moment at which most of the sure members of their group fell, of which one at least
    flaps."""
    found = np.zeros(len(rows), np.bool_)
    for domain in LARGER:
        if domain not in groups.ids:
            continue
        ids = groups.ids[domain].astype(np.int64)
        members = _of_groups(ids, sure)
        members[_of_groups(ids, flapping) == 0] = 0
        mine, own = np.flatnonzero(members[ids[rows] + 1] >= LEAST), sure[members[ids[sure] + 1] >= LEAST]
        if not len(mine):
            continue
        of, begins, ends = _windows(downs, own, ids, now)
        group = ids[rows[mine]]
        for at, falls in downs.oldest_first(rows[mine]):
            moment = _key(group, at, now)
            near = np.searchsorted(_key(of, begins, now), moment, "right") - np.searchsorted(ends, moment)
            found[mine] |= (falls > 0) & (now - at <= SINCE) & (near >= MOST * members[group + 1])
    return found


def _of_groups(ids: Ints, rows: Ints) -> Ints:
    """How many of some rows are in each group, from its number + 1; 0 of no group."""
    count = np.bincount(ids[rows] + 1, minlength=int(ids.max(initial=-1)) + 2)
    count[0] = 0
    return count


def _windows(downs: Downs, rows: Ints, ids: Ints, now: float) -> tuple[Ints, Floats, Floats]:
    """The times within TOGETHER of a fall of each of some rows, as windows that do not overlap: a row that falls again
    and again counts once. Group and begin of each window in their order, and all ends as keys in theirs."""
    every = [(rows[fell], at[fell]) for at, count in downs.oldest_first(rows) if (fell := count > 0).any()]
    row = np.concatenate([of for of, _ in every]) if every else rows[:0]
    at = np.concatenate([times for _, times in every]) if every else np.zeros(0)
    lately = now - at <= SINCE + TOGETHER
    order = np.lexsort((at[lately], row[lately]))
    row, at = row[lately][order], at[lately][order]
    first = np.append(True, (row[1:] != row[:-1]) | (at[1:] - at[:-1] > 2 * TOGETHER))[: len(row)]
    last = np.append(first[1:], True)[: len(row)]
    of, begins, ends = ids[row[first]], at[first] - TOGETHER, at[last] + TOGETHER
    order = np.lexsort((begins, of))
    return of[order], begins[order], np.sort(_key(ids[row[last]], ends, now))


def _key(group: Ints, at: Floats, now: float) -> Floats:
    """A number that orders moments by group, then by time; exact to the millisecond for a million groups."""
    return np.asarray(group * SPAN + np.clip(at - now + SINCE + 4 * TOGETHER, 0.0, SPAN - 1.0))


SPAN = SINCE + 8 * TOGETHER
"""Seconds that the moments of one group take in `_key`."""


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
