"""Known nodes and their location in the topology, while the server runs."""

from __future__ import annotations

import asyncio
from functools import partial

from fabricmon.central.parts import CentralParts
from fabricmon.central.store.database import StoreError
from fabricmon.central.topology_plan import TopologyPlan, with_places
from fabricmon.runtime.garbage import GarbageGrowth
from fabricmon.runtime.reader import Overdue, Reader

SAVE_PERIOD = 5.0  # seconds between two checks for new or moved nodes
MERGE_LIMIT = 60.0  # seconds for the topology with the labels of the nodes


class NodePlaces:
    """Saves which nodes are known, and follows their location in the topology."""

    def __init__(self, parts: CentralParts) -> None:
        self._parts = parts

    async def remember(self) -> None:
        """Save known nodes in the store; waits for a disk that hangs."""
        while True:
            await asyncio.sleep(SAVE_PERIOD)
            await self._save(self._parts.clock.now())

    async def follow(self) -> None:
        """Follow the number of nodes, and their location in the topology."""
        garbage = GarbageGrowth()
        while True:
            await asyncio.sleep(SAVE_PERIOD)
            garbage.nodes(sum(peer.begun for peer in self._parts.pull.register.peers.values()))
            await self._update(self._parts.clock.now())

    async def _save(self, now: float) -> None:
        try:
            await self._parts.seen_nodes.save(self._parts.pull.register.peers.values(), now)
            self._parts.transitions.note("memory", "saved", "known nodes are saved again", bad=False)
        except StoreError as error:
            self._parts.transitions.note("memory", "failing", "known nodes cannot be saved", bad=True, error=str(error))

    async def _update(self, now: float) -> None:
        places, plan = self._parts.placement(self._parts.prepared.config), await self._newest_plan()
        if places != self._parts.places or plan is not self._parts.prepared.plan:
            self._parts.places, self._parts.prepared = places, self._parts.prepared._replace(plan=plan)
            self._parts.engine.reconfigure(self._parts.prepared.config.rules, with_places(plan.graph, places), now)

    async def _newest_plan(self) -> TopologyPlan:
        """The plan with the current labels of the Kubernetes nodes; the same object where nothing changed."""
        plan = self._parts.prepared.plan
        nodes = self._parts.kubernetes.placement() if self._parts.kubernetes is not None else None
        if nodes is plan.nodes:
            return plan
        reader = Reader("plan")
        try:
            merged = await reader.call(partial(plan.with_nodes, nodes), MERGE_LIMIT)
        except Overdue:
            return plan
        finally:
            reader.close()
        return merged if self._parts.prepared.plan is plan else self._parts.prepared.plan  # a reload happened meanwhile
