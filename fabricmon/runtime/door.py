"""Accepted connections of a listener: limits of their number, TLS, and time limits of slow peers.

A connection counts from the moment it is accepted, so that one that only begins a handshake or a request is limited
too, in number and in time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from fabricmon.runtime import logs
from fabricmon.runtime.buckets import Buckets
from fabricmon.runtime.descriptors import BRIEF, DescriptorReserve
from fabricmon.runtime.exposition import Family
from fabricmon.runtime.seldom import Seldom

MAX_CONNECTIONS = 512
"""Open connections of one listener; further ones are closed at once."""

MAX_PER_PEER = 128
"""Of these from one peer, so that none can take all. A browser opens 6, a Prometheus server 1."""

MAX_HANDSHAKES, MAX_HANDSHAKES_PER_PEER = 64, 16
"""Concurrent TLS handshakes, and of these from one peer; each costs about a millisecond of processor time before any
authentication."""

HANDSHAKE_LIMIT = 10.0
"""Seconds for a TLS handshake."""

HEADER_LIMIT = 10.0
"""Seconds from the start of a connection, or the first byte of a later request, to the end of its headers."""

STALL_LIMIT = 60.0
"""Seconds a peer may leave sent data unread."""

TLS_CLOSE = 2.0
"""Seconds for the peer's part of closing a TLS connection."""

