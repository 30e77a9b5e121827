"""How lossy ports are spread over rails and other parts, and what that is evidence of. Pure.

Collectives send from an adapter to those of its own rail (docs/methods.md#losses-and-rails). So peers of one port, and
those of the ports of a leaf that has one rail, are on its rail; what carries all rails makes ports of all of them lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log

import numpy as np

from fabricmon.engine.domains.groups import Floats, Ids, Mask

ALIGNED = 0.95
"""Probability that traffic stays in its rail where leaves have one rail each (design choice): libraries do so by
default, and jobs may be set up otherwise."""
OWN_MOST = 0.74
"""Share of all losses up to which those of a port may be its own: 97.5 % of Beta(8, 8), see gray.py."""
SPREAD = 10.0
"""How evenly lossy ports are spread over parts that have nothing to do with the fault (concentration of a Dirichlet
distribution). Jobs clump: their hosts are neighbours and talk with one another."""


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
