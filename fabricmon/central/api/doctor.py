"""GET /api/v1/doctor: the parts of the server, what is missing, and what to do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable

import msgspec
import numpy as np
from aiohttp import web

from fabricmon.central.api.answers import Handler, answer
from fabricmon.central.api.request import query
from fabricmon.central.documents.self_check import (
    ReceiverReading,
    ServerReadings,
    TargetReading,
    examine_server,
)
from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.evaluation.pace import LOAD, USUAL
from fabricmon.central.jobs.feed import JobFeed
from fabricmon.central.targets.discovery import Target, TargetDiscovery
from fabricmon.runtime.clock import Clock

DISK_LIMIT = 3.0  # seconds for the size of the file system, which a dead disk does not answer


def handler(
    evaluator: Evaluator, static: Callable[[], list[Target]], discovery: Callable[[], TargetDiscovery], jobs: JobFeed,
    clock: Clock, state: str, tick: Callable[[], float], warnings: Callable[[], list[str]],
) -> Handler:  # fmt: skip
    """The handler; a reload replaces what the functions return."""

    async def doctor(request: web.Request) -> web.Response:
        query(request)
        free = await _free(state)
        found = _readings(evaluator, static(), discovery(), jobs, clock.offset, (state, free), tick())
        return answer({"parts": msgspec.to_builtins(examine_server(found._replace(warnings=warnings())))})

    return doctor


async def _free(state: str) -> tuple[int, int] | None:
    """Free bytes and size of the file system; None where it cannot be read."""
    try:
        async with asyncio.timeout(DISK_LIMIT):
            usage = await asyncio.to_thread(shutil.disk_usage, state)
    except (OSError, TimeoutError):
        return None
    return usage.free, usage.total


def _readings(
    evaluator: Evaluator, static: list[Target], discovery: TargetDiscovery, jobs: JobFeed, offset: float,
    disk: tuple[str, tuple[int, int] | None], tick: float,
) -> ServerReadings:  # fmt: skip
    now, current = evaluator.now(), evaluator.current()
    given = [TargetReading("central.targets", len(static), "")] if static else []
    given += [TargetReading(name, len(state.targets), state.error) for name, state in discovery.states.items()]
    receivers = [
        ReceiverReading(name, d.depth, now - d.oldest if d.depth and d.oldest is not None else 0.0, d.attempts, d.error)
        for name, d in sorted(evaluator.outbox.deliveries().items())
    ]
    graph = evaluator.engine.topology()
    view = evaluator.engine.utilisation().view
    own = view.present & ~view.tracks.facts.swept[: view.n]
    placed = own & ((view.group("leaf") >= 0) | (view.group("rail") >= 0))
    return ServerReadings(
        targets=given,
        nodes={presence.value: n for presence, n in current.overview.nodes.items()},
        topology=f"{len(graph.switches)} switches, {len(graph.adapters)} adapters" if graph is not None else "",
        placed=(int(np.count_nonzero(own)), int(np.count_nonzero(placed))),
        receivers=receivers,
        jobs=[(s.source, s.error or ("" if s.fresh(now) else "no answer for too long")) for s in jobs.jobs()],
        clock=offset,
        store_error=evaluator.store_error,
        state=disk[0],
        free=disk[1],
        tick=(max(tick, USUAL * evaluator.ticks.last), evaluator.ticks.last, evaluator.ticks.longest),
        wait=LOAD * evaluator.ticks.last,
        warnings=(),
    )
