"""How the ports of each rail and of each tier are now: link states, waiting, pausing, congestion marks. Pure, NumPy.

A sum or mean is of the ports of which it is known; where none is, it is NaN, never 0. The same groups as those of
`utilisation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet import link
from fabricmon.fleet.pressure import MARKS, NOTICES, PRESSED
from fabricmon.fleet.slots import Slots
from fabricmon.fleet.utilisation import ADAPTERS
from fabricmon.fleet.view import View

Floats = NDArray[np.float64]

STATES = ("up", "down", "down_by_order", "initialising", "unknown")
"""Words of link states in the order in which they are shown."""

_WORDS = {link.UP: "up", link.DOWN: "down", link.ORDERED: "down_by_order", link.INIT: "initialising",
          link.UNKNOWN: "unknown"}  # fmt: skip


class Condition(NamedTuple):
    """The ports of one group, over the last 30 s.

    links     ports by the state of their link, all of STATES named
    waiting   mean share of time in which a port had data and might not send; measured or estimated (`pressure`)
    worst     the same of the port that waited most
    pressed   ports that waited PRESSED of the time or more
    pausing   mean share of time in which a port kept its switch from sending
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


def conditions(view: View) -> tuple[list[Condition], list[Condition]]:
    """Of the rails and of the tiers of a PORT view, by name; tiers begin with hosts' own ports."""
    columns = _columns(view)
    own = ~view.tracks.facts.swept[: view.n] & view.present
    rails = [_condition(name, rows, columns) for name, rows in _groups(view, "rail", own)]
    placed = own & ((view.group("rail") >= 0) | (view.group("leaf") >= 0))
    tiers = [_condition(ADAPTERS, np.flatnonzero(placed), columns)] if placed.any() else []
    swept = view.tracks.facts.swept[: view.n] & view.present
    return rails, tiers + [_condition(name, rows, columns) for name, rows in _groups(view, "tier", swept)]


def _columns(view: View) -> _Columns:
    n, pressure = view.n, view.tracks.pressure

    def recent(slots: Slots, quantity: int = 0) -> Floats:
        return np.where(slots.known(n, view.now), slots.recent[quantity, :n], np.nan).astype(np.float64)

    waiting = np.where(pressure.stalled.known(n, view.now), pressure.waits(n), np.nan).astype(np.float64)
    heard = view.heard() <= _patience(view)
    states = np.where(heard, view.tracks.link[:n], np.int8(link.UNKNOWN)).astype(np.int8)
    return _Columns(states, waiting, recent(pressure.pausing), recent(pressure.arrivals, MARKS),
                    recent(pressure.arrivals, NOTICES), recent(pressure.missed))  # fmt: skip


def _patience(view: View) -> Floats:
    """Seconds without a frame of its node from which on the state of a port's link is not known any more."""
    return np.fmax(3.0 * view.period("state"), 30.0)


def _groups(view: View, domain: str, among: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    groups = view.group(domain)
    rows = np.flatnonzero(among & (groups >= 0))
    rows = rows[np.argsort(groups[rows], kind="stable")]
    if len(rows):
        parts = np.split(rows, np.flatnonzero(np.diff(groups[rows])) + 1)
        named = [(view.group_name(domain, int(groups[part[0]])), part) for part in parts]
        yield from sorted(named, key=lambda pair: pair[0])


def _condition(name: str, rows: NDArray[np.intp], of: _Columns) -> Condition:
    counts = dict.fromkeys(STATES, 0)
    for state, number in zip(*np.unique(of.link[rows], return_counts=True), strict=True):
        counts[_WORDS[int(state)]] += int(number)
    waiting, pausing = _known(of.waiting[rows]), _known(of.pausing[rows])
    return Condition(
        name, counts, _mean(waiting), _most(waiting), float((waiting >= PRESSED).sum()) if len(waiting) else np.nan,
        _mean(pausing), _most(pausing), *(_total(_known(column[rows])) for column in (of.marks, of.notices, of.missed)),
    )


def _known(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan


def _most(values: Floats) -> float:
    return float(values.max()) if len(values) else np.nan


def _total(values: Floats) -> float:
    return float(values.sum()) if len(values) else np.nan
