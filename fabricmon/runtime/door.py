"""Accepted connections of a listener: how many there may be, TLS, and what ends those whose peer is slow.

A connection counts from the moment it is accepted, so one that only begins a handshake or half a request takes a
place and is limited like any other, and loses it when it takes too long.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from fabricmon.runtime import logs
from fabricmon.runtime.exposition import Family

MAX_CONNECTIONS = 512
"""Open connections of one listener; further ones are closed at once."""

MAX_PER_PEER = 128
"""Of these from one peer: no single machine can take all places. A browser opens 6, a Prometheus server 1."""

MAX_HANDSHAKES, MAX_HANDSHAKES_PER_PEER = 64, 16
"""TLS handshakes under way, and of these of one peer; anybody who connects begins one, and it costs about a millisecond
of processor time."""

HANDSHAKE_LIMIT = 10.0
"""Seconds for a TLS handshake."""

HEADER_LIMIT = 10.0
"""Seconds from the start of a connection, or from the first byte of a later request, until that request's headers
are complete."""

STALL_LIMIT = 60.0
"""Seconds a peer may leave what is sent to it unread."""

TLS_CLOSE = 2.0
"""Seconds for the peer's half of the end of a TLS connection."""

SAY_AGAIN = 60.0
"""Seconds between two log lines about refusals for one reason; all are counted."""

REASONS = {
    "connections": "the listener has all the connections it may have",
    "peer_connections": "one peer has all the connections it may have",
    "handshakes": "too many TLS handshakes are under way",
    "handshake": "a TLS handshake failed",
    "certificate": "a client's certificate has no name that is let in",
    "slow_request": "a request's headers took too long",
    "slow_reader": "an answer was not read for too long",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def peer_of(address: Any) -> str:
    """Whom a socket address counts for: an IPv4 address, the /64 of an IPv6 one, "" for what is neither."""
    host = address[0] if isinstance(address, tuple) and address else ""
    if ":" not in host:
        return str(host)
    six = ipaddress.IPv6Address(host.partition("%")[0])
    return str(six.ipv4_mapped) if six.ipv4_mapped else str(ipaddress.IPv6Network((six, 64), strict=False))


class Seldom:
    """What happens often and is said seldom: once in SAY_AGAIN seconds, with how often it happened since."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[float, int]] = {}

    def due(self, topic: str, now: float) -> int:
        """How often since it was said last, where it is time to say it; else 0. Topics are few and fixed."""
        at, times = self._said.get(topic, (now - SAY_AGAIN, 0))
        say = now - at >= SAY_AGAIN
        self._said[topic] = (now, 0) if say else (at, times + 1)
        return times + 1 if say else 0


class Door:
    """Limits and TLS of one or more listeners, and what was refused. One event loop.

    context  the TLS context of connections from now on; None: no TLS
    admit    "" or why the holder of a verified certificate is not let in
    refused  how often for each reason
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
        self.refused = dict.fromkeys(REASONS, 0)
        self.open = 0
        self.handshakes: dict[asyncio.Task[None], str] = {}  # whose
        self._peers: dict[str, int] = {}
        self._serving: dict[object, Connection] = {}  # by the protocol that speaks HTTP on it
        self._seldom = Seldom()
        self._log = logs.get(part="listener")

    def enter(self, peer: str) -> str:
        """Take a place; the reason where there is none."""
        if self.open >= self.max_connections:
            return "connections"
        if self._peers.get(peer, 0) >= self.max_per_peer:
            return "peer_connections"
        begun = list(self.handshakes.values())
        if len(begun) >= MAX_HANDSHAKES or begun.count(peer) >= MAX_HANDSHAKES_PER_PEER:
            return "handshakes"
        self.open += 1
        self._peers[peer] = self._peers.get(peer, 0) + 1
        return ""

    def leave(self, peer: str) -> None:
        """Give the place back."""
        self.open -= 1
        self._peers[peer] -= 1
        if not self._peers[peer]:
            del self._peers[peer]

    def refuse(self, reason: str, peer: str, detail: str = "") -> None:
        """Count, and say now and then."""
        self.refused[reason] += 1
        times = self._seldom.due(reason, asyncio.get_running_loop().time())
        if times:
            more = {"detail": detail} if detail else {}
            self._log.warning("connection refused", why=REASONS[reason], peer=peer, times=times, **more)

    def serve(self, handler: object, connection: Connection) -> None:
        """`handler` speaks HTTP on that connection from now on."""
        self._serving[handler] = connection

    def done(self, handler: object) -> None:
        """It no longer does."""
        self._serving.pop(handler, None)

    def watch(self, app: web.Application) -> None:
        """Learn of the requests of an application: while one is served its connection has no headers to be late."""

        @web.middleware
        async def served(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._serving.get(request.protocol)
            if connection is None:
                return await handler(request)
            connection.begin()
            try:
                return await handler(request)
            finally:
                connection.end()

        app.middlewares.insert(0, served)

    def families(self) -> list[Family]:
        """For /metrics."""
        reasons = [({"reason": reason}, float(count)) for reason, count in self.refused.items()]
        return [
            Family("fabricmon_web_connections", "gauge", "Open connections of the listener", [({}, float(self.open))]),
            Family("fabricmon_web_connections_refused_total", "counter",
                   "Connections that were refused or cut, by reason", reasons),
        ]  # fmt: skip


class Connection(asyncio.Protocol):
    """Stands between one socket and the protocol that speaks HTTP on it, which `make` makes."""

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

    # --- what the socket tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted: a place, then TLS if there is any, then HTTP."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = peer_of(transport.get_extra_info("peername"))
        reason = self._door.enter(peer)
        if reason:
            self._door.refuse(reason, peer)
            transport.abort()  # before a byte is read, so that the peer knows at once
            return
        self._peer = peer
        context = self._door.context()
        if context is None:
            self._start(transport)
            return
        transport.pause_reading()
        task = self._loop.create_task(self._encrypt(transport, context))
        self._door.handshakes[task] = peer
        task.add_done_callback(self._door.handshakes.pop)

    def data_received(self, data: bytes) -> None:
        if self._handler is None:
            self._early.append(data)  # what came with the end of the handshake, in the same turn of the loop
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
        for timer in (self._late, self._stalled):
            if timer is not None:
                timer.cancel()
        if self._peer is not None:
            self._door.leave(self._peer)
            self._peer = None
        handler, self._handler = self._handler, None
        if handler is not None:
            self._door.done(handler)
            handler.connection_lost(exc)

    # --- what the application tells

    def begin(self) -> None:
        """The headers of a request are complete."""
        self._serving = True
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def end(self) -> None:
        """The request was answered; what comes now begins another."""
        self._serving = False

    # --- how it goes on

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
