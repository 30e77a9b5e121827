"""How busy the links are: bytes of the last interval as a share of what the line could have carried. Pure, NumPy.

    ratio = bytes / seconds / line rate

by the node's clock and per direction. A port whose bytes, interval or rate is unknown, stale or of another epoch has
no ratio (NaN), never 0; a link that is down has no rate and so none either. A ratio is not cut at 1: a reading is dated
by the middle of its run, which moves a full line by a little.

Where the bytes of a port are counted: `traffic.SOURCES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.traffic import SOURCES
from fabricmon.fleet.view import View

__all__ = ["ADAPTERS", "SOURCES", "Share", "Utilisation", "utilisation"]

ADAPTERS = "adapter"
"""Name of the tier of hosts' own ports; those of cables between switches are named by their levels: "0-1"."""

Floats = NDArray[np.float64]


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
        """Per rail, by name. Hosts' own ports only: what a sweep tells of the far ends would count each cable twice."""
        return self._shares("rail", ~self._swept())

    def tiers(self) -> list[Share]:
        """Per tier: hosts' ports that are on a rail or leaf, then the ports of cables between levels of switches."""
        own = ~self._swept() & ((self.view.group("rail") >= 0) | (self.view.group("leaf") >= 0))
        adapters = [self._share(ADAPTERS, np.flatnonzero(own & self.view.present))] if own.any() else []
        return adapters + self._shares("tier", self._swept())

    def _swept(self) -> NDArray[np.bool_]:
        swept = np.zeros(self.view.n, np.bool_)
        if (domains := self.view.table.domains) is not None:
            known = domains.swept[: self.view.n]
            swept[: len(known)] = known
        return swept

    def _shares(self, domain: str, among: NDArray[np.bool_]) -> list[Share]:
        groups = self.view.group(domain)
        rows = np.flatnonzero(among & self.view.present & (groups >= 0))
        rows = rows[np.argsort(groups[rows], kind="stable")]
        found = [self._share(name, part) for name, part in self._split(domain, groups, rows)]
        return sorted(found, key=lambda share: share.name)

    def _split(
        self, domain: str, groups: NDArray[np.int32], rows: NDArray[np.intp]
    ) -> Iterator[tuple[str, NDArray[np.intp]]]:
        if not len(rows):
            return
        for part in np.split(rows, np.flatnonzero(np.diff(groups[rows])) + 1):
            yield self.view.group_name(domain, int(groups[part[0]])), part

    def _share(self, name: str, rows: NDArray[np.intp]) -> Share:
        receive, transmit, rate = self.receive[rows], self.transmit[rows], self.rate[rows]
        known = np.isfinite(receive) & np.isfinite(transmit)
        count, line = int(known.sum()), float(rate[known].sum())
        if not count:
            return Share(name, np.nan, np.nan, 0, len(rows))
        received, sent = (float((ratio * rate)[known].sum()) for ratio in (receive, transmit))
        return Share(name, received / line, sent / line, count, len(rows))


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
