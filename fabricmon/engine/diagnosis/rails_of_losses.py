"""How lossy ports are spread over rails, leaves and other parts, and what that is evidence of. Pure.

Collectives send from an adapter to those of its own rail (docs/methods.md#losses-and-rails). So peers of one port, and
those of the ports of a leaf that has one rail, are on its rail; what carries all rails makes ports of all of them lose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, lgamma, log
from typing import NamedTuple

import numpy as np

from fabricmon.engine.domains.groups import Floats, Ids, Ints, Mask
from fabricmon.engine.domains.transit import LeafCables

ALIGNED = 0.95
"""Probability that traffic stays in its rail where leaves have one rail each (design choice): libraries do so by
default, and jobs may be set up otherwise."""
OWN_MOST = 0.74
"""Share of all losses up to which those of a port may be its own: 97.5 % of Beta(8, 8), see gray.py."""
SPREAD = 10.0
"""How evenly lossy ports are spread over parts that have nothing to do with the fault (concentration of a Dirichlet
distribution). Jobs clump: their hosts are neighbours and talk with one another."""
PASSING = 0.9
"""Share of the leaves at either end of lossy flows from which ways to leaves at the other end have a part, from which
it is what they have in common."""
COMPARED = 4_000_000
"""Pairs of leaves, each for each part that lossy flows have in common, up to which parts are compared: 4 parts of 1,000
leaves, 44 of 300; about a tenth of a second (design choice)."""
MOST_LEAVES = 64
"""Leaves of senders, and of receivers, of which that is looked for, evenly spread over more of them (design choice)."""
SMALLEST = 1e-300
"""Least probability of which a logarithm is taken."""
ALL_TO_ALL = 2 / 3
"""Probability that ports send to others all over a network alike, and not jobs within parts of it (design choice)."""
STRAY = 0.02
"""Probability that a lossy port, or one to which packets are lost, is of something else than the cable."""
WAYS = tuple(0.05 + 0.1 * step for step in range(10))
"""Shares of the lossy flows through a cable that go one way: all are taken as equally likely, and one half, for
losses both ways, as likely as these together."""


def on_one_rail(rails: Ids, mine: Mask, scope: Mask, shows: Mask) -> float:
    """Nats of evidence, by the rails of the other lossy ports, for a part within one rail against one above the leaves.

    rails         number of each port's rail, -1 unknown
    mine          lossy ports of the part
    scope, shows  all ports of the plane, and those that lose
    """
    own = np.unique(rails[mine])
    if len(own) != 1 or own[0] < 0 or (rails[scope] < 0).any():
        return 0.0
    if (rails[shows] != own[0]).any():
        return log(1.0 - ALIGNED)
    above = spread(rails, scope, shows) - spread(rails, scope, mine)
    return log(ALIGNED + (1.0 - ALIGNED) * exp(above)) - above


def accounted(rails: Ids, ratio: Floats, mine: Mask, shows: Mask) -> bool:
    """Whether the other lossy ports of its rail account for what a lossy port loses: together they lose as much."""
    here = shows & np.isin(rails, rails[mine])
    own = float(ratio[mine & shows].sum())
    return bool((rails[mine] >= 0).all()) and own <= OWN_MOST * float(ratio[here].sum())


def spread(parts: Ids, scope: Mask, shows: Mask) -> float:
    """Log-likelihood of how the lossy ports of some leaves, pods or rails are spread over these."""
    numbers, size = np.unique(parts[scope], return_counts=True)
    if len(numbers) < 2:
        return 0.0
    count = np.bincount(np.searchsorted(numbers, parts[scope & shows]), minlength=len(numbers))
    return shared(count.tolist(), (size / size.sum()).tolist())


def shared(counts: Sequence[int], shares: Sequence[float], even: float = SPREAD) -> float:
    """Log-likelihood of counts among parts that have these shares on average: Dirichlet-multinomial."""
    each = sum(lgamma(even * a + k) - lgamma(even * a) for a, k in zip(shares, counts, strict=True) if k)
    return each + lgamma(even) - lgamma(even + sum(counts))


class InCommon(NamedTuple):
    """What all lossy flows between leaves may go through: a link or a leaf, its number, and the nats by which the
    leaves of the ports that send and receive them are likelier by it than by any part, if all ports send to all alike;
    -inf where that is not known."""

    domain: str
    group: int
    where: float


def in_common(
    transit: LeafCables, leaf: Ids, every: Mask, senders: Mask, receivers: Mask, possible: Callable[[int], bool]
) -> list[InCommon]:
    """Cables and leaves (docs/methods.md#cables-of-direct-networks).

    leaf      per row its leaf; every: the ports of the network
    possible  whether each leaf may be one
    """
    leaves, size = np.unique(leaf[every & (transit.switch[leaf] >= 0)], return_counts=True)
    switch, ways = transit.switch[leaves], transit.ways
    counts = [np.bincount(np.searchsorted(leaves, leaf[end & np.isin(leaf, leaves)]), minlength=len(leaves))
              for end in (senders, receivers)]  # fmt: skip
    out, into = (switch[np.flatnonzero(count)] for count in counts)
    if not len(out) or not len(into):
        return []
    out, into = _some(out), _some(into)
    passed = _most(ways.through(out, into))
    within = np.flatnonzero(passed[ways.near] & passed[ways.far])  # what goes through a cable goes through its ends
    cables = within[_most(ways.passed(within, out, into))]
    around = np.flatnonzero(passed[transit.switch] & (transit.switch >= 0))  # also leaves with no observed port
    around = around[[possible(group) for group in around.tolist()]]
    most = COMPARED // len(switch) ** 2
    most = most if len(cables) + len(around) <= most else 1
    found: list[InCommon] = []
    for domain, groups, parts, share in (
        ("link", transit.link[cables], cables, ways.share), ("leaf", around, transit.switch[around], ways.share_through)
    ):  # fmt: skip
        for group, part in zip(groups.tolist(), parts.tolist(), strict=True):
            where = _like_usual(counts, share(part, switch), size) if len(found) < most else -inf
            found.append(InCommon(domain, group, where))
    return found


def _like_usual(counts: Sequence[Ints], share: Floats, size: Ints) -> float:
    """Nats for a part of which a share of the flows between leaves goes through it, if all ports sent to all alike."""
    flat, flows = size / size.sum(), share * np.outer(size, size)
    if flows.sum() <= 0.0:
        return -inf
    ends = [STRAY * flat + (1.0 - STRAY) * flows.sum(axis=axis) / flows.sum() for axis in (1, 0)]
    return _through(counts, ends) - sum(shared(count.tolist(), flat.tolist()) for count in counts)


def mixed(where: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Such nats if all ports may send to all alike, or some to some: then all parts are as likely as each other, as
    they are where not all of them are known. `weights`: how likely each part is by anything else."""
    if (top := max(where, default=-inf)) == -inf:
        return list(where)
    each = [exp(one - top) for one in where]
    known = [(one, weight) for one, weight, nats in zip(each, weights, where, strict=True) if nats > -inf]
    mean = sum(one * weight for one, weight in known) / max(sum(weight for _, weight in known), SMALLEST)
    usual = ALL_TO_ALL if len(known) == len(each) else 0.0
    return [top + log(max(usual * one + (1.0 - usual) * mean, SMALLEST)) for one in each]


def _some(leaves: Ints) -> Ints:
    """Leaves by which it is found what flows have in common: enough to find it, and few enough to compare."""
    return leaves[:: -(-len(leaves) // MOST_LEAVES)]


def _most(passed: tuple[Mask, Mask]) -> Mask:
    return np.asarray(np.all([end.mean(axis=1) >= PASSING for end in passed], axis=0))


def _through(counts: Sequence[Ints], ends: Sequence[Floats]) -> float:
    """Log-likelihood of the leaves of senders and receivers, whatever share of the flows goes either way."""
    each = [_one_way(counts, ends, share) for share in WAYS]
    top = max(each)
    mixed = top + log(sum(exp(one - top) for one in each) / len(each))
    both = _one_way(counts, ends, 0.5)
    return max(mixed, both) + log(0.5 * (1.0 + exp(-abs(mixed - both))))


def _one_way(counts: Sequence[Ints], ends: Sequence[Floats], share: float) -> float:
    there, back = ends
    return sum(
        shared(count.tolist(), (part * one + (1.0 - part) * other).tolist())
        for count, one, other, part in ((counts[0], there, back, share), (counts[1], back, there, share))
    )
