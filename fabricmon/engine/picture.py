"""The fabric as the engine sees it now: the plan it was given, and what its agents swept. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId
from fabricmon.topology import swept
from fabricmon.topology.graph import Graph


class Picture:
    """`graph` is the topology in force; None while there is neither a plan nor a sweep."""

    def __init__(self, plan: Graph | None) -> None:
        self.plan = plan
        self.graph = plan
        self._labels: list[Mapping[str, str]] = []

    def look(
        self, ids: Sequence[ComponentId], labels: Sequence[Mapping[str, str]], gone: NDArray[np.float64], now: float
    ) -> bool:
        """Take over what the PORT rows tell; whether the topology changed.

        gone  per row when it left its node's inventory, NaN for one that is there, or whose node began anew
        now   seconds since the Unix epoch
        """
        rows = [row for row, said in enumerate(labels) if "swept" in said and np.isnan(gone[row])]
        told = [labels[row] for row in rows]
        if len(told) == len(self._labels) and all(a is b for a, b in zip(told, self._labels, strict=True)):
            return False
        self._labels = told
        self.graph = swept.overlaid(self.plan, swept.graph_of((ids[row], labels[row]) for row in rows), now)
        return True
