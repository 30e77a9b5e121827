"""One check of this host without a running agent: two reads and their evaluation."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from fabricmon.agent.node import LocalNode, identify
from fabricmon.agent.readings.report import Health
from fabricmon.collect import COLLECTORS
from fabricmon.host.protocol import Host
from fabricmon.units import Duration

APART = 1.5
"""Seconds between the two reads, enough for every collector at one read a second."""

LIMIT = 20.0
"""Seconds after which the check evaluates what was read so far, even if a read hangs."""

GRACE = 5.0
"""Further seconds after which it ends without a result, whatever hangs."""

CANCEL_LIMIT = 1.0
"""Seconds for which it waits for its reads to end."""


def check(config: Any, host: Host, collectors: Mapping[str, Any] | None = None, limit: float = LIMIT) -> Health:
    """As `check_once`, without an event loop of the caller. TimeoutError where it has no result in time.

    The loop runs in a daemon thread: neither a call that blocks it nor a task that does not end when it is cancelled
    can delay the end of the process.
    """
    results: queue.SimpleQueue[Health | BaseException] = queue.SimpleQueue()

    async def run() -> None:
        results.put(await check_once(config, host, collectors, limit=limit))

    def loop() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            results.put(error)

    threading.Thread(target=loop, name="check", daemon=True).start()
    try:
        found = results.get(timeout=limit + GRACE)
    except queue.Empty:
        raise TimeoutError(f"no result within {limit + GRACE:g} s") from None
    if isinstance(found, BaseException):
        raise found
    return found


async def check_once(
    config: Any, host: Host, collectors: Mapping[str, Any] | None = None, apart: float = APART, limit: float = LIMIT
) -> Health:
    """The health of `host` by two reads `apart` seconds apart: states, rates, rising counters, but no earlier flaps.
    `config` as for `fabricmon.agent.app.Agent`."""
    ends = asyncio.get_running_loop().time() + limit
    pace = Duration(min(1.0, apart / 2))
    quick = {name: msgspec.structs.replace(c, interval=pace) for name, c in config.collect.items()}
    for name, kind in (COLLECTORS if collectors is None else collectors).items():
        if kind.wide:
            quick[name] = msgspec.structs.replace(quick.get(name) or kind.config(), enabled=False)
    settings = SimpleNamespace(
        agent=msgspec.structs.replace(config.agent, evaluate=True), collect=quick, rules=config.rules
    )
    identity = await identify(host, config.agent.node or host.name)
    node = LocalNode(settings, host, identity, collectors, at_once=True)
    reads = asyncio.create_task(node.schedule.run())
    try:
        async with asyncio.timeout_at(ends):
            await node.schedule.board.first_round.wait()
            node.tick()
            started = time.monotonic()
            while time.monotonic() - started < apart:
                await asyncio.sleep(min(0.25, apart / 4))
                node.tick()
    except TimeoutError:
        node.tick()
    health = node.health()
    reads.cancel()
    await asyncio.wait({reads}, timeout=CANCEL_LIMIT)
    return health
