"""Streams to agents over which a command assigns probes and receives their results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from fabricmon.central.streams.aiohttp_dialler import follow_no_redirect
from fabricmon.central.streams.connection import HandshakeError
from fabricmon.commands.own_agent import Way
from fabricmon.forms.decoding import Undecodable
from fabricmon.frame import MAX_TEXT, FrameError, decode_hello
from fabricmon.model import Inventory
from fabricmon.probe.assignment import Assignment, FlowResult, PortProbes, decode_reply, encode

MOST_RESULTS = 100_000
"""Results of one agent that are kept."""
_ENDED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)


class ProbeStreamError(Exception):
    """No stream to an agent, or it ended; the text is the reason."""


class ProbeStream:
    """A stream of one agent. `results`: of the windows that were received."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, inventory: Inventory) -> None:
        self._socket, self.inventory = socket, inventory
        self.results: list[FlowResult] = []

    @classmethod
    async def open(cls, session: aiohttp.ClientSession, way: Way, limit_s: float) -> ProbeStream:
        """ProbeStreamError where there is no agent that answers in time."""
        url, tls = f"{way.url.replace('http', 'ws', 1)}/stream", way.context if way.context is not None else True
        try:
            async with asyncio.timeout(limit_s):
                socket = await session.ws_connect(
                    url, headers=way.headers, ssl=tls, max_msg_size=MAX_TEXT
                )
                hello = await socket.receive()
                if hello.type is not aiohttp.WSMsgType.TEXT:
                    raise ProbeStreamError(f"it ended the stream{_why(socket, hello)}")
                return cls(socket, decode_hello(hello.data))
        except (aiohttp.WSServerHandshakeError, HandshakeError) as error:
            remedy = " (--token-file, --user-file)" if error.status in (401, 403) else ""
            raise ProbeStreamError(f"HTTP {error.status} to /stream{remedy}") from error
        except (aiohttp.ClientError, OSError, FrameError) as error:
            reason = getattr(getattr(error, "os_error", error), "strerror", "") or str(error)
            raise ProbeStreamError("no answer in time" if isinstance(error, TimeoutError) else reason) from error

    async def assign(self, version: int, nonce: str, lasts: float, dscp: int, ports: tuple[PortProbes, ...]) -> None:
        """ProbeStreamError where the stream has ended."""
        try:
            await self._socket.send_str(encode(Assignment(version, lasts, nonce, dscp=dscp, ports=ports, reply=True)))
        except (ConnectionError, aiohttp.ClientError) as error:
            raise ProbeStreamError(f"the stream ended: {error}") from error

    async def receive(self, version: int, windows: int) -> None:
        """Take results until so many windows of this version have come. ProbeStreamError where the stream ends."""
        while windows:
            message = await self._socket.receive()
            if message.type in _ENDED:
                raise ProbeStreamError(f"it ended the stream{_why(self._socket, message)}")
            if message.type is not aiohttp.WSMsgType.TEXT or '"probed"' not in message.data[:100]:
                continue
            try:
                reply = decode_reply(message.data)
            except Undecodable as error:
                raise ProbeStreamError(f"it sent no results: {error}") from error
            if reply.version == version and reply.results:
                windows -= 1
                self.results += reply.results[: MOST_RESULTS - len(self.results)]

    async def close(self) -> None:
        await self._socket.close()


def _why(socket: aiohttp.ClientWebSocketResponse, message: Any) -> str:
    text = message.extra or (f"code {socket.close_code}" if socket.close_code else "")
    return f": {text}" if text else ""


def client_session() -> aiohttp.ClientSession:
    """A client that follows no redirect: credentials go to the agents that were named."""
    return aiohttp.ClientSession(middlewares=(follow_no_redirect,))


async def open_all(
    session: aiohttp.ClientSession, ways: Mapping[str, Way], limit_s: float
) -> tuple[dict[str, ProbeStream], dict[str, str]]:
    """Streams by the names given, and why there is none."""
    tasks = {name: ProbeStream.open(session, way, limit_s) for name, way in ways.items()}
    found = await asyncio.gather(*tasks.values(), return_exceptions=True)
    opened: dict[str, ProbeStream] = {}
    failed: dict[str, str] = {}
    for name, one in zip(tasks, found, strict=True):
        if isinstance(one, ProbeStream):
            opened[name] = one
        elif isinstance(one, ProbeStreamError):
            failed[name] = str(one)
        elif one is not None:
            raise one
    return opened, failed
