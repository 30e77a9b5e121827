"""An application of a test on a socket: where stand-ins of other services listen."""

from __future__ import annotations

import ssl

from aiohttp import web


class Served:
    """A listener that answers at `url` until it is stopped. With `async with` it stops at the end.

    url   address without a slash at its end; `unix://PATH` for a socket in the file system
    port  0 for one in the file system
    """

    def __init__(self, runner: web.AppRunner, url: str, port: int) -> None:
        self._runner, self.url, self.port = runner, url, port

    async def stop(self) -> None:
        """Open requests have 0.2 s to end."""
        await self._runner.cleanup()

    async def __aenter__(self) -> Served:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


async def serve(
    app: web.Application,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: ssl.SSLContext | None = None,
    socket: str = "",
) -> Served:
    """Listen on a TCP port (0: any that is free), or on the socket of this path."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    if socket:
        await web.UnixSite(runner, socket).start()
        return Served(runner, f"unix://{socket}", 0)
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    bound = runner.addresses[0][1]
    return Served(runner, f"{'https' if tls else 'http'}://{host}:{bound}", bound)
