"""Condition of the ports of each rail and tier: link states, waiting, pausing, congestion marks. Pure, NumPy.

A sum or mean is of the ports where it is known; where none is, it is NaN, never 0. Groups: as in `utilisation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link, port_groups
from fabricmon.fleet.port_groups import Group, GroupSums
from fabricmon.fleet.pressure import MARKS, NOTICES, PRESSED
from fabricmon.fleet.row_state import Floats
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
    rails, tiers = (_conditions(groups, columns) for groups in (port_groups.rails(view), port_groups.tiers(view)))
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


def _conditions(groups: Sequence[Group], of: _Columns) -> list[GroupCondition]:
    if not groups:
        return []
    sums = GroupSums(groups)
    pressed = sums.known(np.where(np.isfinite(of.waiting), of.waiting >= PRESSED, np.nan))
    figures = np.stack([
        sums.mean(of.waiting), sums.most(of.waiting), pressed, sums.mean(of.pausing), sums.most(of.pausing),
        sums.known(of.marks), sums.known(of.notices), sums.known(of.missed),
    ], axis=1)  # fmt: skip
    links = np.stack([sums.total(of.link == state) for state in _WORDS], axis=1).astype(np.int64)
    return [
        GroupCondition(name, dict(zip(STATES, counts, strict=True)), *numbers)
        for (name, _), counts, numbers in zip(groups, links.tolist(), figures.tolist(), strict=True)
    ]
