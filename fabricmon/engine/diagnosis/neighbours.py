"""What began at one moment in two places, by the order of the hosts' names (docs/methods.md#neighbours-by-name). Pure.

Hosts are numbered as they stand, so what fails in one place is a run of that order, broken or whole. Where two runs far
from each other explain what began better than one that has both and all hosts in between, they are two causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

import numpy as np

from fabricmon.engine.diagnosis.beginnings import Beginning
from fabricmon.engine.diagnosis.coincidence import UNLIKELY
from fabricmon.engine.diagnosis.partial import log_marginal
from fabricmon.engine.domains.groups import Floats, Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind

Cost = Callable[[Sequence[Beginning]], float]
"""Nats that another cause of some beginnings at this moment costs, wherever it is."""
MOST = 64  # runs that are compared: the time that it takes grows with their square


def by_place(units: Sequence[Beginning], domains: RowDomains, table: Kind, cost: Cost) -> list[list[Beginning]]:
    """The units in lists that may each have one cause. Those of which no host is known, as of cables between switches,
    are in the first list, which is the largest; whole leaves are never apart from each other, as switches stand
    elsewhere than their hosts."""
    for at, owner, hosts in _orders(units, domains, table):
        runs = _HostRuns(at, owner, len(units), hosts)
        parts = runs.apart([cost([unit]) for unit in units], cost(units), log(hosts))
        if parts is not None:
            return _ordered([[units[number] for number in part] for part in parts], units)
    return [list(units)]


def run_of(units: Sequence[Beginning], domains: RowDomains, table: Kind) -> HostRun | None:
    """The shortest run that has the hosts of all units; None where the place of one is not known."""
    runs = [
        HostRun(len(np.unique(at)), int(at.max() - at.min()) + 1, hosts)
        for at, owner, hosts in _orders(units, domains, table) if len(np.unique(owner)) == len(units)
    ]  # fmt: skip
    return min(runs, key=lambda run: run.within / run.of, default=None)


def side_by_side(units: Sequence[Beginning], domains: RowDomains, table: Kind) -> list[list[Beginning]]:
    """Units whose hosts are next to each other, by the first order that has such, where others are elsewhere."""
    for at, owner, hosts in _orders(units, domains, table):
        runs = [run for run in _HostRuns(at, owner, len(units), hosts).touching() if 1 < len(run) < len(units)]
        if runs:
            return [[units[number] for number in run] for run in runs]
    return []


class HostRun(NamedTuple):
    """A run in an order of the hosts: how many of it show something, its length, and how many hosts there are."""

    shown: int
    within: int
    of: int

    @property
    def share(self) -> float:
        """Chance that another host is so near to one of them, on either side."""
        return min(1.0, 2 * self.within / self.of)

    @property
    def whole(self) -> bool:
        return self.shown == self.within > 1


def _orders(units: Sequence[Beginning], domains: RowDomains, table: Kind) -> Iterator[tuple[Ints, Ints, int]]:
    """Places of the hosts of units and the number of the unit of each, and the number of all hosts, by each order."""
    row = np.array([row for unit in units for row in unit.rows], np.int64)
    owner = np.repeat(np.arange(len(units)), [len(unit.rows) for unit in units])
    host = domains.by_table[table].ids["host"][row]
    for order in domains.orders_of_hosts():
        known = order[host] >= 0
        if known.sum() > 1:
            yield order[host][known], owner[known], int(order.max()) + 1


def _ordered(parts: list[list[Beginning]], units: Sequence[Beginning]) -> list[list[Beginning]]:
    """The parts, the largest first, whole leaves in one, with the units that are in none."""
    leaves = [unit for part in parts if _are_leaves(part) for unit in part]
    found = [part for part in parts if not _are_leaves(part)] + ([leaves] if leaves else [])
    found.sort(key=lambda part: -sum(len(unit.rows) for unit in part))
    placed = {id(unit) for part in parts for unit in part}
    return [[*found[0], *(unit for unit in units if id(unit) not in placed)], *found[1:]]


def _are_leaves(units: Sequence[Beginning]) -> bool:
    return all(unit.leaves and not unit.partly for unit in units)


class _HostRuns:
    """The runs of hosts that units have, in the order of the hosts; units whose runs touch are in one.

    at     int[n], positions of hosts; owner: the unit of each, of so many; hosts: that there are
    """

    def __init__(self, at: Ints, owner: Ints, number: int, hosts: int) -> None:
        self._all = hosts
        low, high = np.full(number, np.iinfo(np.int64).max), np.full(number, -1)
        np.minimum.at(low, owner, at)
        np.maximum.at(high, owner, at)
        units = np.unique(owner)
        self._units = units[np.argsort(low[units], kind="stable")]
        ends = np.maximum.accumulate(high[self._units])
        first = np.append(True, low[self._units][1:] > ends[:-1] + 1)
        self._start = np.append(np.flatnonzero(first), len(self._units))  # of each run, among the units
        self._low, self._high = low[self._units][first], ends[self._start[1:] - 1]
        each = np.unique(at)
        self._before = np.append(np.searchsorted(each, self._low), len(each))  # hosts of earlier runs

    def touching(self) -> list[list[int]]:
        """Numbers of the units of each run."""
        return [self._units[begin:end].tolist() for begin, end in pairwise(self._start.tolist())]

    def apart(self, single: Sequence[float], several: float, anywhere: float) -> list[list[int]] | None:
        """Numbers of units that are one cause each: the division of the runs that is likeliest; None where their hosts
        do not follow this order. single: cost of each unit as a cause; several: of some; anywhere: of its place."""
        number = len(self._low)
        if number > MOST:
            return None
        alone = np.array([several] * number)
        for run in np.flatnonzero(np.diff(self._start) == 1).tolist():
            alone[run] = min(several, single[int(self._units[self._start[run]])])
        best, cut = np.zeros(number + 1), np.zeros(number + 1, np.int64)
        for end in range(1, number + 1):
            begin = np.arange(end)
            cost = np.full(end, several)
            cost[-1] = alone[end - 1]
            price = best[:end] + cost + anywhere - self._marginal(begin, np.full(end, end))
            cut[end] = int(np.argmin(price))
            best[end] = price[cut[end]]
        found, end = list[tuple[int, int]](), number
        while end:
            found.append((int(cut[end]), end))
            end = int(cut[end])
        if not any(self._is_run(*part) for part in found):
            return None
        first = max(alone[begin] if end - begin == 1 else several for begin, end in found)  # one is there in any case
        if best[number] - first >= anywhere - self._marginal(np.array([0]), np.array([number]))[0]:
            found = [(0, number)]
        return [self._units[self._start[begin] : self._start[end]].tolist() for begin, end in found]

    def _is_run(self, begin: int, end: int) -> bool:
        """Whether that the hosts of some runs are so near to each other is no chance."""
        shown, within = self._before[end] - self._before[begin], self._high[end - 1] - self._low[begin] + 1
        return bool(shown * (within / self._all) ** (shown - 1) < UNLIKELY)

    def _marginal(self, begin: Ints, end: Ints) -> Floats:
        """That of the hosts between the ends of some runs exactly these show it (docs/methods.md#partial-modes)."""
        return log_marginal(self._before[end] - self._before[begin], self._high[end - 1] - self._low[begin] + 1)
