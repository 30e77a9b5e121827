"""A frame's way: what an agent pays to make it, and the server to take it from a real WebSocket over loopback."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import sys
import time
from array import array

import aiohttp
from aiohttp import web

from fabricmon import frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from tests.rigs.served import serve

VALUES = 1_500
CHANGED = 0.4  # of the values between two reads of a busy node: its traffic counters
FRAMES = 20_000


def snapshot(seq: int = 1) -> Snapshot:
    """30 rows of 50 columns in three parts, as of a node of eight ports with all its collectors."""
    parts = tuple(
        Part(f"c{n}", Kind.PORT, tuple(f"column_{i}" for i in range(50)),
             tuple(Component(f"mlx5_{i}/1") for i in range(10)))
        for n in range(3)
    )
    values = array("d", (math.nan if n % 17 == 0 else float(n * 1000) for n in range(VALUES)))
    return Snapshot(Inventory(1, Identity("n", "b", "a", "0", 0.0), parts), seq, 1.8e9, [float(seq)] * 3, values)


def _each(function: object, times: int) -> float:
    """Median processor microseconds of one call."""
    samples = []
    for _ in range(times):
        start = time.process_time_ns()
        function()  # type: ignore[operator]
        samples.append((time.process_time_ns() - start) / 1e3)
    return statistics.median(samples)


def changed(s: Snapshot) -> Snapshot:
    """The next reading: every row's first columns moved."""
    new = Snapshot(s.inventory, s.seq + 1, s.wall + 1, [t + 1 for t in s.taken], s.values[:])
    for n in range(VALUES):
        if n % 50 < 50 * CHANGED:
            new.values[n] = float(n) + 0.5
    return new


async def _receive(full: bytes) -> float:
    """Processor microseconds per frame of a process that only receives and decodes; a child sends."""
    port_read, port_write = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio.set_event_loop(None)
        try:
            asyncio.run(_send(full, port_write))
        finally:
            os._exit(0)
    os.close(port_write)
    port = int(os.read(port_read, 16))
    os.close(port_read)
    last = None
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"http://127.0.0.1:{port}/", max_msg_size=0) as ws,
    ):
        await ws.receive()
        start, count = time.process_time_ns(), 0
        async for message in ws:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            last = frame.decode(message.data)
            count += 1
        spent = time.process_time_ns() - start
    os.waitpid(child, 0)
    if last is None or len(last.values) != VALUES:
        raise RuntimeError("the frames did not arrive")
    return spent / 1e3 / count


async def _send(full: bytes, port_write: int) -> None:
    done = asyncio.Event()

    async def stream(request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(compress=False, writer_limit=1)
        await ws.prepare(request)
        for n in range(FRAMES):
            await ws.send_bytes(full)
            if n % 20 == 0:
                await asyncio.sleep(0.002)  # frames come apart, not as one long read
        await ws.close()
        done.set()
        return ws

    app = web.Application()
    app.router.add_get("/", stream)
    served = await serve(app)
    os.write(port_write, str(served.port).encode())
    await done.wait()
    await asyncio.sleep(0.1)


def main() -> list[tuple[str, float, str]]:
    s = snapshot()
    new = changed(s)
    full, delta = frame.encode_full(s), frame.encode_delta(new, s.values, s.taken)
    received = asyncio.run(_receive(full))
    return [
        (f"server: receive and decode a frame of {VALUES} values over loopback", received, "us CPU (bar 60)"),
        ("  of this, decode", _each(lambda: frame.decode(full), 2000), "us CPU"),
        ("agent: encode a full frame", _each(lambda: frame.encode_full(s), 2000), "us CPU"),
        (f"agent: encode a difference of {CHANGED:.0%}", _each(lambda: frame.encode_delta(new, s.values, s.taken), 500),
         "us CPU"),
        ("agent: encode a heartbeat", _each(lambda: frame.encode_delta(s, s.values, s.taken), 2000), "us CPU"),
        ("full frame", float(len(full)), "bytes"),
        (f"difference of {CHANGED:.0%}", float(len(delta)), "bytes"),
    ]


if __name__ == "__main__":
    for what, value, unit in main():
        sys.stdout.write(f"{what:70} {value:10.2f} {unit}\n")
