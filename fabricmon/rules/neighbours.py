"""Means and counts over the other ports of a port's neighbourhood. Pure, vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.view import View

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Groups = NDArray[np.int32]

WITHIN = (("plane", "its plane"), ("network", "its network"), ("rail", "its rail"))
"""Domains in which ports send to each other, the widest first, and their names in texts."""

PEERS_LEAST = 4
"""Least number of ports for a mean (design choice)."""


def host_ports_up(view: View) -> Bools:
    """Ports of hosts whose link is up, without ports that only a sweep of the fabric reads."""
    tracks, n = view.tracks, view.n
    return view.present & (tracks.link[:n] == link.UP) & ~tracks.facts.swept[:n]


def neighbourhood(view: View) -> tuple[Groups, str]:
    """Group of each row in which its senders are, and its name; one group of all rows without a topology."""
    for domain, words in WITHIN:
        groups = view.group(domain)
        if (groups >= 0).any():
            return groups, words
    return np.zeros(view.n, np.int32), "the fleet"


def others_mean(
    value: NDArray[np.floating], among: Bools, groups: NDArray[np.integer], rows: Rows, least: int = PEERS_LEAST
) -> Floats:
    """Mean of `value` over the other known rows of each row's group that are `among`; NaN for fewer than `least`."""
    counted = among & (groups >= 0) & np.isfinite(value)
    others = others_count(counted, groups, rows)
    mean = np.full(len(rows), np.nan)
    if others.any():
        rest = np.bincount(groups[counted], value[counted], int(groups.max()) + 1)[np.maximum(groups[rows], 0)]
        rest -= np.where(counted[rows], np.nan_to_num(value[rows]), 0.0)
        np.divide(rest, others, out=mean, where=others >= least)
    return mean


def others_count(shows: Bools, groups: NDArray[np.integer], rows: Rows) -> NDArray[np.int64]:
    """Count of the other rows of each row's group that show it; 0 for a row in no group."""
    counted = shows & (groups >= 0)
    number = np.bincount(groups[counted], minlength=int(groups.max(initial=0)) + 1)
    found: NDArray[np.int64] = np.where(groups[rows] >= 0, number[np.maximum(groups[rows], 0)] - counted[rows], 0)
    return found
