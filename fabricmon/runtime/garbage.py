"""Garbage collection of a daemon with many long-lived objects.

A full collection walks every object that may be in a cycle: 0.6 s with the inventories of 10,000 nodes, in which
nothing is received and healthy nodes seem unreachable. Long-lived objects are therefore frozen, which excludes them
from collections. Reference counts still free them; only cycles among frozen objects would stay.
"""

from __future__ import annotations

import gc

GROWTH = 1.25
"""Freeze again at this growth of the number of nodes: at most 40 times up to 10,000 nodes."""


def settle() -> None:
    """Collect once, then freeze all objects. Call it at the end of the start."""
    gc.collect()
    gc.freeze()


class GarbageGrowth:
    """Freezes the objects of new nodes as their number grows, without a collection before, which would be the pause."""

    def __init__(self) -> None:
        self._frozen = 0

    def nodes(self, count: int) -> None:
        """Set the number of nodes. Call it every few seconds."""
        if count > self._frozen * GROWTH:
            gc.freeze()
            self._frozen = count
        elif count * GROWTH < self._frozen:
            self._frozen = count  # objects of removed nodes are freed; those of later nodes are new
