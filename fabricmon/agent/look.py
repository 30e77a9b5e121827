"""One look at this host without a running agent: read twice, judge what that shows, done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec

from fabricmon.agent.node import Node, identify
from fabricmon.agent.report import Health
from fabricmon.collect import COLLECTORS
from fabricmon.host.protocol import Host
from fabricmon.units import Duration

APART = 1.5
"""Seconds between the two reads: long enough that every collector, at one read a second, read anew."""

LIMIT = 20.0
"""Seconds after which the look ends with what it has, whatever still hangs."""


async def look(config: Any, host: Host, collectors: Mapping[str, Any] | None = None, apart: float = APART) -> Health:
    """The health of `host` as far as two reads `apart` seconds apart can tell: states, rates, moving counters; no
    history, so no flaps of the past. `config` as for `fabricmon.agent.app.Agent`."""
    pace = Duration(min(1.0, apart / 2))
    quick = {name: msgspec.structs.replace(c, interval=pace) for name, c in config.collect.items()}
    for name, module in (COLLECTORS if collectors is None else collectors).items():
        if getattr(module, "WIDE", False):  # it reads more than this node
            quick[name] = msgspec.structs.replace(quick.get(name) or module.Config(), enabled=False)
    settings = SimpleNamespace(
        agent=msgspec.structs.replace(config.agent, judge=True), collect=quick, rules=config.rules
    )
    identity = await identify(host, config.agent.node or host.name)
    node = Node(settings, host, identity, collectors, at_once=True)
    reads = asyncio.create_task(node.schedule.run())
    try:
        async with asyncio.timeout(LIMIT):
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
    await asyncio.gather(reads, return_exceptions=True)
    return health
