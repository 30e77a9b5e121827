"""The agent's HTTP application: /, /metrics, /stream, /health and the probes."""

from __future__ import annotations

import asyncio
import contextlib
import html
import math
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from prometheus_client import CollectorRegistry, Counter, Gauge

from fabricmon import __version__, frame
from fabricmon.agent.metrics.family_writer import FamilyWriter
from fabricmon.agent.metrics.hardware import HardwareMetrics
from fabricmon.agent.readings.report import Health
from fabricmon.agent.readings.state import NodeState
from fabricmon.model import Inventory
from fabricmon.probe.assignment import MAX_TEXT
from fabricmon.runtime import logs
from fabricmon.runtime.alarm import Alarm
from fabricmon.runtime.door import peer_of
from fabricmon.runtime.exposition import END, Format
from fabricmon.runtime.http import add_probes, metrics_answer
from fabricmon.runtime.packing import Packer

HEARTBEAT, EARLY = 1.0, 0.1
"""Seconds between two frames of a stream while readings come each second: a frame follows a reading, up to EARLY
before. A timer of its own would be one more wake-up of the process a second, and values would wait for it."""

LATEST = 1.25
"""Seconds between two frames of a stream where no reading comes."""

SPACING = 0.1
"""Seconds between two frames of a stream after urgent changes, at least."""

FIRST_WAIT = 2.0
"""Seconds a stream waits for the first round of readings, so that it starts with all devices; one that hangs is in a
later inventory."""

SEND_LIMIT = 30.0
"""Seconds a reader of the stream may leave its socket full before it is disconnected."""

MAX_CONTROL, CONTROL_WINDOW = 100, 10.0
"""Pings and pongs of one reader in so many seconds; a healthy one sends one pong for each ping."""

PING = 10.0
"""Seconds between pings; a peer that vanished is noticed within half of that after one."""


@dataclass(eq=False, slots=True)
class _Stream:
    """A reader of the stream. `next`: wakes the sender; `beat_at`: from when on a reading does, by the loop's clock."""

    ws: web.WebSocketResponse
    peer: str
    next: Alarm
    beat_at: float = math.inf


class Assignments(Protocol):
    """What takes the texts that readers of the stream send."""

    def take(self, owner: object, text: str, reply: Callable[[str], Awaitable[None]]) -> None:
        """ValueError ends the stream."""

    def leave(self, owner: object) -> None:
        """The reader is gone; what it assigned ends by itself."""


