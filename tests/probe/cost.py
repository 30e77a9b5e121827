"""Processor time of an agent's prober with 8 adapters at 10 probes a second each, which answers as many.

    python -m tests.probe.cost [SECONDS]

Two processes, each in a network namespace with eight addresses, probe each other over the kernel's bridge. Needs root.
On one machine a sender's kernel does the bridge's and the receiver's work within sendmsg: how much that is, is measured
beside, by sending at the same pace to the other namespace and to an interface that drops.
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
from fabricmon.agent.probing.udp import StampedSocket, UdpBackend
from fabricmon.model import Identity, Inventory, Snapshot
from fabricmon.probe.assignment import FASTEST, Assignment, PortProbes, ProbeTarget, encode
from fabricmon.probe.packet import SIZE
from tests.probe.lab import NONCE, Lab, ip, maker_of

ADAPTERS, FLOWS, BEGIN, BURSTS = 8, 8, 5.0, 50
PACKETS = 3  # that each side sends for a probe: a question, two answers


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


def _sending(lab: Lab, source: str, target: str) -> float:
    """Seconds of processor time of one question that is sent."""
    spent, ends = 0.0, [StampedSocket(source, 61_000 + n, 0, True, maker_of(lab.names[0])) for n in range(ADAPTERS)]
    for _ in range(BURSTS):
        time.sleep(0.1)
        for end in ends:
            begin = time.thread_time()
            end.send(bytes(SIZE), (target, 9795))
            spent += time.thread_time() - begin
            end.stamps()
    for end in ends:
        end.close()
    return spent / (BURSTS * ADAPTERS)


def _far_end(lab: Lab) -> float:
    """Seconds that the bridge and the receiver take of it."""
    inside = lab.names[0]
    ip("link", "add", "drops", "type", "bridge", namespace=inside)  # it has no ports
    ip("addr", "add", "10.99.0.1/24", "dev", "drops", namespace=inside)
    ip("link", "set", "drops", "up", namespace=inside)
    ip("neigh", "add", "10.99.0.2", "lladdr", "02:00:00:00:00:02", "dev", "drops", namespace=inside)
    there = StampedSocket(lab.addresses[1], 9795, 0, False, maker_of(lab.names[1]))
    found = _sending(lab, lab.addresses[0], lab.addresses[1]) - _sending(lab, "10.99.0.1", "10.99.0.2")
    there.close()
    return found


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder), 2, bridge=True) as lab:
        for side in (0, 1):
            for n in range(ADAPTERS):
                ip("addr", "add", f"10.77.{side + 1}.{n + 1}/16", "dev", "eth0", namespace=lab.names[side])
        far = 100 * _far_end(lab) * PACKETS * FASTEST * ADAPTERS
        child = os.fork()
        if not child:
            asyncio.run(_probe(lab, 1, seconds))
            os._exit(0)
        user, system, sent, answered = asyncio.run(_probe(lab, 0, seconds))
        os.waitpid(child, 0)
    print(f"{ADAPTERS} adapters, load {os.getloadavg()[0]:.0f}: {user + system:.2f} % of a core "
          f"({user:.2f} in the program, {system:.2f} in the kernel), {far:.2f} of it for the bridge and the far end, "
          f"{sent:.0f} probes a second sent in closed windows, {answered:.0f} answered")  # fmt: skip


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
