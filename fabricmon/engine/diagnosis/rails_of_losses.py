"""How lossy ports are spread over rails, leaves and other parts, and what that is evidence of. Pure.

Collectives send from an adapter to those of its own rail (docs/methods.md#losses-and-rails). So peers of one port, and
those of the ports of a leaf that has one rail, are on its rail; what carries all rails makes ports of all of them lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log

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
"""Share of the leaves at either end of lossy flows from which ways to leaves at the other end have a cable, from which
it is compared."""
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


def on_a_cable(
    transit: LeafCables, leaf: Ids, every: Mask, senders: Mask, receivers: Mask
) -> list[tuple[int, float]]:
    """Cables between leaves that may lose the packets: number of the link, and nats by which the leaves of the ports
    that send and receive them are likelier by it than by any part (docs/methods.md#cables-of-direct-networks).

    leaf   per row its leaf; every: the ports of the network
    """
    leaves, size = np.unique(leaf[every & (transit.switch[leaf] >= 0)], return_counts=True)
    switch = transit.switch[leaves]
    counts = [np.bincount(np.searchsorted(leaves, leaf[end & np.isin(leaf, leaves)]), minlength=len(leaves))
              for end in (senders, receivers)]  # fmt: skip
    out, into = (np.flatnonzero(count) for count in counts)
    if not len(out) or not len(into):
        return []
    fits = np.all([end.mean(axis=1) >= PASSING for end in transit.ways.passed(switch[out], switch[into])], axis=0)
    flat = size / size.sum()
    usual = sum(shared(count.tolist(), flat.tolist()) for count in counts)
    found: list[tuple[int, float]] = []
    for cable in np.flatnonzero(fits).tolist():
        flows = transit.ways.share(cable, switch) * np.outer(size, size)
        if flows.sum() > 0.0:
            ends = [STRAY * flat + (1.0 - STRAY) * flows.sum(axis=axis) / flows.sum() for axis in (1, 0)]
            found.append((int(transit.link[cable]), _through(counts, ends) - usual))
    return found


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
