"""The HTTP listener of agent and server: addresses, limits, /-/live and /-/ready, a stop within a time limit."""

from __future__ import annotations

import asyncio
import functools
import gzip
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aiohttp import web
from prometheus_client.exposition import gzip_accepted

from fabricmon.runtime.address import Address, parse_address
from fabricmon.runtime.door import Connection, Door
from fabricmon.runtime.exposition import Format, negotiate

MAX_BODY = 2**20
"""Bytes of a request's body, the default."""

MAX_HEADER = 8190
"""Bytes of the request line and of each header field."""

KEEPALIVE = 75.0
"""Seconds an idle connection is kept, more than the minute between two scrapes."""

GRACE = 2.0
"""Seconds for requests in progress to end when the process stops."""

State = Callable[[], str | None]
"""None: OK; else the reason in one line."""


class Listener:
    """A running HTTP server. `addresses`: with the port that the kernel chose for 0."""

    def __init__(self, runner: web.AppRunner, servers: list[asyncio.Server], door: Door) -> None:
        self._runner, self._servers, self._door = runner, servers, door
        self.addresses = [Address(*sock.getsockname()[:2]) for server in servers for sock in server.sockets]

    async def close(self) -> None:
        """Stop accepting, wait for requests in progress within the grace, run the application's clean-up."""
        for server in self._servers:
            server.close()
        for handshake in list(self._door.handshakes):
            handshake.cancel()
        await self._runner.cleanup()


async def listen(
    app: web.Application,
    addresses: Iterable[str],
    *,
    grace: float = GRACE,
    door: Door | None = None,
) -> Listener:
    """Serve `app` on every address, with the connection limits and TLS of `door`.

    OSError when an address cannot be bound (then none is), ValueError for an invalid one.
    """
    parsed = [parse_address(a) for a in addresses]
    door = door or Door()
    door.watch(app)
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=grace,
        keepalive_timeout=KEEPALIVE,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        handler_cancellation=True,
    )
    await runner.setup()
    try:
        return Listener(runner, await _bind(runner, parsed, door), door)
    except OSError:
        await runner.cleanup()
        raise


async def _bind(runner: web.AppRunner, addresses: Iterable[Address], door: Door) -> list[asyncio.Server]:
    """A server on each address, or OSError and none."""
    make, loop = runner.server, asyncio.get_running_loop()
    assert make is not None
    servers: list[asyncio.Server] = []
    try:
        for host, port in addresses:
            accept = functools.partial(Connection, door, make)
            servers.append(await loop.create_server(accept, host or None, port, reuse_address=True))
    except OSError:
        for server in servers:
            server.close()
        raise
    return servers


def add_probes(app: web.Application, live: State, ready: State) -> None:
    """GET /-/live and /-/ready (also /-/healthy, as Prometheus's programs call it): 200, or 503 with the reason."""

    def answer(state: State) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def probe(_request: web.Request) -> web.StreamResponse:
            reason = state()
            return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

        return probe

    app.router.add_get("/-/live", answer(live))
    app.router.add_get("/-/healthy", answer(live))
    app.router.add_get("/-/ready", answer(ready))


def metrics_answer(
    request: web.Request, page: Callable[[Format], Sequence[bytes]], pack: Callable[[Sequence[bytes]], bytes]
) -> web.Response:
    """The page, which comes in pieces, for a scraper, in its preferred format and encoding."""
    format = negotiate(request.headers.get("Accept", ""))
    pieces, headers = page(format), {"Content-Type": format.value, "Vary": "Accept, Accept-Encoding"}
    if gzip_accepted(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=pack(pieces), headers=headers)
    return web.Response(body=b"".join(pieces), headers=headers)


def packed(body: bytes) -> bytes:
    """The body in gzip at the fastest level, a tenth of the size for a page of metrics."""
    return gzip.compress(body, 1, mtime=0)
