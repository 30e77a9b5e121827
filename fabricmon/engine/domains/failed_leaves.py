"""Leaves that fail as a whole, by what is known of their ports (docs/methods.md#hard-before-soft). Pure."""

from __future__ import annotations

import numpy as np

from fabricmon.engine.domains.groups import Floats, Ids, Mask

LEAST = 3
"""Ports of a leaf that fail from which it fails as a whole (design choice)."""
MOSTLY = 0.8
"""Share of its known ports from which it does, as of any group (docs/methods.md#noisy-or)."""


def failed_leaves(dead: Floats, over: Floats, known: Mask, leaf: Ids) -> Floats:
    """Until when losses may be of the failure of each leaf: for as long as they may be of that of MOSTLY all of its
    known ports. Infinite while these are down, -inf where they are not.

    dead, over  of PORT rows: when each failed, NaN never, and until when losses may be of that
    known       rows of which it is known whether they are down
    """
    every = np.flatnonzero(known & (leaf >= 0))
    failed = every[np.isfinite(dead[every])]
    size = int(leaf.max(initial=-1)) + 1
    least = np.maximum(LEAST, np.ceil(MOSTLY * np.bincount(leaf[every], minlength=size)).astype(np.int64))
    order = failed[np.lexsort((-over[failed], leaf[failed]))]
    number = np.bincount(leaf[failed], minlength=size)
    begins = np.concatenate(([0], np.cumsum(number)[:-1])) if size else number
    ends = np.full(size, -np.inf)
    whole = np.flatnonzero(number >= least)
    ends[whole] = over[order[begins[whole] + least[whole] - 1]]
    return ends
