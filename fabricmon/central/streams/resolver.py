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

DNS_CACHE = 30.0  # seconds an address is taken for that of its name
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
                error = e if isinstance(e, OSError) else socket.gaierror(socket.EAI_NONAME, str(e))
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


AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


class Addresses:
    """Addresses of hosts as `getaddrinfo` gives them, kept for DNS_CACHE. Use from one event loop."""

    def __init__(self) -> None:
        self._resolver, self._known = DaemonResolver(), dict[str, tuple[float, list[str]]]()
        self._sorted_out = 0.0

    async def of(self, host: str, port: int) -> list[AddrInfo]:
        """socket.gaierror for a name that has none. A number needs no thread."""
        try:
            return self._info(host, port)
        except socket.gaierror:
            pass
        now = asyncio.get_running_loop().time()
        until, found = self._known.get(host, (0.0, []))
        if now >= until:
            if now >= self._sorted_out:
                self._sorted_out = now + DNS_CACHE
                self._known = {name: one for name, one in self._known.items() if one[0] > now}
            results = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
            found = [result["host"] for result in results]
            self._known[host] = (now + DNS_CACHE, found)
        return [one for address in found for one in self._info(address, port)]

    @staticmethod
    def _info(host: str, port: int) -> list[AddrInfo]:
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags))
