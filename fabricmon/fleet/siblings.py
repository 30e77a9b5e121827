"""What each port carries as a share of what the other adapters of its host carry, at least. Pure, NumPy.

Method: docs/methods.md#peer-comparison. The adapters of a host work for the same jobs at the same moments, so this
share hardly changes with the job, its phases or the load.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.row_state import Bools, Floats, Numbers

ALIKE = 0.75
"""Share of the median of a host's other adapters that the least of them carries where they do the same work: a quarter
less counts as slow (docs/methods.md#peer-comparison)."""


class Siblings:
    """The ports that are compared, by host and adapter.

    rows     PORT rows
    node     per row of the table the number of its host, -1 none
    adapter  per row the number of its adapter, -1 unknown: the port is an adapter of its own
    """

    def __init__(self, rows: Numbers, node: NDArray[np.int32], adapter: NDArray[np.int32]) -> None:
        rows = rows[node[rows] >= 0]
        own = np.where(adapter[rows] >= 0, adapter[rows].astype(np.int64), int(adapter.max(initial=-1)) + 1 + rows)
        self._rows = rows
        self._node = np.full(len(node), -1, np.int64)
        self._adapter = np.full(len(node), -1, np.int64)
        self._node[rows] = np.unique(node[rows], return_inverse=True)[1]
        self._adapter[rows] = np.unique(own, return_inverse=True)[1]
        self._nodes = int(self._node.max(initial=-1)) + 1

    def of(self, rows: Numbers) -> Numbers:
        """All ports of the hosts of some rows."""
        wanted = np.zeros(self._nodes + 1, np.bool_)
        wanted[self._node[rows]] = True
        wanted[-1] = False
        return self._rows[wanted[self._node[self._rows]]]

    def shares(
        self, rows: Numbers, value: Floats, near: Numbers, carried: Floats, at_work: Bools
    ) -> tuple[Floats, Bools]:
        """Value of each row divided by the least that another adapter of its host carries on average of its ports, NaN
        without two others at work. The least, as one of them may have work of its own. And whether the others are
        alike: that least is no less than ALIKE of their median.

        near, carried, at_work  what `of` gave, the value of each and whether it counts
        """
        near, carried = near[at_work], carried[at_work]
        adapters, number, ports = np.unique(self._adapter[near], return_inverse=True, return_counts=True)
        mean = np.bincount(number, carried, len(adapters)) / ports
        host = np.zeros(len(adapters), np.int64)
        host[number] = self._node[near]
        order = np.lexsort((mean, host))
        first = np.searchsorted(host[order], np.arange(self._nodes + 1))  # of each host
        count = np.diff(np.append(first, len(order)))
        at, own = self._node[rows], self._adapter[rows]
        several = (at >= 0) & (count[at] > 2)
        found = np.full(len(rows), np.nan)
        least = order[first[at[several]]]
        least = np.where(adapters[least] == own[several], order[first[at[several]] + 1], least)
        middle = mean[order[first[at[several]] + (count[at[several]] + 1) // 2]]  # of the others, if it is the least
        alike = np.zeros(len(rows), np.bool_)
        found[several], alike[several] = value[several] / mean[least], mean[least] >= ALIKE * middle
        return found, alike
