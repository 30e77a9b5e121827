"""One end of probes in the test VM: the agent's prober on one side of the soft-RoCE wire.

    python -m tests.vm.probe_end SIDE BACKEND

prints the offer of its port as a line, and takes assignments, a line each, from standard input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from fabricmon.agent.probing.prober import Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Reading, Snapshot
from fabricmon.probe.plan import OFFER


def end(side: int, backend: str, offered: Callable[[str], None]) -> Prober:
    labels = {"netdev": f"v{side}", "device": f"rxe{side}", "port": "1"}
    part = Part("infiniband_state", Kind.PORT, (), (Component(f"rxe{side}/1", labels),), 1.0)
    inventory = Inventory(1, Identity(f"n{side}", "b", "a", "1", 0.0), (part,))

    def sink(found: Reading) -> None:
        for row in (row for part in found.parts for row in part.components if OFFER in row.labels):
            offered(row.labels[OFFER])

    config = AgentProbeConfig(enabled=True, backend=backend)  # type: ignore[arg-type]
    return Prober(config, lambda: Snapshot(inventory, 0, 0.0, [], []), sink)  # type: ignore[arg-type]


async def main(side: int, backend: str) -> None:
    seen: set[str] = set()

    def offered(offer: str) -> None:
        if offer not in seen:
            seen.add(offer)
            print(offer, flush=True)

    async def unanswered(text: str) -> None:
        pass

    prober = end(side, backend, offered)
    running = asyncio.create_task(prober.run())
    await asyncio.gather(running, assigned(prober, unanswered))


async def assigned(prober: Prober, reply: Callable[[str], Awaitable[None]]) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        prober.take("test", line, reply)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
