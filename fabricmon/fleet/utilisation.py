"""Utilisation of the links: bytes of the last interval as a share of the line rate. Pure, NumPy.

    ratio = bytes / seconds / line rate

by the node's clock and per direction. A port whose bytes, interval or rate is unknown, stale or of another epoch has
no ratio (NaN), never 0; a link that is down has no rate. A ratio is not cut at 1: a reading is dated by the middle of
its run, which moves a full line by a little. Where the bytes of a port are counted: `traffic.SOURCES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.traffic import SOURCES
from fabricmon.fleet import port_groups
from fabricmon.fleet.port_groups import Group, GroupSums
from fabricmon.fleet.row_state import Floats
from fabricmon.fleet.view import View

__all__ = ["SOURCES", "Share", "Utilisation", "utilisation"]


class Share(NamedTuple):
    """Utilisation of a group of ports: bytes of all over line rates of all.

    receive, transmit  0..1, NaN where no port of the group has one
    known, of          ports that the ratios are of, and all ports of the group
    """

    name: str
    receive: float
    transmit: float
    known: int
    of: int


@dataclass(slots=True, frozen=True)
class Utilisation:
    """All PORT rows at one moment, in row order.

    receive, transmit  share of the line rate, NaN unknown
    rate               line rate in bytes per second, NaN unknown or stale
    source             index in SOURCES of where the bytes are counted, -1 nowhere
    """

    view: View
    receive: Floats
    transmit: Floats
    rate: Floats
    source: NDArray[np.int8]

    def rails(self) -> list[Share]:
        """Per rail, by name."""
        return self._shares(port_groups.rails(self.view))

    def tiers(self) -> list[Share]:
        """Per tier, that of hosts' own ports first."""
        return self._shares(port_groups.tiers(self.view))

    def _shares(self, groups: Sequence[Group]) -> list[Share]:
        if not groups:
            return []
        sums, known = GroupSums(groups), np.isfinite(self.receive) & np.isfinite(self.transmit)
        line = sums.known(np.where(known, self.rate, np.nan))
        receive, transmit = (
            (sums.known(np.where(known, ratio * self.rate, np.nan)) / line).tolist()
            for ratio in (self.receive, self.transmit)
        )
        counts = sums.total(known).astype(np.int64).tolist()
        names = [name for name, _ in groups]
        return [Share(*each) for each in zip(names, receive, transmit, counts, sums.sizes, strict=True)]


def utilisation(view: View) -> Utilisation:
    """Of every row of a PORT view."""
    rate = _line_rate(view)
    receive, transmit = np.full(view.n, np.nan), np.full(view.n, np.nan)
    source = np.full(view.n, -1, np.int8)
    for number, (_, received, sent) in enumerate(SOURCES):
        both = _per_second(view, received), _per_second(view, sent)
        here = (source < 0) & np.isfinite(both[0]) & np.isfinite(both[1])
        source[here] = number
        receive[here], transmit[here] = both[0][here] / rate[here], both[1][here] / rate[here]
    return Utilisation(view, receive, transmit, rate, source)


def _per_second(view: View, column: str) -> Floats:
    """Bytes per second over the last interval, NaN where no rate may be formed or the last read is old."""
    if view.table.counted(column) is None:
        return np.full(view.n, np.nan)
    seconds = view.dt(column)
    known = view.fresh(column) & view.present & (seconds > 0)
    return np.divide(view.delta(column), seconds, out=np.full(view.n, np.nan), where=known)


def _line_rate(view: View) -> Floats:
    """Bytes per second that the line carries: of the RDMA port, else of the interface."""
    rate = np.full(view.n, np.nan)
    for column in ("netdev_rate", "rate"):
        value = view.value(column)
        here = (value > 0) & view.fresh(column)
        rate[here] = value[here]
    return rate