class AgentApi:
    """Serves the state of one node. `registry` has the metrics of its collectors and of the process;
    `health`, `monotonic` answer for the rest of the agent; `assignments` takes what is to be probed, None: nothing."""

    def __init__(
        self,
        state: NodeState,
        max_streams: int,
        monotonic: Callable[[], float],
        registry: CollectorRegistry,
        health: Callable[[], Health],
        started: asyncio.Event,
        ready: Callable[[], str | None],
        live: Callable[[], str | None],
        assignments: Assignments | None = None,
    ) -> None:
        self._state, self._max_streams = state, max_streams
        self._assignments, self._most = assignments, 1024 if assignments is None else MAX_TEXT
        self._registry, self._health, self._started = registry, health, started
        self._streams: list[_Stream] = []
        self._log = logs.get()
        self._hardware, self._writer = HardwareMetrics(lambda: state.snapshot, monotonic), FamilyWriter()
        self._pack = Packer()
        self._refused = Counter("fabricmon_streams_refused", "Streams refused because of the limit on streams",
                                registry=registry)  # fmt: skip
        Gauge("fabricmon_streams", "Open streams to servers and other readers",
              registry=registry).set_function(lambda: len(self._streams))  # fmt: skip
        Gauge("fabricmon_inventory_id", "Increases with each change of the devices and settings of this node",
              registry=registry).set_function(lambda: state.snapshot.inventory.id)  # fmt: skip
        self.app = web.Application(client_max_size=1024)  # no request has a body
        self.app.router.add_get("/", self._landing)
        self.app.router.add_get("/metrics", self._metrics)
        self.app.router.add_get("/health", self._get_health)
        self.app.router.add_get("/stream", self._stream)
        self.app.on_shutdown.append(self._goodbye)
        add_probes(self.app, live, ready)

    def wake(self, at_once: bool = True) -> None:
        """After a reading: send the next frame of each stream, at once or where its heartbeat is due."""
        for stream in self._streams:
            if at_once or asyncio.get_running_loop().time() >= stream.beat_at:
                stream.next.set()

    # --- pages

    async def _landing(self, _request: web.Request) -> web.Response:
        node = html.escape(self._state.inventory.identity.node)
        body = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>fabricmon agent on {node}</title>"
            f"<h1>fabricmon agent {__version__} on {node}</h1><ul>"
            "<li><a href=metrics>metrics</a> for Prometheus</li>"
            "<li><a href=health>health</a> of this node's fabric, as <code>fabricmon check</code> shows it</li>"
            "<li><a href=-/ready>ready</a>, <a href=-/live>live</a></li></ul></html>"
        )
        return web.Response(text=body, content_type="text/html")

    async def _metrics(self, request: web.Request) -> web.Response:
        return metrics_answer(request, self.metrics, self._pack)

    def metrics(self, format: Format) -> list[bytes]:
        """The uncompressed page in pieces: hardware, collectors, process."""
        own = self._writer.pieces(self._registry.collect(), format)
        return [*self._hardware.pieces(format), *own, END[format]]

    async def _get_health(self, _request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._health()), content_type="application/json")

    # --- streams

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        after = request.query.get("after", "")
        if after and not (after.isascii() and after.isdigit() and len(after) < 20):
            return web.Response(status=400, text="after: expected the number of the last event seen\n")
        peer = peer_of((request.remote or "",))
        share = max(2, self._max_streams // 2)  # of one peer, so that none can take all streams
        if len(self._streams) >= self._max_streams or sum(s.peer == peer for s in self._streams) >= share:
            self._refused.inc()
            return web.Response(status=503, text=f"{self._max_streams} streams are open, or {share} of this peer\n",
                                headers={"Retry-After": "10"})
        # writer_limit 1: waits for a free socket after each message, so that a slow reader gets the newest difference
        # instead of a queue of old ones
        ws = web.WebSocketResponse(
            heartbeat=PING, autoping=False, compress=False, max_msg_size=self._most, writer_limit=1, timeout=1.0
        )
        if not ws.can_prepare(request).ok:
            return web.Response(status=426, text="/stream is a WebSocket\n", headers={"Upgrade": "websocket"})
        stream = _Stream(ws, peer, Alarm())
        self._streams.append(stream)
        try:
            await ws.prepare(request)
            if request.transport is not None:
                request.transport.set_write_buffer_limits(high=1)  # TLS takes 0 for "full even when empty"
            both = {
                asyncio.create_task(self._read(ws)),
                asyncio.create_task(self._send(stream, int(after) if after else None)),
            }
            try:
                done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
            for task in done:
                if (error := task.exception()) and not isinstance(error, ConnectionError | TimeoutError):
                    self._log.error("stream ended by a defect", exc_info=error)
                    await ws.close(code=WSCloseCode.INTERNAL_ERROR)
        finally:
            self._forget(stream)
        return ws

    def _forget(self, stream: _Stream) -> None:
        self._streams.remove(stream)
        if self._assignments is not None:
            self._assignments.leave(stream.ws)

    async def _read(self, ws: web.WebSocketResponse) -> None:
        """Answer pings and take assignments until the end; disconnect a reader that sends other data or too much."""
        clock = asyncio.get_running_loop().time
        left, until = MAX_CONTROL, clock() + CONTROL_WINDOW
        async for message in ws:
            left, now = left - 1, clock()
            if now >= until:
                left, until = MAX_CONTROL, now + CONTROL_WINDOW
            if left < 0:
                await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=b"too many pings")
            elif message.type is WSMsgType.TEXT and self._assignments is not None:
                try:
                    self._assignments.take(ws, message.data, ws.send_str)
                except ValueError as error:
                    await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=str(error).encode()[:100])
            elif message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=b"this stream is read-only")
            elif message.type is WSMsgType.PING:
                await ws.pong(message.data)

    async def _send(self, stream: _Stream, after: int | None) -> None:
        """Send frames to one reader: the difference to its last frame, when its socket is free."""
        ws, state, loop = stream.ws, self._state, asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WAIT):
                await self._started.wait()
        inventory: Inventory | None = None
        values, taken = array("d"), list[float]()
        seen = state.event_seq if after is None else after
        try:
            while not ws.closed:
                async with asyncio.timeout(SEND_LIMIT):
                    stream.next.clear()
                    stream.beat_at = loop.time() + HEARTBEAT - EARLY
                    # a copy: sends may wait, and the next difference is to exactly these values
                    now = state.travelling()
                    full = now.inventory is not inventory
                    if full:
                        inventory = now.inventory
                        await ws.send_str(frame.encode_hello(inventory))
                    for event in state.events_after(seen):
                        await ws.send_str(frame.encode_event(event))
                        seen = event.seq
                    await ws.send_bytes(frame.encode_full(now) if full else frame.encode_delta(now, values, taken))
                    values, taken = now.values, now.taken
                sent = loop.time()
                await stream.next.wait(LATEST)
                if (gap := sent + SPACING - loop.time()) > 0:
                    await asyncio.sleep(gap)
        except TimeoutError:
            await ws.close(code=WSCloseCode.TRY_AGAIN_LATER, message=b"reader too slow")

    async def _goodbye(self, _app: web.Application) -> None:
        """Send a goodbye to every reader and close its stream, within the listener's grace."""
        async def one(ws: web.WebSocketResponse) -> None:
            with contextlib.suppress(ConnectionError, TimeoutError, RuntimeError):
                async with asyncio.timeout(1.0):
                    await ws.send_str(frame.encode_goodbye(frame.Goodbye("agent stops")))
                    await ws.close(code=WSCloseCode.GOING_AWAY, message=b"agent stops")

        await asyncio.gather(*(one(stream.ws) for stream in self._streams))
