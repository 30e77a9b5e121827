"""Processor time of an agent's prober with 8 adapters at 10 probes a second each, which answers as many.

    python -m tests.probe.cost [SECONDS]

Two processes, each in a network namespace with eight addresses, probe each other over the kernel's bridge. Needs root.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from fabricmon.agent.probing.prober import Prober
from fabricmon.agent.probing.settings import AgentProbeConfig
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.model import Identity, Inventory, Snapshot
from fabricmon.probe.assignment import Assignment, PortProbes, ProbeTarget, encode
from tests.probe.lab import NONCE, Lab, ip, maker_of

ADAPTERS, FLOWS, BEGIN = 8, 8, 5.0


async def _probe(lab: Lab, side: int, seconds: float) -> tuple[float, float, float, float]:
    """Percent of a core in the program and in the kernel, probes a second sent and answered."""
    mine, peers = ([f"10.77.{host + 1}.{n + 1}" for n in range(ADAPTERS)] for host in (side, 1 - side))
    nothing = Snapshot(Inventory(1, Identity(f"n{side}", "b", "a", "1", 0.0), ()), 0, 0.0, [], [])
    rows = {f"mlx5_{n}/1": address for n, address in enumerate(mine)}
    counted: list[list[float]] = []
    prober = Prober(
        AgentProbeConfig(enabled=True), lambda: nothing, lambda found: counted.append(list(found.values)),
        time.monotonic, UdpBackend(9795, lambda _: rows, maker_of(lab.names[side])),
    )  # fmt: skip
    running = asyncio.create_task(prober.run())
    await asyncio.sleep(0)
    ports = tuple(
        PortProbes(row, tuple(ProbeTarget(f"n{1 - side}/{n}", peers[(at + n) % ADAPTERS], 9795, 61_000 + n)
                              for n in range(FLOWS)), tuple(peers))
        for at, row in enumerate(rows)
    )  # fmt: skip

    async def unanswered(text: str) -> None:
        pass

    prober.take("server", encode(Assignment(1, 300.0, NONCE, ports=ports)), unanswered)
    await asyncio.sleep(BEGIN)
    begin = os.times()
    await asyncio.sleep(seconds)
    end = os.times()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    sent, answered = (sum(counted[-1][of : 5 * ADAPTERS : 5]) for of in (0, 2))
    user, system = (100 * (after - before) / seconds for before, after in zip(begin[:2], end[:2], strict=True))
    return user, system, sent / seconds, answered / (seconds + BEGIN)


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder), 2, bridge=True) as lab:
        for side in (0, 1):
            for n in range(ADAPTERS):
                ip("addr", "add", f"10.77.{side + 1}.{n + 1}/16", "dev", "eth0", namespace=lab.names[side])
        child = os.fork()
        if not child:
            asyncio.run(_probe(lab, 1, seconds))
            os._exit(0)
        user, system, sent, answered = asyncio.run(_probe(lab, 0, seconds))
        os.waitpid(child, 0)
    print(f"{ADAPTERS} adapters, load {os.getloadavg()[0]:.0f}: {user + system:.2f} % of a core "
          f"({user:.2f} in the program, {system:.2f} in the kernel, with the way to the far end's socket), "
          f"{sent:.0f} probes a second sent in closed windows, {answered:.0f} answered")  # fmt: skip


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
