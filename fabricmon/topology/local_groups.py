"""Groups of switches that are joined all to all, as those of a dragonfly (docs/methods.md#fabric-shapes). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.topology.signs import ratio

LEAST_COMMON = 3
"""Neighbours in common, themselves included, from which two switches may be of one group: two alone have two."""


class Division(NamedTuple):
    """A network divided into groups.

    groups   the switches of each, sorted, in the order of the first
    usual    the size that most groups have
    inside   share of the pairs of switches of one group that are joined
    between  share of the pairs of groups that are joined; 0 where there is one group
    even     share of the groups that are of the usual size
    """

    groups: list[list[str]]
    usual: int
    inside: float
    between: float
    even: float

    @property
    def fit(self) -> float:
        """How much of a dragonfly, or with one group of a full mesh, it is: 0 to 1."""
        return self.inside * (self.between * self.even if len(self.groups) > 1 else 1.0)


def divide(joined: Mapping[str, Mapping[str, int]], pairs: Sequence[tuple[str, str, int]]) -> Division | None:
    """The division by which a network is most of a dragonfly. None where none has two switches with a third in common.

    joined  every switch -> the switches at the other ends -> cables between them
    pairs   each two joined switches once, with their cables
    """
    switches = sorted(joined)
    at = {switch: number for number, switch in enumerate(switches)}
    ends = np.array([(at[a], at[b]) for a, b, _ in pairs], dtype=np.int64).reshape(-1, 2)
    best, found = -1.0, None
    for labels in _divisions([[at[other] for other in joined[switch]] for switch in switches], ends):
        signs = _signs(labels, ends)
        if signs.fit > best:
            best, found = signs.fit, (labels, signs)
    if found is None:
        return None
    labels, signs = found
    groups: dict[int, list[str]] = {}
    for switch, label in zip(switches, labels.tolist(), strict=True):
        groups.setdefault(label, []).append(switch)
    return signs._replace(groups=list(groups.values()))


def _divisions(near: Sequence[Sequence[int]], ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Possible divisions, the tightest last, as the label of each switch: two switches of one group have most
    neighbours in common, the two ends of a global link few. Where the ends of some global links have as many, the
    groups come apart only if each is taken from the switch that has such a link least."""
    closed = [{switch, *around} for switch, around in enumerate(near)]
    common = np.array([len(closed[a] & closed[b]) for a, b in ends.tolist()], dtype=np.int64)
    around = [np.array(others, dtype=np.int64) for others in near]
    # the neighbours of each switch, those with most in common first: those with at least so many are the first of them
    both, shared = np.concatenate((ends, ends[:, ::-1])), np.concatenate((common, common))
    order = np.lexsort((-shared, both[:, 0]))
    starts = np.searchsorted(both[order, 0], np.arange(len(near) + 1))
    others, shared = both[order, 1], shared[order]
    for least in np.unique(common[common >= LEAST_COMMON]).tolist():
        counts = np.bincount(both[order, 0], weights=shared >= least, minlength=len(near)).astype(np.int64)
        nearest = [others[start : start + count] for start, count in zip(starts, counts, strict=False)]
        yield _connected(nearest)
        yield _each_with_its_nearest(around, nearest)


def _connected(near: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    labels = np.full(len(near), -1, dtype=np.int64)
    for first in range(len(near)):
        if labels[first] < 0:
            labels[first] = first
            queue = [first]
            for switch in queue:
                fresh = near[switch][labels[near[switch]] < 0]
                labels[fresh] = first
                queue += fresh.tolist()
    return labels


def _each_with_its_nearest(
    around: Sequence[NDArray[np.int64]], near: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Switches with those near them that are in no group yet, beginning with the switches that have the fewest; then
    each goes to the group with which it is joined most, as one does that a lost cable had parted from its own.

    around  the neighbours of each switch
    near    those of them that may be of its group
    """
    labels = np.full(len(near), -1, dtype=np.int64)
    for number, switch in enumerate(sorted(range(len(near)), key=lambda one: len(near[one]))):
        if labels[switch] < 0:
            labels[near[switch][labels[near[switch]] < 0]] = number
            labels[switch] = number
    for switch, others in enumerate(around):
        if len(others):
            joined = np.bincount(labels[others], minlength=int(labels[switch]) + 1)
            most = int(joined.argmax())  # of several the first group
            if joined[most] > joined[labels[switch]]:
                labels[switch] = most
    return labels


def _signs(labels: NDArray[np.int64], ends: NDArray[np.int64]) -> Division:
    """How a division fits, without its groups."""
    _, of, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    groups = len(sizes)
    low, high = np.sort(of[ends], axis=1).T
    apart = low != high
    inside = ratio(int((~apart).sum()), int((sizes * (sizes - 1) // 2).sum()))
    between = ratio(len(np.unique(low[apart] * groups + high[apart])), groups * (groups - 1) // 2)
    counts = np.bincount(sizes)
    usual = len(counts) - 1 - int(counts[::-1].argmax())  # of several the largest
    return Division([[]] * groups, usual, inside, between, ratio(int(counts[usual]), groups))
