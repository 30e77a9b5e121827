"""An agent's side of a stream, at the test's hand: it says what it is told to, right or wrong."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import math
import time
from array import array

from aiohttp import web

from fabricmon import frame
from fabricmon.central.streams.aiohttp_dialler import AiohttpDialler
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part, Snapshot
from tests.rigs.served import serve

DIALLERS = [AiohttpDialler]
if importlib.util.find_spec("picows"):  # not on every platform
    from fabricmon.central.streams.picows_dialler import PicowsDialler

    DIALLERS.append(PicowsDialler)

COLUMNS = ("state", "phys_state", "link_downed", "rate")
ACTIVE, LINK_UP, RATE = 4.0, 5.0, 50e9


def ports(number=8, period=0.2):
    """Ports of a node with the columns that link rules look at."""
    rows = tuple(
        Component(f"mlx5_{n}/1", {"device": f"mlx5_{n}", "port": "1", "link_layer": "InfiniBand", "role": "compute"})
        for n in range(number)
    )
    return Part("infiniband_state", Kind.PORT, COLUMNS, rows, period)


class FakeAgent:
    """One node's agent. `start` listens; change `values` and call `say` to send a frame.

    answer  None: the protocol; else an HTTP status, or a function (web socket) that misbehaves instead
    beat    seconds between frames sent without a change; 0: none
    """

    def __init__(self, node="host-1", agent="", started=1.0, beat=0.05, part=None):
        self.part = part or ports()
        self.identity = Identity(node, "boot-1", agent or f"agent-of-{node}", "0.1.0", started)
        self.inventory = Inventory(1, self.identity, (self.part,))
        self.values = array("d", [ACTIVE, LINK_UP, 0.0, RATE] * len(self.part.components))[: self.part.size]
        self.events = []
        self.asked = []
        self.answer = None
        self.beat = beat
        self.address = ""
        self._seq = 0
        self._sockets = {}
        self._served = None

    async def start(self, port=0, host="127.0.0.1"):
        app = web.Application()
        app.router.add_get("/stream", self._stream)
        self._served = await serve(app, host, port)
        self.port = self._served.port
        self.address = f"{host}:{self.port}"
        return self

    async def stop(self):
        """As a killed process: connections end without a word."""
        for transport in self._sockets.values():
            transport.abort()
        if self._served is not None:
            await self._served.stop()
            self._served = None

    @property
    def streams(self):
        return len(self._sockets)

    def snapshot(self):
        self._seq += 1
        return Snapshot(self.inventory, self._seq, time.time(), [time.monotonic()], self.values)

    async def say(self):
        """All values to every stream."""
        data = frame.encode_full(self.snapshot())
        for socket in list(self._sockets):
            await socket.send_bytes(data)

    async def tell(self, text, seq):
        event = Event(seq, time.time(), "link", "mlx5_0/1", text)
        self.events.append(event)
        for socket in list(self._sockets):
            await socket.send_str(frame.encode_event(event))

    async def send(self, data):
        """Raw bytes or text to every stream."""
        for socket in list(self._sockets):
            await (socket.send_bytes(data) if isinstance(data, bytes) else socket.send_str(data))

    async def down(self, row, seconds=0.0):
        """One port loses its link and has it back."""
        base = row * len(COLUMNS)
        self.values[base : base + 3] = array("d", [1.0, 2.0, self.values[base + 2] + 1])
        await self.say()
        await asyncio.sleep(seconds)
        self.values[base : base + 2] = array("d", [ACTIVE, LINK_UP])
        await self.say()

    async def _stream(self, request):
        self.asked.append(dict(request.query))
        if isinstance(self.answer, int):
            return web.Response(status=self.answer, text="no\n")
        socket = web.WebSocketResponse(compress=False, timeout=0.2)
        await socket.prepare(request)
        self._sockets[socket] = request.transport
        beating = asyncio.create_task(self._beat(socket))
        try:
            if self.answer is not None:
                await self.answer(socket)
            else:
                await socket.send_str(frame.encode_hello(self.inventory))
                await socket.send_bytes(frame.encode_full(self.snapshot()))
                after = int(request.query.get("after", 1 << 60))
                for event in self.events:
                    if event.seq > after:
                        await socket.send_str(frame.encode_event(event))
            async for _ in socket:
                pass
        finally:
            beating.cancel()
            self._sockets.pop(socket, None)
        return socket

    async def _beat(self, socket):
        with contextlib.suppress(ConnectionError, RuntimeError):
            while self.beat and self.answer is None:
                await asyncio.sleep(self.beat)
                if socket in self._sockets:
                    await socket.send_bytes(frame.encode_full(self.snapshot()))


class Sink:
    """An engine that only writes down what it is told."""

    def __init__(self):
        self.presences = {}
        self.said = []
        self.forgotten = []
        self.inventories = []
        self.frames = []
        self.beats = []
        self.events = []

    def presence(self, node, presence, detail, now):
        assert math.isfinite(now)
        self.presences[node] = (presence.value, detail)
        self.said.append((node, presence.value))

    def forget(self, node, now):
        self.forgotten.append(node)
        self.presences.pop(node, None)

    def inventory(self, node, inventory, now):
        self.inventories.append((node, inventory.identity.agent))

    def frame(self, node, frame, now):
        self.frames.append((node, frame))

    def heartbeats(self, nodes, inventories, taken, at):
        self.beats.extend(zip(nodes, at.tolist(), strict=True))

    def event(self, node, event, now):
        self.events.append((node, event.seq))


async def until(condition, patience=120.0):
    """Wait for it; TimeoutError where it does not come."""
    async with asyncio.timeout(patience):
        while not condition():
            await asyncio.sleep(0.01)
