"""Condition of the ports of each rail and tier: link states, waiting, pausing, congestion marks. Pure, NumPy.

A sum or mean is of the ports where it is known; where none is, it is NaN, never 0. Groups: as in `utilisation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link, port_groups
from fabricmon.fleet.pressure import MARKS, NOTICES, PRESSED
from fabricmon.fleet.row_state import Floats, Numbers
from fabricmon.fleet.slots import Slots
from fabricmon.fleet.view import View

_WORDS = {link.UP: "up", link.DOWN: "down", link.ORDERED: "down_by_order", link.INIT: "initialising",
          link.UNKNOWN: "unknown"}  # fmt: skip

STATES = tuple(_WORDS.values())
"""Words of link states in the order in which they are shown."""


class GroupCondition(NamedTuple):
    """The ports of one group, over the last 30 s.

    links     ports by the state of their link, all of STATES named
    waiting   mean share of time in which a port had data and could not transmit; measured or estimated (`pressure`)
    worst     the same of the port that waited most
    pressed   ports that waited PRESSED of the time or more
    pausing   mean share of time in which a port paused its switch
    stopping  the same of the port that paused most
    marks     packets with a congestion mark that arrived, a second, of all ports
    notices   congestion notifications acted on, a second, of all ports
    missed    packets that found no receive buffer, a second, of all ports
    """

    name: str
    links: dict[str, int]
    waiting: float
    worst: float
    pressed: float
    pausing: float
    stopping: float
    marks: float
    notices: float
    missed: float


class _Columns(NamedTuple):
    """Per row of the view: what conditions are made of, NaN unknown."""

    link: NDArray[np.int8]
    waiting: Floats
    pausing: Floats
    marks: Floats
    notices: Floats
    missed: Floats


def conditions(view: View) -> tuple[list[GroupCondition], list[GroupCondition]]:
    """Of the rails and of the tiers of a PORT view, by name; tiers begin with hosts' own ports."""
    columns = _columns(view)
    rails, tiers = (
        [_condition(name, rows, columns) for name, rows in groups]
        for groups in (port_groups.rails(view), port_groups.tiers(view))
    )
    return rails, tiers


def _columns(view: View) -> _Columns:
    n, pressure = view.n, view.tracks.pressure

    def recent(slots: Slots, quantity: int = 0) -> Floats:
        return np.where(slots.known(n, view.now), slots.recent[quantity, :n], np.nan).astype(np.float64)

    waiting = np.where(pressure.stalled.known(n, view.now), pressure.waits(n), np.nan).astype(np.float64)
    reporting = view.frame_age() <= view.age_limit("state")
    states = np.where(reporting, view.tracks.link[:n], np.int8(link.UNKNOWN)).astype(np.int8)
    return _Columns(states, waiting, recent(pressure.pausing), recent(pressure.arrivals, MARKS),
                    recent(pressure.arrivals, NOTICES), recent(pressure.missed))  # fmt: skip


def _condition(name: str, rows: Numbers, of: _Columns) -> GroupCondition:
    counts = dict.fromkeys(STATES, 0)
    for state, number in zip(*np.unique(of.link[rows], return_counts=True), strict=True):
        counts[_WORDS[int(state)]] += int(number)

    def over(column: Floats, figure: Callable[[Floats], float]) -> float:
        known = column[rows][np.isfinite(column[rows])]
        return float(figure(known)) if len(known) else np.nan

    return GroupCondition(
        name, counts, over(of.waiting, np.mean), over(of.waiting, np.max),
        over(of.waiting, lambda waiting: float(np.count_nonzero(waiting >= PRESSED))),
        over(of.pausing, np.mean), over(of.pausing, np.max),
        over(of.marks, np.sum), over(of.notices, np.sum), over(of.missed, np.sum),
    )  # fmt: skip
