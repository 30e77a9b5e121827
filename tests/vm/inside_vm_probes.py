"""Runs inside the test VM: probes by UDP and by queue pairs over the soft-RoCE wire, with faults of wire and peer.

Two processes, one on each side; what each fault did to the windows is written into /out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fabricmon.probe.assignment import Assignment, PortProbes, ProbeTarget, decode_reply, encode
from fabricmon.probe.plan import OFFER, offered
from fabricmon.probe.windows import WATERMARK, WINDOW
from tests.vm.guest import OUT, PATIENCE, say, sh
from tests.vm.probe_end import end

NONCE, DSCP, FLOWS = "ab" * 16, 26, 4
PHASES = {"quiet": 1, "delay": 1, "long": 1, "loss": 6, "frozen": 1, "killed": 1}  # windows
NETEM = {"delay": "delay 1ms", "long": "delay 100ms", "loss": "loss 1%"}


def text(version: int, *ports: PortProbes) -> str:
    return encode(Assignment(version, 280.0, NONCE, dscp=DSCP, ports=ports, reply=True))


async def phase(prober: Any, name: str, target: Any, version: int) -> dict[str, Any]:
    """One assignment of its own; what its windows say."""
    replies: list[str] = []

    async def take(reply: str) -> None:
        replies.append(reply)

    if name in NETEM:
        sh(f"tc qdisc add dev v0 root netem {NETEM[name]}")
    sources = range(61_000 + FLOWS * version, 61_000 + FLOWS * (version + 1))
    flows = tuple(ProbeTarget("n1/rxe1/1", target.address, target.port, source) for source in sources)
    owner = object()
    prober.take(owner, text(version, PortProbes("rxe0/1", flows)), take)
    await asyncio.sleep(PHASES[name] * WINDOW + WATERMARK + 1)
    prober.leave(owner)
    if name in NETEM:
        sh("tc qdisc del dev v0 root")
    found = [one for reply in replies for one in decode_reply(reply).results]
    rtts = sorted(one.rtt[0] for one in found if one.rtt[0] is not None)
    return {
        "windows": len(replies), "void": sum(bool(one.void) for one in found), "sent": sum(one.sent for one in found),
        "lost": sum(one.lost for one in found), "late": sum(one.late for one in found),
        "rtt_ms": rtts[len(rtts) // 2] * 1e3 if rtts else None, "clock": sorted({one.clock for one in found}),
        "dscp": sorted({one.dscp for one in found if one.dscp is not None}), "packet": found[0].packet if found else 0,
        "own_ms": max((1e3 * one.own for one in found if one.own is not None), default=None),
    }  # fmt: skip


async def measured(backend: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.vm.probe_end", "1", backend]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert peer.stdin is not None
    assert peer.stdout is not None
    own: list[str] = []
    prober = end(0, backend, own.append)
    running = asyncio.create_task(prober.run())
    try:
        target = offered({OFFER: (await asyncio.to_thread(peer.stdout.readline)).strip()})
        begin = time.monotonic()
        while not own and time.monotonic() - begin < PATIENCE:
            await asyncio.sleep(0.1)
        mine = offered({OFFER: own[-1]})
        assert mine is not None
        peer.stdin.write(text(1, PortProbes("rxe1/1", (), (mine.address,))) + "\n")
        peer.stdin.flush()
        found: dict[str, Any] = {"offers": [str(mine), str(target)]}
        for version, name in enumerate(PHASES):
            if name == "frozen":
                peer.send_signal(signal.SIGSTOP)
            if name == "killed":
                peer.send_signal(signal.SIGCONT)
                peer.kill()
                peer.wait()
            found[name] = await phase(prober, name, target, version)
            say(f"{backend}, {name}: {found[name]}")
        return found
    finally:
        peer.kill()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def main() -> None:
    if not Path("/sys/class/infiniband/rxe0").exists():
        sh("rxe-pair up")
    sh("rxe-pair routes")
    facts = {"kernel": os.uname().release}
    facts |= {backend: asyncio.run(measured(backend)) for backend in sys.argv[1:] or ("udp", "verbs")}
    (OUT / "facts-probes.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
