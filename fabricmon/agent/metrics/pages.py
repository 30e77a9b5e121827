"""The /metrics pages of many simulated agents in one process: each as a real agent's, without what only one has of its
own (collectors, processor time)."""

from __future__ import annotations

import math

from fabricmon.agent.metrics.family_writer import FamilyWriter
from fabricmon.agent.metrics.hardware import MetricsPage
from fabricmon.model import Snapshot
from fabricmon.runtime.exposition import Format
from fabricmon.runtime.registry import build_info


class Pages:
    """Keeps the laid-out page of each node. Call it with the node's newest snapshot."""

    def __init__(self) -> None:
        self._pages: dict[str, MetricsPage] = {}
        self._own = FamilyWriter().pieces([build_info("agent")], Format.TEXT)

    def __call__(self, snapshot: Snapshot) -> bytes:
        node = snapshot.inventory.identity.node
        page = self._pages.get(node)
        if page is None or page.inventory is not snapshot.inventory:
            page = self._pages[node] = MetricsPage(snapshot.inventory)
        now = max((taken for taken in snapshot.taken if not math.isnan(taken)), default=0.0)
        return b"".join(page.render(snapshot, now, Format.TEXT) + self._own)
