"""A central server's streams and engine, as one process has them, and what it holds."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterable

from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.discovery import Target
from fabricmon.engine import Engine
from fabricmon.model import Kind
from fabricmon.rules.rule import Scope
from fabricmon.units import Duration

TICK = 0.2
QUICK = {"link_down": {"hold": "500ms", "clear": "500ms"}}  # so that what is measured is not mostly the rule's patience


class Server:
    """Follows agents and evaluates; `async with` runs it.

    details  node -> everything its presence said
    longest  seconds of the longest tick since it was set to 0
    """

    def __init__(self, log: io.StringIO | None = None) -> None:
        self._log = log or io.StringIO()
        self.engine = Engine(Scope.FLEET, params=QUICK)
        config = PullConfig(
            slow_after=Duration(1.5), lost_after=Duration(3), retry_min=Duration(0.05), retry_max=Duration(0.5),
            connect_timeout=Duration(1),
        )  # fmt: skip
        self.pull = Pull(config, self.engine, time.time)
        self.details: dict[str, set[str]] = {}
        self.longest = 0.0
        self._targets: dict[str, Target] = {}

    def follow(self, agents: Iterable[tuple[str, str]]) -> None:
        """(address, node) of all agents there are."""
        self._targets = {address: Target(address, {"node": node}) for address, node in agents}
        self.pull.follow(self._targets)

    async def __aenter__(self) -> Server:
        self._tasks = [asyncio.create_task(self.pull.run()), asyncio.create_task(self._tick())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tick(self) -> None:
        while True:
            begin = time.monotonic()
            self.pull.land()
            self.engine.tick(time.time())
            for node in self.engine.nodes():
                self.details.setdefault(node.node, set()).add(node.detail)
            self.longest = max(self.longest, time.monotonic() - begin)
            await asyncio.sleep(TICK)

    def live(self) -> set[str]:
        return {node.node for node in self.engine.nodes() if node.presence == "live"}

    def is_open(self, node: str) -> bool:
        """An incident over a link of the node is open."""
        return any(
            incident.status == "firing" and any(f"{node}/" in part for part in (incident.component, *incident.parts))
            for incident in self.engine.incidents()
        )

    def forget_words(self) -> None:
        """What presences and the log said until now does not count."""
        self.details.clear()
        self._log.seek(0)
        self._log.truncate()

    def named(self, words: str) -> set[str]:
        """Nodes whose presence said these words, or that a line of the log with them names."""
        told = [line for line in self._log.getvalue().splitlines() if words in line]
        return {
            node for node, details in self.details.items()
            if any(words in detail for detail in details) or any(f"node={node} " in f"{line} " for line in told)
        }  # fmt: skip

    def holds(self) -> dict[str, int]:
        """Numbers of what streams leave behind."""
        tables = self.engine.fleet.tables
        held = {f"{kind} rows": sum(bool(c.node) for c in tables[kind].ids) for kind in Kind}
        held |= {f"{kind} columns": len(tables[kind].columns) for kind in Kind}
        held |= {f"{kind} read times": len(tables[kind].by_supply) for kind in Kind}
        return held | {
            "nodes": len(self.engine.fleet.nodes),
            "events": len(self.engine._nodes.events),
            "GUIDs": len(self.pull.admission.claims._owner),
            "disputes": len(self.pull.admission.claims.disputed),
            "raw columns": self.pull.admission.columns.raw,
            "unknown columns": len(self.pull.admission.columns.unknown),
            "sweepers": len(self.pull.admission.sweepers),
            "peers": len(self.pull.register.peers),
        }
