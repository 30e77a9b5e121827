"""The agent's HTTP face: /, /metrics, /stream, /health and the probes. Reads no hardware and decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import html
from array import array
from collections.abc import Callable, Iterable

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from fabricmon import __version__, frame
from fabricmon.agent.expose import Page
from fabricmon.agent.report import Health
from fabricmon.agent.state import State
from fabricmon.model import Inventory
from fabricmon.runtime import logs
from fabricmon.runtime.door import peer_of
from fabricmon.runtime.exposition import EOF, Family, Format, accepts_gzip, gzip, negotiate, render
from fabricmon.runtime.http import add_probes
from fabricmon.runtime.metrics import process_families

HEARTBEAT = 1.0
"""Seconds: a stream gets a frame at least that often, changed or not."""

SPACING = 0.1
"""Seconds between two frames of a stream when something urgent happened, so that a storm stays bounded."""

FIRST_WAIT = 2.0
"""Seconds a stream waits for the first round of readings, so that it starts with all devices; one that hangs comes
later, in a new inventory."""

SEND_LIMIT = 30.0
"""Seconds a reader of the stream may leave its socket full before it is cut off."""

PING = 10.0
"""Seconds between pings; a peer that vanished without a word is noticed within half of that after one."""


class Api:
    """Serves one State. `health`, `families`, `monotonic` answer for the rest of the agent."""

    def __init__(
        self,
        state: State,
        max_streams: int,
        monotonic: Callable[[], float],
        families: Callable[[], Iterable[Family]],
        health: Callable[[], Health],
        started: asyncio.Event,
        ready: Callable[[], str | None],
        live: Callable[[], str | None],
    ) -> None:
        self._state, self._max_streams = state, max_streams
        self._monotonic, self._families, self._health, self._started = monotonic, families, health, started
        self._streams: dict[asyncio.Event, web.WebSocketResponse] = {}  # by what wakes the sender
        self._peers: dict[asyncio.Event, str] = {}
        self._page: Page | None = None
        self._log = logs.get()
        self._refused = 0
        self.app = web.Application(client_max_size=1024)  # nobody has anything to send here
        self.app.router.add_get("/", self._landing)
        self.app.router.add_get("/metrics", self._metrics)
        self.app.router.add_get("/health", self._get_health)
        self.app.router.add_get("/stream", self._stream)
        self.app.on_shutdown.append(self._goodbye)
        add_probes(self.app, live, ready)

    def wake(self) -> None:
        """Something happened that a centre should know before the next heartbeat."""
        for urgent in self._streams:
            urgent.set()

    # --- for people and scrapers

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
        format = negotiate(request.headers.get("Accept", ""))
        page = self.metrics(format)
        headers = {"Content-Type": format.value, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(request.headers.get("Accept-Encoding", "")):
            page = gzip(page)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=page, headers=headers)

    def metrics(self, format: Format) -> bytes:
        """The page a scraper gets, not compressed."""
        snapshot = self._state.snapshot
        if self._page is None or self._page.inventory is not snapshot.inventory:
            self._page = Page(snapshot.inventory)
        pieces = self._page.render(snapshot, self._monotonic(), format)
        own = (
            Family("fabricmon_streams", "gauge", "Centres that follow this agent", [({}, float(len(self._streams)))]),
            Family("fabricmon_streams_refused_total", "counter", "Streams refused because there were too many",
                   [({}, float(self._refused))]),
            Family("fabricmon_inventory_id", "gauge", "Rises with each change of what this node has",
                   [({}, float(snapshot.inventory.id))]),
            *process_families(__version__, "agent"),
        )
        pieces += render([*self._families(), *own], format)
        if format is Format.OPENMETRICS:
            pieces.append(EOF)
        return "".join(pieces).encode()

    async def _get_health(self, _request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._health()), content_type="application/json")

    # --- for centres

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        after = request.query.get("after", "")
        if after and not (after.isascii() and after.isdigit() and len(after) < 20):
            return web.Response(status=400, text="after: expected the number of the last event seen\n")
        peer = peer_of((request.remote or "",))
        share = max(2, self._max_streams // 2)  # of one peer: no other machine shuts the centre out alone
        if len(self._streams) >= self._max_streams or list(self._peers.values()).count(peer) >= share:
            self._refused += 1
            return web.Response(status=503, text=f"{self._max_streams} streams are open already, or {share} of yours\n",
                                headers={"Retry-After": "10"})
        # writer_limit 1: wait for a free socket after each message, so that a slow reader gets the newest
        # difference later instead of a queue of old ones.
        ws = web.WebSocketResponse(heartbeat=PING, compress=False, max_msg_size=1024, writer_limit=1, timeout=1.0)
        if not ws.can_prepare(request).ok:
            return web.Response(status=426, text="/stream is a WebSocket\n", headers={"Upgrade": "websocket"})
        urgent = asyncio.Event()
        self._streams[urgent], self._peers[urgent] = ws, peer
        try:
            await ws.prepare(request)
            if request.transport is not None:
                request.transport.set_write_buffer_limits(high=1)  # TLS takes 0 for "full even when empty"
            both = {
                asyncio.create_task(self._read(ws)),
                asyncio.create_task(self._send(ws, urgent, int(after) if after else None)),
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
            del self._streams[urgent], self._peers[urgent]
        return ws

    @staticmethod
    async def _read(ws: web.WebSocketResponse) -> None:
        """Answers pings and sees the end. A reader of the stream has nothing to say."""
        async for message in ws:
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                await ws.close(code=WSCloseCode.POLICY_VIOLATION, message=b"this stream is for reading")

    async def _send(self, ws: web.WebSocketResponse, urgent: asyncio.Event, after: int | None) -> None:
        """Bring one reader up to date for ever: one copy of what it has, the difference when its socket is free."""
        state, loop = self._state, asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_WAIT):
                await self._started.wait()
        inventory: Inventory | None = None
        values, taken = array("d"), list[float]()
        seen = state.event_seq if after is None else after
        try:
            while not ws.closed:
                async with asyncio.timeout(SEND_LIMIT):
                    urgent.clear()
                    began = loop.time()
                    # Sends may wait; what is compared next time is exactly what was copied here.
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
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(SPACING, HEARTBEAT - (loop.time() - began))):
                        await asyncio.sleep(SPACING)
                        await urgent.wait()
        except TimeoutError:
            await ws.close(code=WSCloseCode.TRY_AGAIN_LATER, message=b"reader too slow")

    async def _goodbye(self, _app: web.Application) -> None:
        """Tell every reader that this end is on purpose, then close; all within the listener's grace."""
        async def one(ws: web.WebSocketResponse) -> None:
            with contextlib.suppress(ConnectionError, TimeoutError, RuntimeError):
                async with asyncio.timeout(1.0):
                    await ws.send_str(frame.encode_goodbye(frame.Goodbye("agent stops")))
                    await ws.close(code=WSCloseCode.GOING_AWAY, message=b"agent stops")

        await asyncio.gather(*(one(ws) for ws in self._streams.values()))
