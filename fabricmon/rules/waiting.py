"""Ports whose wait for credits, or PFC pause received, is more than that of others and than usual. Pure, vectors."""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.pressure import PRESSED
from fabricmon.fleet.slots import WINDOW
from fabricmon.fleet.view import View
from fabricmon.rules.neighbours import Bools, Floats, Rows, others_mean

RAISING = 3
"""Windows of 30 s in which a wait must last (docs/methods.md#congestion)."""


def others_wait(view: View, rows: Rows) -> Floats:
    """Mean wait of the other busy ports of the same make: of the same host on other leaves, which carry the same job on
    other rails; of the fleet where the host has fewer than two of them. What a leaf makes wait is not compared with
    itself."""
    tracks, n = view.tracks, view.n
    recent, busy, make = tracks.pressure.stalled.recent[0, :n], tracks.pressure.busy[:n], tracks.facts.make[:n]
    here = np.where(view.node >= 0, view.node * tracks.facts.makes + make, -1)
    hosts = np.isin(here, here[rows])
    leaf = view.group("leaf").astype(np.int64)
    leaf = np.where(leaf >= 0, leaf + n, np.arange(n))  # unknown: one of its own
    below = np.full(n, -1, np.int64)
    below[hosts] = np.unique(here[hosts] * (leaf.max(initial=0) + 1) + leaf[hosts], return_inverse=True)[1]
    counted = hosts & busy & (here >= 0) & np.isfinite(recent)
    number, total = (
        np.bincount(here[counted], weight, here.max(initial=0) + 1)[here[rows]]
        - np.bincount(below[counted], weight, below.max(initial=0) + 1)[below[rows]]
        for weight in (None, recent[counted])
    )
    peers = np.divide(total, number, out=np.full(len(rows), np.nan), where=number >= 2)
    return np.where(np.isnan(peers), others_mean(recent, busy, make, rows), np.maximum(peers, 0.0))


def stands_out(view: View, rows: Rows, apart: float) -> Bools:
    """Rows that wait `apart` times as long as those others and as in their own last hour, where it is known."""
    pressure = view.tracks.pressure
    recent = pressure.stalled.recent[0, rows]
    found = np.asarray((recent >= PRESSED) & (recent >= apart * others_wait(view, rows)))
    at = np.flatnonzero(found)
    found[at] = ~(recent[at] < apart * pressure.usual_before(rows[at], RAISING * WINDOW))
    return found
