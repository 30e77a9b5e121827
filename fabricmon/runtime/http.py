"""The HTTP listener of agent and centre: addresses, limits, /-/live and /-/ready, a stop that ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from fabricmon.runtime.address import Address, parse_address
from fabricmon.runtime.door import Connection, Door

MAX_BODY = 2**20
"""Bytes of a request's body unless the application says otherwise."""

MAX_HEADER = 8190
"""Bytes of the request line and of each header field."""

KEEPALIVE = 75.0
"""Seconds an idle connection is kept; a scraper that comes every minute keeps its own."""

GRACE = 2.0
"""Seconds that requests in progress have to end when the process stops."""

State = Callable[[], str | None]
"""None: all is well; else one line that says what is not."""


class Listener:
    """A running HTTP server. `addresses` are the ones it really has (port 0 was chosen by the kernel)."""

    def __init__(self, runner: web.AppRunner, servers: list[asyncio.Server], door: Door) -> None:
        self._runner, self._servers, self._door = runner, servers, door
        self.addresses = [Address(*sock.getsockname()[:2]) for server in servers for sock in server.sockets]

    async def close(self) -> None:
        """Stop accepting, let requests in progress end within the grace, run the application's clean-up."""
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
    """Serve `app` on every address; `door` says how many may come in and whether by TLS.

    OSError when an address cannot be had (then none is kept), ValueError when one is none.
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
    make = runner.server
    assert make is not None

    def accept() -> asyncio.BaseProtocol:
        return Connection(door, make)

    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    try:
        for host, port in parsed:
            server = await loop.create_server(accept, host or None, port, reuse_address=True)
            servers.append(server)
    except OSError:
        for server in servers:
            server.close()
        await runner.cleanup()
        raise
    return Listener(runner, servers, door)


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
