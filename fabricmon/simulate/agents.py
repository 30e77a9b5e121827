"""The agents of a simulated fabric in one process: each node has its own TCP port and uses the real protocol.

As with real agents, a server gets a hello, a full frame, differences at the node's own pace, a refused connection while
a node is off, another boot id when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from array import array
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from fabricmon import frame
from fabricmon.model import Snapshot
from fabricmon.sim.machine import STATE_PERIOD, SimulatedNode, columns
from fabricmon.sim.script import InjectedFault, Script, Step
from fabricmon.sim.world import World

PACE = 0.1
"""Seconds between two steps of the simulation; nodes read in ten groups spread over a second."""
GROUPS = 10
CLIENTS = 8
"""Streams one node serves at a time; further ones are answered 503, as by a real agent."""
SEND_TIMEOUT = 10.0
"""Seconds a client may block one message before its stream is closed."""
CLOSE_TIMEOUT = 1.0
"""Seconds a client has to answer the end of its stream."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
REBIND_TRIES, REBIND_WAIT = 50, 0.1
"""A node that comes back wants its old port; another program may hold it for a moment."""


@dataclass(slots=True)
class ServedNode:
    """One simulated agent: its listener (None while off) and the streams it serves."""

    machine: SimulatedNode
    port: int
    site: web.SockSite | None = None
    clients: dict[web.WebSocketResponse, asyncio.BaseTransport] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Agents:
    """Serves all nodes of a world, whose time runs with the clock from `start` on, and plays faults into it.

    address         loopback address of the listeners; ports are the system's choice
    interval        seconds between two reads of a node's counters; states are read every second
    on_step         called with each step of the script
    without         hosts that are not served here
    page            a node's /metrics, as text 0.0.4; None: none
    """

    def __init__(
        self, world: World, *, address: str = "127.0.0.1", interval: float = 10.0,
        on_step: Callable[[Step], None] = lambda step: None, without: Collection[int] = (),
        page: Callable[[Snapshot], bytes] | None = None,
    ) -> None:
        self.world, self._address, self._on_step, self._page = world, address, on_step, page
        self.script = Script(())
        hosts = [host for host in range(len(world.layout.hosts)) if host not in without]
        self.nodes = {host: ServedNode(SimulatedNode(world, host, interval, STATE_PERIOD), 0) for host in hosts}
        self._origin = 0.0
        self._by_port: dict[int, ServedNode] = {}
        self._runner: web.AppRunner | None = None
        self._pace: asyncio.Task[None] | None = None

    @property
    def targets(self) -> dict[str, str]:
        """The server's targets: host name -> address."""
        return {node.machine.name: f"{self._address}:{node.port}" for node in self.nodes.values()}

    @property
    def failed(self) -> BaseException | None:
        """The exception that ended the simulation; None while it runs."""
        pace = self._pace
        return pace.exception() if pace is not None and pace.done() and not pace.cancelled() else None

    async def start(self) -> None:
        """Open all listeners and let time run on a healthy fabric."""
        app = web.Application()
        app.router.add_get("/stream", self._stream)
        if self._page is not None:
            app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        every = columns(self.world)
        for node in self.nodes.values():
            node.machine.take_snapshot(every, time.time())
            await self._open(node)
        self._origin = time.monotonic() - self.world.now
        self._pace = asyncio.create_task(self._run(), name="simulation")

    def play(self, faults: Iterable[InjectedFault]) -> None:
        """Begin with these faults now, in place of the former ones."""
        self.script = Script(faults, self.world.now)

    @property
    def seconds(self) -> float:
        """The present second of the script."""
        return self.world.now - self.script.start

    async def stop(self) -> None:
        if self._pace is not None:
            self._pace.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._pace
        for node in self.nodes.values():
            await self._close(node, "agent stops")
        if self._runner is not None:
            await self._runner.cleanup()

    # --- the simulation's time

    async def _run(self) -> None:
        turn = 0
        while True:
            for step in self.script.play(self.world, time.monotonic() - self._origin):
                self._on_step(step)
            await self._switch()
            self._read_group(turn % GROUPS)
            turn += 1
            await asyncio.sleep(PACE)

    def _read_group(self, group: int) -> None:
        every, wall = columns(self.world), time.time()
        for host, node in self.nodes.items():
            if host % GROUPS == group and not self.world.hosts.silent[host]:
                node.machine.take_snapshot(every, wall)
                node.news.set()
                node.news = asyncio.Event()

    async def _switch(self) -> None:
        """Open and close listeners as nodes come and go."""
        for host, node in self.nodes.items():
            if self.world.hosts.silent[host] and node.site is not None:
                await self._close(node, "")
            elif not self.world.hosts.silent[host] and node.site is None:
                node.machine.take_snapshot(columns(self.world), time.time())
                await self._open(node)

    # --- listeners

    async def _open(self, node: ServedNode) -> None:
        assert self._runner is not None
        for attempt in range(REBIND_TRIES):
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((self._address, node.port))
                break
            except OSError:
                sock.close()
                if attempt == REBIND_TRIES - 1:
                    raise
                await asyncio.sleep(REBIND_WAIT)
        node.port = sock.getsockname()[1]
        self._by_port[node.port] = node
        node.site = web.SockSite(self._runner, sock)
        await node.site.start()

    async def _close(self, node: ServedNode, goodbye: str) -> None:
        """Stop listening; streams end with a goodbye, or are aborted where the node is switched off."""
        if node.site is not None:
            await node.site.stop()
            node.site = None
        for ws, transport in list(node.clients.items()):
            if not goodbye:
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()
                continue
            with contextlib.suppress(ConnectionError, TimeoutError):
                await ws.send_str(frame.encode_goodbye(frame.Goodbye(goodbye)))
                await asyncio.wait_for(ws.close(code=aiohttp.WSCloseCode.GOING_AWAY), CLOSE_TIMEOUT)

    def _node(self, request: web.Request) -> ServedNode:
        assert request.transport is not None
        return self._by_port[request.transport.get_extra_info("sockname")[1]]

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._page is not None
        page = self._page(self._node(request).machine.snapshot)
        return web.Response(body=page, headers={"Content-Type": TEXT})

    # --- streams

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        node = self._node(request)
        if len(node.clients) >= CLIENTS:
            raise web.HTTPServiceUnavailable(text="too many streams\n")
        ws = web.WebSocketResponse(heartbeat=15.0, compress=False)
        await ws.prepare(request)
        node.clients[ws] = request.transport
        sending = asyncio.create_task(self._send(node, ws))
        try:
            async for _ in ws:  # a server sends nothing; reading detects its disconnection
                pass
        finally:
            node.clients.pop(ws, None)
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError, TimeoutError):
                await sending
        return ws

    async def _send(self, node: ServedNode, ws: web.WebSocketResponse) -> None:
        """Send hello and all values once an inventory, then differences to this client's state."""
        known, before, taken = -1, array("d"), [0.0]
        while not ws.closed:
            news, snapshot = node.news, node.machine.snapshot
            if snapshot.inventory.id != known:
                await asyncio.wait_for(ws.send_str(frame.encode_hello(snapshot.inventory)), SEND_TIMEOUT)
                message = frame.encode_full(snapshot)
                known = snapshot.inventory.id
            else:
                message = frame.encode_delta(snapshot, before, taken)
            before, taken = array("d", snapshot.values), list(snapshot.taken)
            await asyncio.wait_for(ws.send_bytes(message), SEND_TIMEOUT)
            await news.wait()
