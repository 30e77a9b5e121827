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
    """Mean wait of the other busy ports of the same make: of the same host, which carry the same job on other rails; of
    the fleet where the host has fewer than two others."""
    tracks, n = view.tracks, view.n
    recent, busy, make = tracks.pressure.stalled.recent[0, :n], tracks.pressure.busy[:n], tracks.facts.make[:n]
    here = np.where(view.node >= 0, view.node * tracks.facts.makes + make, -1)
    peers = others_mean(recent, busy, here, rows, least=2)
    return np.where(np.isnan(peers), others_mean(recent, busy, make, rows), peers)


def stands_out(view: View, rows: Rows, apart: float) -> Bools:
    """Rows that wait `apart` times as long as those others and as in their own last hour, where it is known."""
    pressure = view.tracks.pressure
    recent = pressure.stalled.recent[0, rows]
    found = np.asarray((recent >= PRESSED) & (recent >= apart * others_wait(view, rows)))
    at = np.flatnonzero(found)
    found[at] = ~(recent[at] < apart * pressure.usual_before(rows[at], RAISING * WINDOW))
    return found
