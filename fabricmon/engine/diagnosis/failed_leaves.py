"""Leaves that fail as a whole, by what is known of their ports (docs/methods.md#hard-before-soft). Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.engine.diagnosis.diagnose import MOSTLY
from fabricmon.engine.domains.groups import Floats, Ids, Mask

LEAST = 3
"""Ports of a leaf that fail from which it fails as a whole (design choice)."""


def failed_leaves(dead: Floats, over: Floats, known: Mask, leaf: Ids) -> Floats:
    """Until when losses may be of the failure of each leaf, infinite while MOSTLY all of its known ports are down, -inf
    where they are not.

    dead, over  of PORT rows: when each failed, NaN never, and until when losses may be of that
    known       rows of which it is known whether they are down
    """
    every = np.flatnonzero(known & (leaf >= 0))
    failed = every[np.isfinite(dead[every])]
    size = int(leaf.max(initial=-1)) + 1
    ends = np.full(size, -np.inf)
    np.maximum.at(ends, leaf[failed], over[failed])
    number = np.bincount(leaf[failed], minlength=size)
    whole = (number >= LEAST) & (number >= MOSTLY * np.bincount(leaf[every], minlength=size))
    return np.where(whole, ends, -np.inf)
