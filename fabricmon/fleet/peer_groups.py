"""What is usual in groups of ports, and whether few of a group are odd (docs/methods.md#peer-comparison). Pure.

`group`: int[k], the group of each port, ascending; `adapter`: int[k], those of an adapter side by side.
"""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.row_state import Bools, Floats, Numbers

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
