"""How well "some of the members" explains k of n of them (docs/methods.md#partial-modes). Pure.

A component that is partly broken shows its symptom on an unknown share of its members. The share is integrated over the
uniform distribution, so the mode pays for its freedom: ln of k! (n - k)! / (n + 1)!.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from fabricmon.engine.domains.groups import Floats, Ints

Counts = Floats | Ints | float | int


def log_marginal(k: Counts, n: Counts, least: int = 0) -> Floats:
    """ln of the probability that exactly these k of n members show it, in nats; -ln(n + 1) for all or none of them.

    least  members that show it in any case: of a mode that needs so many, fewer are no outcome
    """
    shown, observed = np.asarray(k, np.float64), np.asarray(n, np.float64)
    if (shown < 0).any() or (shown > observed).any():
        raise ValueError("k must be from 0 to n")
    outcomes = np.maximum(observed + 1 - least, 1.0) / (observed + 1)
    return np.asarray(_lgamma(shown + 1) + _lgamma(observed - shown + 1) - _lgamma(observed + 2) - np.log(outcomes))


def _lgamma(x: Floats) -> Floats:
    if x.max(initial=0.0) < KNOWN and x.min(initial=1.0) >= 1.0 and (x == np.floor(x)).all():
        return np.asarray(_OF_INTEGERS[x.astype(np.intp)])
    values, at = np.unique(x, return_inverse=True)
    return np.array([lgamma(value) for value in values.tolist()], np.float64)[at].reshape(x.shape)


KNOWN = 4096
"""Integers below this are looked up: counts of the members of one component are, as a rule."""
_OF_INTEGERS: Floats = np.array([0.0, *(lgamma(value) for value in range(1, KNOWN))], np.float64)
