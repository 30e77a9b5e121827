"""Host names of targets to addresses, without asyncio's default executor.

A dead name server blocks a lookup for half a minute. In the default executor a few of those would block all other
lookups, and the exit of the process: `asyncio.run` waits for its threads. Here each lookup has a daemon thread.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

MAX_THREADS = 32  # lookups at one time; further ones wait, until their connection's own time limit


class DaemonResolver(AbstractResolver):
    """The system's resolver (getaddrinfo), one daemon thread a lookup. Use from one event loop."""

    def __init__(self, threads: int = MAX_THREADS) -> None:
        self._free = asyncio.Semaphore(threads)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of a name. OSError where it has none."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Any]] = loop.create_future()

        def settle(found: list[Any] | None, error: BaseException | None) -> None:
            self._free.release()
            if done.done():
                return  # cancelled
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(found or [])

        def resolve() -> None:
            found, error = None, None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
            except (OSError, UnicodeError) as e:
                error = e if isinstance(e, OSError) else OSError(None, str(e))
            try:
                loop.call_soon_threadsafe(settle, found, error)
            except RuntimeError:
                return  # the loop is closed: the process ends

        threading.Thread(target=resolve, name=f"dns {host}"[:15], daemon=True).start()
        return [_result(host, entry) for entry in await done]

    async def close(self) -> None:
        """Nothing to release: threads end with their lookup."""


def _result(host: str, entry: Any) -> ResolveResult:
    family, _, proto, _, address = entry
    # A link-local address needs its interface.
    scope = f"%{address[3]}" if family == socket.AF_INET6 and len(address) > 3 and address[3] else ""
    return ResolveResult(
        hostname=host,
        host=f"{address[0].split('%')[0]}{scope}",
        port=address[1],
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
