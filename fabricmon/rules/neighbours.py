"""What the other ports of a port's neighbourhood do: their mean, and how many of them show something. Pure, vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.view import View

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Groups = NDArray[np.int32]

WITHIN = (("plane", "its plane"), ("network", "its network"), ("rail", "its rail"), ("leaf", "its leaf"))
"""Domains in which ports send to each other, the widest first, and what a person calls them."""

PEERS_LEAST = 4
"""Ports whose mean is worth comparing with [D]."""


def neighbourhood(view: View) -> tuple[Groups, str]:
    """Group of each row within which its senders are looked for, and its name; all rows are one group where the
    topology tells none."""
    for domain, words in WITHIN:
        groups = view.group(domain)
        if (groups >= 0).any():
            return groups, words
    return np.zeros(view.n, np.int32), "the fleet"


def others_mean(
    value: NDArray[np.floating], among: Bools, groups: NDArray[np.integer], rows: Rows, least: int = PEERS_LEAST
) -> Floats:
    """Mean of `value` over the other rows of each row's group that are `among` and known; NaN where there are
    fewer than `least`."""
    counted = among & (groups >= 0) & np.isfinite(value)
    size = int(groups.max(initial=-1)) + 1
    number = np.bincount(groups[counted], minlength=size)
    total = np.bincount(groups[counted], value[counted], size)
    mine = groups[rows]
    own = counted[rows]
    placed = mine >= 0
    at = np.where(placed, mine, 0)
    if not size:
        return np.full(len(rows), np.nan)
    others = number[at] - own
    rest = total[at] - np.where(own, np.nan_to_num(value[rows]), 0.0)
    mean = np.full(len(rows), np.nan)
    np.divide(rest, others, out=mean, where=placed & (others >= least))
    return mean


def others_count(shows: Bools, groups: Groups, rows: Rows) -> NDArray[np.int64]:
    """How many other rows of each row's group show it; 0 for a row in no group."""
    counted = shows & (groups >= 0)
    size = int(groups.max(initial=-1)) + 1
    if not size:
        return np.zeros(len(rows), np.int64)
    number = np.bincount(groups[counted], minlength=size)
    mine = groups[rows]
    found: NDArray[np.int64] = np.where(mine >= 0, number[np.maximum(mine, 0)] - counted[rows], 0)
    return found
