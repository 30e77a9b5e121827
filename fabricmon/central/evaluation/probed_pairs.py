"""The pairs of leaves that probes show, made once a window at most, in a thread: sorting them is longer than a tick."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fabricmon.engine.engine import Engine
from fabricmon.fleet.leaf_pairs import LeafPairs, leaf_pairs, probed_flows
from fabricmon.model import Kind
from fabricmon.probe.windows import WINDOW


class ProbedPairs:
    """Used from the event loop only. Questions that come together have one answer."""

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._monotonic = engine, monotonic
        self._newest: asyncio.Future[LeafPairs] | None = None
        self._made = 0.0

    async def newest(self) -> LeafPairs:
        """Of the last ten seconds, at most WINDOW old."""
        now = self._monotonic()
        if self._newest is None or now - self._made >= WINDOW or (self._newest.done() and self._failed(self._newest)):
            tables = self._engine.fleet.tables
            flows = probed_flows(tables[Kind.FLOW], tables[Kind.PORT])
            self._newest, self._made = asyncio.ensure_future(asyncio.to_thread(leaf_pairs, flows)), now
        return await asyncio.shield(self._newest)

    @staticmethod
    def _failed(made: asyncio.Future[LeafPairs]) -> bool:
        return made.cancelled() or made.exception() is not None
