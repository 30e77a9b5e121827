"""What opens a WebSocket to an agent and what receives its messages: one seam, behind which `picows_dialler` and, on a
platform without it, `aiohttp_dialler` do the same work."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol


class MessageKind(Enum):
    TEXT = "text"
    BINARY = "binary"
    PING = "ping"
    PONG = "pong"


class HandshakeError(Exception):
    """The other side does not begin a stream. `status`: of its HTTP answer; 0: the connection ended without one."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class StreamRequest(NamedTuple):
    """One connection to open.

    tls              context; True: the system's default; None: no TLS
    server_hostname  name that the certificate must have; None: that of the URL
    max_message      bytes of a message; a longer one ends the stream
    """

    url: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | bool | None
    server_hostname: str | None
    max_message: int


class StreamConnection(Protocol):
    """An open connection. `pause` and `resume`: of reading; messages that were read before still come.
    `send` waits until the socket has taken the text: OSError where the connection has ended."""

    def certificate(self) -> Mapping[str, Any] | None: ...

    def pong(self, data: bytes) -> None: ...

    async def send(self, text: str) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None: ...


class StreamReceiver(Protocol):
    """`opened` comes first. `closed` may come more than once: an error is what the other side did wrong, None a
    connection that ended."""

    def opened(self, connection: StreamConnection) -> None: ...

    def binary(self, data: bytes) -> None: ...

    def message(self, kind: MessageKind, data: str | bytes) -> None: ...

    def closed(self, error: Exception | None) -> None: ...


class Dialler(Protocol):
    async def open(self, request: StreamRequest, receiver: StreamReceiver) -> StreamConnection:
        """HandshakeError, OSError (with ssl.SSLError and socket.gaierror) or ValueError where there is none."""

    async def close(self) -> None: ...
