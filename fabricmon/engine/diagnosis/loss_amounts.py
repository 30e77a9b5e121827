"""Evidence of how much ports lose, for the part of the fabric that loses packets. Pure.

Method: docs/methods.md#gray-loss; the numbers are design choices. Nats by which amounts are evidence for a part against
what is above it: all that the ports of a gray leaf send goes through it, and one port loses what its peers do together.
"""

from __future__ import annotations

from math import lgamma, log, log1p

import numpy as np

from fabricmon.engine.diagnosis.causes import PEERS
from fabricmon.engine.domains.groups import Floats, Mask

ALIKE = 0.9
"""The lower quartile of what ports of a gray leaf lose is at least this part of the upper one: all that they send goes
through it."""
EQUAL = 0.05
"""Least standard deviation of the logarithm of what ports lose that lose alike: that of 400 lost packets (Poisson)."""
STANDS_OUT = 1.4
"""Times the loss elsewhere that ports of a gray leaf lose: others send only some of their packets there."""
ELSEWHERE = 0.9
"""Quantile of the loss elsewhere for the comparison: the ports of the gray leaf lose most."""
LINK_STANDS_OUT = 3.0
"""The same of one port or one adapter: its peers lose only what they send to it."""
HALF = 8.0
"""Both parameters of the Beta distribution of the share of all losses that are the lossy port's own: one half, as its
peers lose what they send to it and it what it sends to them, give or take an eighth because rates differ. The share of
a port that has nothing to do with it is uniform over all divisions among the lossy ports."""
WEIGHT = 30.0
"""Nats per e-fold of that ratio, within +-MOST: shares of packets are counted from hundreds of losses."""
MOST = 25.0


def contrast(ratio: Floats, inside: Mask, outside: Mask, needed: float) -> float:
    """Nats of evidence, by the amounts, for a part against its surroundings."""
    if not outside.any():
        return 0.0
    far = float(ratio[outside].max()) if needed == LINK_STANDS_OUT else float(np.quantile(ratio[outside], ELSEWHERE))
    near = float(np.median(ratio[inside]))
    if far <= 0.0 or near <= 0.0:
        return 0.0
    return float(np.clip(WEIGHT * (log(near / far) - log(needed)), -MOST, MOST))


def are_alike(ratio: Floats) -> bool:
    """Whether ports lose as much as each other, by ALIKE."""
    low, high = np.quantile(ratio, (0.25, 0.75)).tolist()
    return bool(low >= ALIKE * high)


def may_lose_all(ratio: Floats, inside: Mask, outside: Mask) -> bool:
    """Whether all that some ports send may be lost to the same degree: they lose alike, and no other loses more."""
    if not inside.any():
        return True
    far = float(np.quantile(ratio[outside], ELSEWHERE)) if outside.any() else 0.0
    return are_alike(ratio[inside]) and float(np.median(ratio[inside])) >= ALIKE * far


def most_alike(ratio: Floats, inside: Mask) -> Mask:
    """Ports of a part of a leaf that send all through that part and so lose alike, within ALIKE of the median of those
    inside; none where these are less than half, as others send only some of their packets there."""
    if not inside.any():
        return inside
    middle = float(np.median(ratio[inside]))
    with np.errstate(invalid="ignore"):
        alike = inside & (ratio >= ALIKE * middle) & (ratio * ALIKE <= middle)
    return alike if 2 * alike.sum() >= inside.sum() else np.zeros_like(inside)


def of_all_ports(ratio: Floats, inside: Mask, outside: Mask) -> float:
    """Nats of a gray leaf, through which all goes that its ports send: they lose alike, no other loses more.

    Others lose the share of their packets that they send there. By a part above it these ports would differ as others
    do: log-normal with the spread of the others, against that of EQUAL (docs/methods.md#gray-loss).
    """
    clear = contrast(ratio, inside, outside, STANDS_OUT)
    if outside.sum() < 2 or float(np.median(ratio[inside])) < ALIKE * float(np.quantile(ratio[outside], ELSEWHERE)):
        return clear
    usual, own = (max(EQUAL, float(np.log(ratio[rows]).std())) for rows in (outside, inside))
    return max(clear, min(MOST, int(inside.sum()) * log(usual / own)))


def of_half(share: float, others: int) -> float:
    """Nats by which this share of all losses is that of a lossy port with so many others, rather than of any port."""
    return _beta(share, HALF, HALF) - _beta(share, 1.0, float(others))


def single_peers(ratio: Floats, mine: Mask, others: Mask) -> float:
    """Nats against one port by others that lose as much as it does: they would send all their packets to it, so it is
    their only peer, where it has several. From 1 to 2 x PEERS peers are equally likely; what a port loses by a part
    above is as likely to be in any tenth."""
    if others.sum() < 2:
        return 0.0
    alike = int((ratio[others] >= ALIKE * float(np.median(ratio[mine]))).sum())
    return alike * log((1.0 - ALIKE) * 2 * PEERS)


def _beta(share: float, a: float, b: float) -> float:
    """Logarithm of the density of a Beta distribution."""
    share = min(max(share, 1e-9), 1.0 - 1e-9)
    return lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1.0) * log(share) + (b - 1.0) * log1p(-share)