REASONS = {
    "connections": "limit of connections of the listener",
    "peer_connections": "limit of connections of one peer",
    "handshakes": "limit of concurrent TLS handshakes",
    "flood": "limit of bytes from one peer",
    "descriptors": "accepted for a moment, without free descriptors",
    "handshake": "TLS handshake failed",
    "certificate": "client certificate without a permitted name",
    "slow_request": "headers of a request took too long",
    "slow_reader": "a response was not read for too long",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def peer_of(address: Any) -> str:
    """The peer for limits: an IPv4 address, the /64 of an IPv6 one, "" for other sockets."""
    host = address[0] if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return str(host)
    six = ipaddress.IPv6Address(host.partition("%")[0])
    return str(six.ipv4_mapped) if six.ipv4_mapped else str(ipaddress.IPv6Network((six, 64), strict=False))


class Door:
    """Connection limits and TLS of one or more listeners. One event loop.

    context  the TLS context of new connections; None: no TLS
    admit    "" or why the holder of a verified certificate is refused
    reserve  of descriptors; a connection that was accepted from it ends soon
    inbound  bytes that each peer may send, checked before anything is parsed; None: no limit
    refused  refused connections by reason
    """

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext | None] = lambda: None,
        admit: Callable[[ssl.SSLObject], str] = lambda _: "",
        max_connections: int = MAX_CONNECTIONS,
        max_per_peer: int = MAX_PER_PEER,
        header_limit: float = HEADER_LIMIT,
        stall_limit: float = STALL_LIMIT,
    ) -> None:
        self.context, self.admit = context, admit
        self.max_connections, self.max_per_peer = max_connections, max_per_peer
        self.header_limit, self.stall_limit = header_limit, stall_limit
        self.inbound: Buckets | None = None
        self.reserve = DescriptorReserve(0)
        self.refused = dict.fromkeys(REASONS, 0)
        self._shown: tuple[list[float], list[Family]] = [], []
        self.open = 0
        self.handshakes: dict[asyncio.Task[None], str] = {}  # of which peer
        self._peers: dict[str, int] = {}
        self._serving: dict[object, Connection] = {}  # by its HTTP protocol
        self._seldom = Seldom()
        self._log = logs.get(part="listener")

    def enter(self, peer: str) -> str:
        """Count a connection; returns the reason where it exceeds a limit."""
        if self.open >= self.max_connections:
            return "connections"
        if self._peers.get(peer, 0) >= self.max_per_peer:
            return "peer_connections"
        if self.inbound is not None and self.inbound.level(peer, asyncio.get_running_loop().time()) <= 0:
            return "flood"
        begun = list(self.handshakes.values())
        if len(begun) >= MAX_HANDSHAKES or begun.count(peer) >= MAX_HANDSHAKES_PER_PEER:
            return "handshakes"
        self.open += 1
        self._peers[peer] = self._peers.get(peer, 0) + 1
        return ""

    def leave(self, peer: str) -> None:
        """Uncount a connection."""
        self.open -= 1
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def refuse(self, reason: str, peer: str, detail: str = "") -> None:
        """Count a refusal, and log it if due."""
        self.refused[reason] += 1
        times = self._seldom.due(reason, asyncio.get_running_loop().time())
        if times:
            more = {"detail": detail} if detail else {}
            self._log.warning("connection refused", why=REASONS[reason], peer=peer, times=times, **more)

    def serve(self, handler: object, connection: Connection) -> None:
        """`handler` is the HTTP protocol of the connection from now on."""
        self._serving[handler] = connection

    def done(self, handler: object) -> None:
        """The connection of `handler` has ended."""
        self._serving.pop(handler, None)

    def watch(self, app: web.Application) -> None:
        """Suspend the time limit of headers while a request of the application is served. A client that closes before
        its answer is no defect: nothing is logged."""

        @web.middleware
        async def served(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._serving.get(request.protocol)
            if connection is not None:
                connection.begin()
            try:
                return await handler(request)
            except ConnectionError:
                if request.transport is not None and not request.transport.is_closing():
                    raise
                return web.Response()  # is not sent
            finally:
                if connection is not None:
                    connection.end()

        app.middlewares.insert(0, served)

    def families(self) -> list[Family]:
        """For /metrics; the same objects while nothing changed."""
        counts = [float(self.open), *map(float, self.refused.values())]
        if counts != self._shown[0]:
            reasons = zip([{"reason": reason} for reason in self.refused], counts[1:], strict=True)
            self._shown = counts, [
                Family("fabricmon_web_connections", "gauge", "Open connections of the listener", [({}, counts[0])]),
                Family("fabricmon_web_connections_refused_total", "counter",
                       "Connections refused or aborted, by reason", reasons),
            ]  # fmt: skip
        return self._shown[1]


class Connection(asyncio.Protocol):
    """A protocol between one socket and its HTTP protocol, which `make` makes."""

    def __init__(self, door: Door, make: Callable[[], asyncio.Protocol]) -> None:
        self._door, self._make = door, make
        self._loop = asyncio.get_running_loop()
        self._handler: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._peer: str | None = None
        self._early: list[bytes] = []
        self._serving = False
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._brief: asyncio.TimerHandle | None = None

    # --- events of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the limits, then start TLS if configured, then HTTP."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = peer_of(transport.get_extra_info("peername"))
        reason = self._door.enter(peer)
        if reason:
            self._door.refuse(reason, peer)
            transport.abort()  # before a byte is read, so that the peer is notified at once
            return
        self._peer = peer
        if self._door.reserve.short:
            self._brief = self._loop.call_later(BRIEF, self._cut, "descriptors")
        context = self._door.context()
        if context is None:
            self._start(transport)
            return
        transport.pause_reading()
        task = self._loop.create_task(self._encrypt(transport, context))
        self._door.handshakes[task] = peer
        task.add_done_callback(self._door.handshakes.pop)

    def data_received(self, data: bytes) -> None:
        inbound = self._door.inbound
        if inbound is not None and not inbound.charge(self._peer or "", len(data), self._loop.time()):
            self._cut("flood")
            return
        if self._handler is None:
            self._early.append(data)  # received with the end of the handshake, in the same turn of the loop
            return
        if not self._serving and self._late is None:
            self._late = self._loop.call_later(self._door.header_limit, self._cut, "slow_request")
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._handler is not None else None

    def pause_writing(self) -> None:
        if self._stalled is None:
            self._stalled = self._loop.call_later(self._door.stall_limit, self._cut, "slow_reader")
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._late, self._stalled, self._brief):
            if timer is not None:
                timer.cancel()
        if self._peer is not None:
            self._door.leave(self._peer)
            self._peer = None
        handler, self._handler = self._handler, None
        if handler is not None:
            self._door.done(handler)
            handler.connection_lost(exc)

    # --- events of the application

    def begin(self) -> None:
        """The headers of a request are complete."""
        self._serving = True
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def end(self) -> None:
        """The request was answered; the next byte begins another."""
        self._serving = False

    # --- TLS, HTTP, end

    def _start(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        handler = self._handler = self._make()
        self._door.serve(handler, self)
        self._late = self._loop.call_later(self._door.header_limit, self._cut, "slow_request")
        handler.connection_made(transport)
        early, self._early = self._early, []
        for data in early:
            handler.data_received(data)

    async def _encrypt(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        peer = self._peer or ""
        try:
            encrypted = await self._loop.start_tls(
                transport, self, context, server_side=True,
                ssl_handshake_timeout=HANDSHAKE_LIMIT, ssl_shutdown_timeout=TLS_CLOSE,
            )  # fmt: skip
        except (OSError, TimeoutError) as error:
            self._door.refuse("handshake", peer, _reason(error))
            self.connection_lost(None)
            return
        except BaseException:
            transport.abort()
            self.connection_lost(None)
            raise
        assert isinstance(encrypted, asyncio.Transport)
        if encrypted.is_closing() or self._peer is None:
            self.connection_lost(None)
            return
        refusal = self._door.admit(encrypted.get_extra_info("ssl_object"))
        if refusal:
            self._door.refuse("certificate", peer, refusal)
            encrypted.abort()
            return
        self._start(encrypted)

    def _cut(self, reason: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._door.refuse(reason, self._peer or "")
            self._transport.abort()


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error) or type(error).__name__
