"""Ports whose wait for credits, or PFC pause received, is more than that of others and than usual; and those that began
to wait at the moment at which another port began to receive less: its senders. Pure, vectors.

Where the senders of a port are is not known, so they may be any ports of its network; there some always wait, but few
begin to at one moment (docs/methods.md#waits-that-begin).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.ber import log_tail
from fabricmon.fleet.pressure import FALLS, LONG, PRESSED, RECEIVE
from fabricmon.fleet.row_state import Singles
from fabricmon.fleet.slots import WINDOW
from fabricmon.fleet.view import View
from fabricmon.rules.neighbours import Bools, Floats, Rows, host_ports_up, neighbourhood, others_mean

RAISING = 3
"""Windows of 30 s in which a wait must last (docs/methods.md#congestion)."""


def others_wait(view: View, rows: Rows) -> Floats:
    """Mean wait of the other busy ports of the same make: of the same host on other leaves, which carry the same job on
    other rails; of the fleet where the host has fewer than two of them. What a leaf makes wait is not compared with
    itself."""
    tracks, n = view.tracks, view.n
    recent, busy, make = tracks.pressure.stalled.recent[0, :n], tracks.pressure.busy[:n], tracks.facts.make[:n]
    here = np.where(view.node >= 0, view.node.astype(np.int64) * tracks.facts.makes + make, -1)
    hosts = np.isin(here, here[rows]) & (here >= 0)
    leaf = view.group("leaf").astype(np.int64)
    leaf = np.where(leaf >= 0, leaf + n, np.arange(n))  # unknown: one of its own
    below = np.full(n, -1, np.int64)
    below[hosts] = np.unique(here[hosts] * (leaf.max(initial=0) + 1) + leaf[hosts], return_inverse=True)[1]
    counted = hosts & busy & np.isfinite(recent)
    number, total = (
        np.bincount(here[counted], weight, here.max(initial=0) + 1)[here[rows]]
        - np.bincount(below[counted], weight, below.max(initial=0) + 1)[below[rows]]
        for weight in (None, recent[counted])
    )
    peers = np.divide(total, number, out=np.full(len(rows), np.nan), where=(number >= 2) & (here[rows] >= 0))
    return np.where(np.isnan(peers), others_mean(recent, busy, make, rows), np.maximum(peers, 0.0))


def stands_out(view: View, rows: Rows, apart: float) -> Bools:
    """Rows that wait `apart` times as long as those others and as in their own last hour, where it is known."""
    pressure = view.tracks.pressure
    recent = pressure.stalled.recent[0, rows]
    found = np.asarray((recent >= PRESSED) & (recent >= apart * others_wait(view, rows)))
    at = np.flatnonzero(found)
    found[at] = ~(recent[at] < apart * pressure.usual_before(rows[at], RAISING * WINDOW))
    return found


# --- what begins together

Slots = NDArray[np.intp]

AROUND = 1
"""Slots by which two beginnings of one moment may seem apart, either way: ports are read at different times."""
LEAST = 2
"""Least ports that begin to wait (as credits_withheld's `waiting`)."""
SPARED = 0.75
"""Of what a port lost, the share that no other port of its moment may have lost: a sender that divides its work between
two receivers takes at most half from the other; midway between half and all."""
PAIRS = 1_000_000
"""Comparisons of ports that fell; beyond, hundreds fell at one moment, of which none is a receiver that is slow."""


class Begun(NamedTuple):
    """Of some rows: ports of their network that began to wait as they began to receive less.

    together  how many did
    apart     how many wait likewise, and began at other times
    chance    natural logarithm of the probability that so many, or more, began by chance; 0 where it is not known
    """

    together: NDArray[np.int64]
    apart: NDArray[np.int64]
    chance: Floats


def lasting_waits(view: View, rows: Rows, apart: float) -> Bools:
    """Those of `rows` that have waited more than usual and than others (times `apart`), for three windows."""
    pressure = view.tracks.pressure
    found = stands_out(view, rows, apart)
    at = np.flatnonzero(found)
    lasting = pressure.stalled.windows(0, rows[at], RAISING) >= PRESSED * pressure.scale[rows[at]]
    found[at] = lasting.all(axis=0)
    return found


def _newest(shows: Bools) -> Slots:
    """By column: how many of the first rows show it without a break."""
    return np.where(shows.all(axis=0), len(shows), np.argmin(shows, axis=0))


def fell_since(view: View, rows: Rows) -> Slots:
    """Slots for which each row has received less than midway between usual and now; FALLS for longer, or unknown."""
    pressure = view.tracks.pressure
    midway: Singles = (pressure.received.mean[rows] + pressure.traffic.recent[RECEIVE, rows]) / 2
    return _newest(~(pressure.traffic.history(RECEIVE, rows, FALLS) > midway))


def _waits_since(view: View, rows: Rows) -> Slots:
    """Slots for which each row has waited at least half as long as now; LONG for longer, or unknown."""
    stalled = view.tracks.pressure.stalled
    return _newest(~(stalled.history(0, rows, LONG) < stalled.recent[0, rows] / 2))


def begun(view: View, rows: Rows, apart: float) -> Begun:
    """What began to wait with each row; nothing where it fell too long ago, is in no network, or waits itself.

    apart  times their usual wait, and the wait of the other ports of their hosts
    """
    groups, pressure = neighbourhood(view)[0], view.tracks.pressure
    since, mine = fell_since(view, rows), groups[rows]
    beside = np.flatnonzero(
        host_ports_up(view) & (pressure.stalled.recent[0, : view.n] >= PRESSED) & np.isin(groups, mine[mine >= 0])
    )
    waiting = beside[lasting_waits(view, beside, apart)]
    per = np.zeros((int(groups.max(initial=0)) + 1, LONG + 1), np.int64)
    np.add.at(per, (groups[waiting], _waits_since(view, waiting)), 1)
    near = since[:, None] + np.arange(-AROUND, AROUND + 1)
    usable = (mine >= 0) & (since < FALLS) & ~np.isin(rows, waiting)
    together = np.where(usable, per[np.maximum(mine, 0)[:, None], np.maximum(near, 0)].sum(axis=1), 0)
    others = np.where(usable, per[np.maximum(mine, 0)].sum(axis=1) - together, 0)
    known = np.isfinite(pressure.stalled.history(0, rows, LONG)).sum(axis=0)
    # each of the others has lasted three windows at least; none began in all slots that are known: one more
    mean = near.shape[1] * (others / (RAISING * WINDOW) + 1 / np.maximum(1, known))
    enough = together >= LEAST
    chance = np.where(enough, log_tail(np.maximum(1, together).astype(float), mean), 0.0)
    return Begun(together, others, chance)


def fell_most(view: View, rows: Rows, fell: Rows, of_rx: Singles) -> Bools:
    """Those of `rows` beside which no port of their network fell at that moment by nearly as much.

    fell   all rows that fell
    of_rx  by row of the view, what it receives as a share of usual
    """
    if len(rows) * len(fell) > PAIRS:
        return np.zeros(len(rows), np.bool_)
    groups = neighbourhood(view)[0]
    beside = groups[fell][None, :] == groups[rows][:, None]
    beside &= fell[None, :] != rows[:, None]
    beside &= np.abs(fell_since(view, fell)[None, :] - fell_since(view, rows)[:, None]) <= AROUND
    beside &= 1 - of_rx[fell][None, :] >= SPARED * (1 - of_rx[rows][:, None])
    return ~beside.any(axis=1)
