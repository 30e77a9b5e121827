"""What is usual in groups of ports, and whether few of a group are odd (docs/methods.md#peer-comparison). Pure.

`group`: int[k], the group of each port, ascending; `adapter`: int[k], those of an adapter side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.row_state import Bools, Floats, Numbers

ONE_NAME = 0.8
"""Share of the ports of a rail with one name from which the others are not of it (design choice): a map that files
more of them wrongly is no map."""
MINORITY = 0.1
"""Share of a group that may be low at once by one measure (design choice): more are another job's ports, no stragglers.
"""


def of_few(slow: Bools, group: Numbers, adapter: Numbers, every: bool = False) -> Bools:
    """Those of groups of which MINORITY of the adapters at most are; `every`: all rows of such groups."""
    at_work = adapters_of(np.ones(len(group), np.bool_), group, adapter)
    few = (adapters_of(slow, group, adapter) <= np.maximum(1.0, MINORITY * at_work))[group]
    return np.asarray(few if every else few & slow)


def adapters_of(shows: Bools, group: Numbers, adapter: Numbers) -> Numbers:
    """Of each group the number of adapters of which a port shows it; those of an adapter are side by side."""
    at = np.flatnonzero(shows)
    new = np.ones(len(at), np.bool_)
    new[1:] = (adapter[at[1:]] != adapter[at[:-1]]) | (group[at[1:]] != group[at[:-1]])
    return np.bincount(group[at[new]], minlength=int(group[-1]) + 1)


def middle_of(group: Numbers, value: Floats) -> tuple[Floats, Floats]:
    """Per row the median of its group, and 1.4826 times the median distance from it. `group` ascends."""
    count = np.bincount(group)
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    low, high = start + (count - 1) // 2, start + count // 2

    def median_of(values: Floats) -> Floats:
        # one sort for all groups: shares of time and of the line rate are far below the distance of 4
        ordered = np.sort(4.0 * group + np.minimum(values, 3.0)) - 4.0 * group
        filled = count > 0
        found = np.zeros(len(count))
        found[filled] = (ordered[low[filled]] + ordered[high[filled]]) / 2
        return np.asarray(found[group])

    median = median_of(value)
    return median, 1.4826 * median_of(np.abs(value - median))


def of_other_rails(group: NDArray[Any], name: NDArray[Any], node: NDArray[Any]) -> Bools:
    """Ports of a rail whose others nearly all have one other name, of hosts most of whose ports have the names of their
    rails: they are probably of another rail, and filed or plugged here wrongly."""
    _, of = np.unique(group, return_inverse=True)
    _, same, alike = np.unique(of * (int(name.max()) + 1) + name, return_inverse=True, return_counts=True)
    every, most = np.bincount(of), np.zeros(int(of.max()) + 1, np.int64)
    np.maximum.at(most, of, alike[same])
    strange = (alike[same] < most[of]) & (most[of] >= ONE_NAME * every[of])
    _, host = np.unique(node, return_inverse=True)
    return np.asarray(strange & (2 * np.bincount(host, strange)[host] < np.bincount(host)[host]))
