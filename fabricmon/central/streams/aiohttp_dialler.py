"""Streams by aiohttp, where there is no picows."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp

from fabricmon.central.streams.connection import HandshakeError, MessageKind, StreamReceiver, StreamRequest
from fabricmon.central.streams.resolver import DNS_CACHE, DaemonResolver
from fabricmon.web.buffers import shrink

CLOSING = 0.5  # seconds a peer has to answer the end of a stream

_KINDS = {
    aiohttp.WSMsgType.TEXT: MessageKind.TEXT, aiohttp.WSMsgType.PING: MessageKind.PING,
    aiohttp.WSMsgType.PONG: MessageKind.PONG,
}  # fmt: skip


async def follow_no_redirect(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Follow no redirect: an agent must not choose which address the server asks, nor with which credentials."""
    response = await send(request)
    if 300 <= response.status < 400:
        response.close()
        raise HandshakeError(response.status)
    return response


class AiohttpConnection:
    """Reads in a task of its own."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, receiver: StreamReceiver) -> None:
        self._socket, self._receiver = socket, receiver
        self._going, self._pongs = asyncio.Event(), list[bytes]()
        self._going.set()
        receiver.opened(self)
        self._task = asyncio.create_task(self._read())

    def certificate(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._socket.get_extra_info("peercert")
        return found

    def pong(self, data: bytes) -> None:
        self._pongs.append(data)

    async def send(self, text: str) -> None:
        with _plain_errors():
            await self._socket.send_str(text)

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._socket.close()

    async def _read(self) -> None:
        try:
            while True:
                await self._going.wait()
                message = await self._socket.receive()
                if message.type is aiohttp.WSMsgType.BINARY:
                    self._receiver.binary(message.data)
                elif message.type in _KINDS:
                    self._receiver.message(_KINDS[message.type], message.data)
                else:
                    broken = isinstance(message.data, aiohttp.WebSocketError)
                    return self._receiver.closed(ValueError(str(message.data)) if broken else None)
                while self._pongs:
                    await self._socket.pong(self._pongs.pop(0))
        except (aiohttp.ClientError, OSError) as error:
            self._receiver.closed(error if isinstance(error, OSError) else None)


class AiohttpDialler:
    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._session: aiohttp.ClientSession | None = None

    async def open(self, request: StreamRequest, receiver: StreamReceiver) -> AiohttpConnection:
        options: dict[str, Any] = {"ssl": request.tls} if request.tls is not None else {}
        if request.server_hostname is not None:
            options["server_hostname"] = request.server_hostname
        with _plain_errors():
            made = await self._client().ws_connect(
                request.url, **options, headers=request.headers, max_msg_size=request.max_message, compress=0,
                autoping=False,  # a ping counts as a message, so that a flood of them is one
                timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=CLOSING),
            )  # fmt: skip
        return AiohttpConnection(made, receiver)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            shrink()
            connector = aiohttp.TCPConnector(
                limit=0, force_close=True, ttl_dns_cache=int(DNS_CACHE), resolver=DaemonResolver()
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None), headers={"User-Agent": self._agent},
                middlewares=(follow_no_redirect,),
            )  # fmt: skip
        return self._session


@contextlib.contextmanager
def _plain_errors() -> Any:
    """aiohttp's errors as those of the seam."""
    try:
        yield
    except aiohttp.WSServerHandshakeError as error:
        raise HandshakeError(error.status) from error
    except aiohttp.ClientConnectorCertificateError as error:
        raise error.certificate_error from error
    except aiohttp.ClientConnectorSSLError as error:
        raise error.os_error from error
    except aiohttp.ServerDisconnectedError as error:
        raise HandshakeError(0) from error
    except aiohttp.ClientConnectorDNSError as error:
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
    except aiohttp.InvalidURL as error:
        raise ValueError("its address is none") from error
    except aiohttp.ClientError as error:
        raise error if isinstance(error, OSError) else ConnectionError(f"{type(error).__name__}: {error}") from error
