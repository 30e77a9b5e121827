"""Streams by picows, which parses WebSockets in C and calls for each message: a third of what aiohttp takes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import aiohappyeyeballs
from picows import (
    WSCloseCode,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSProtocolError,
    WSTransport,
    ws_connect,
)

from fabricmon.central.streams.connection import HandshakeError, MessageKind, StreamReceiver, StreamRequest
from fabricmon.central.streams.resolver import Addresses
from fabricmon.runtime.fair_loop import put_first, put_last

CLOSING = 0.5  # seconds a peer has to answer the end of a stream
SECOND_ADDRESS = 0.25  # seconds until the next address of a name is tried beside the first (RFC 8305)
READ_BUFFER = 8 * 1024
"""Bytes of a new stream's buffer; it grows to its largest message and stays so."""
_TEXT, _BINARY, _MORE = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION
_CONTROL = {WSMsgType.PING: MessageKind.PING, WSMsgType.PONG: MessageKind.PONG}

# What agents do wrong is logged by `noting`, once; an adapter, so that no logger is made for each connection.
_quiet = logging.getLogger("picows.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
_quiet.setLevel(logging.CRITICAL)
_LOG = logging.LoggerAdapter(_quiet, {})


class PicowsConnection(WSListener):  # type: ignore[misc]  # where picows is not installed it has no types
    """Receives from picows; messages in pieces are joined, each piece a message for the budget."""

    def __init__(self, receiver: StreamReceiver, largest: int) -> None:
        self._receiver, self._largest = receiver, largest
        self._binary = receiver.binary
        self._pieces: list[bytes] = []
        self._size = 0
        self._joined: WSMsgType | None = None
        self._transport: WSTransport | None = None
        self._fd = -1
        self._abandoned, self._writable = False, asyncio.Event()
        self._writable.set()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        if self._abandoned:
            transport.disconnect(False)
        else:
            self._fd = transport.underlying_transport.get_extra_info("socket").fileno()
            put_last(self._fd)
            self._receiver.opened(self)

    def abandon(self, dialled: Iterable[socket.socket]) -> None:
        """End it now, whether its handshake is over or not."""
        self._abandoned = True
        if self._transport is not None:
            self._transport.disconnect(False)
        for one in dialled:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == _BINARY and frame.fin and self._joined is None and not (frame.rsv1 or frame.rsv2 or frame.rsv3):
            self._binary(frame.get_payload_as_bytes())
            return
        try:
            self._seldom(transport, kind, frame)
        except ValueError as error:
            self._receiver.closed(error)

    def _seldom(self, transport: WSTransport, kind: WSMsgType, frame: WSFrame) -> None:
        """Text, control frames, messages in pieces. ValueError for what is no WebSocket."""
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            raise ValueError("reserved bits are set")
        if kind == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            self._receiver.closed(None)
        elif kind in _CONTROL:
            self._receiver.message(_CONTROL[kind], frame.get_payload_as_bytes())
        elif (kind == _MORE) is (self._joined is None):
            raise ValueError("a message begins within another, or goes on without a beginning")
        elif frame.fin and self._joined is None:
            self._receiver.message(MessageKind.TEXT, frame.get_payload_as_utf8_text())
        else:
            self._join(kind, frame)

    def _join(self, kind: WSMsgType, frame: WSFrame) -> None:
        piece = frame.get_payload_as_bytes()
        if not self._pieces:
            self._joined, self._size = kind, 0
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._largest:
            raise ValueError(f"a message of more than {self._largest} bytes")
        if not frame.fin:
            self._receiver.message(MessageKind.PONG, b"")
            return
        whole, joined = b"".join(self._pieces), self._joined
        self._pieces, self._joined = [], None
        if joined == _BINARY:
            self._binary(whole)
        else:
            self._receiver.message(MessageKind.TEXT, whole.decode())

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        put_first(self._fd)
        asyncio.get_running_loop().call_soon(self._lost, transport)  # picows notes its error after this call

    def _lost(self, transport: WSTransport) -> None:
        waiting = asyncio.ensure_future(transport.wait_disconnected())
        waiting.add_done_callback(self._ended)

    def _ended(self, waiting: asyncio.Future[None]) -> None:
        error = None if waiting.cancelled() else waiting.exception()
        broken = isinstance(error, WSProtocolError)
        self._receiver.closed(ValueError(str(error)) if broken else None)

    # --- StreamConnection

    def certificate(self) -> Mapping[str, Any] | None:
        assert self._transport is not None
        found: Mapping[str, Any] | None = self._transport.underlying_transport.get_extra_info("peercert")
        return found

    def pong(self, data: bytes) -> None:
        if not self._writable.is_set():
            raise ValueError("it reads no answers")
        if self._transport is not None:
            self._transport.send_pong(data)

    async def send(self, text: str) -> None:
        if self._transport is None or self._transport.is_disconnected:
            raise ConnectionResetError
        self._transport.send(WSMsgType.TEXT, text.encode())
        await self._writable.wait()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_disconnected:
            self._transport.underlying_transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_disconnected:
            self._transport.underlying_transport.resume_reading()

    async def close(self) -> None:
        transport = self._transport
        if transport is None or transport.is_disconnected:
            return
        if not transport.is_close_frame_sent:
            transport.send_close(WSCloseCode.OK)
        try:
            with contextlib.suppress(TimeoutError, Exception):
                async with asyncio.timeout(CLOSING):
                    await transport.wait_disconnected()
        finally:  # also where this is cancelled
            transport.disconnect(False)


class PicowsDialler:
    def __init__(self, agent: str) -> None:
        self._agent, self._addresses = agent, Addresses()

    async def open(self, request: StreamRequest, receiver: StreamReceiver) -> PicowsConnection:
        made = PicowsConnection(receiver, request.max_message)
        dialled: list[socket.socket] = []

        async def dial(url: Any) -> socket.socket:
            found = await self._addresses.of(url.host, url.port)
            dialled.append(await aiohappyeyeballs.start_connection(
                found, happy_eyeballs_delay=SECOND_ADDRESS, interleave=1))  # fmt: skip
            return dialled[0]

        names: dict[str, Any] = {} if request.server_hostname is None else {"server_hostname": request.server_hostname}
        context = request.tls if isinstance(request.tls, ssl.SSLContext) else None
        try:
            await ws_connect(
                lambda _asked, _answer: made, request.url.replace("http", "ws", 1), ssl_context=context,
                websocket_handshake_timeout=None, logger_name=_LOG, enable_auto_pong=False,
                max_frame_size=request.max_message, max_redirects=0, read_buffer_init_size=READ_BUFFER,
                extra_headers={"User-Agent": self._agent, **request.headers}, socket_factory=dial, **names,
            )  # fmt: skip
        except WSHandshakeError as error:
            raise HandshakeError(error.response.status if error.response is not None else 0) from error
        except BaseException:  # also where this is cancelled, before the handshake or after it: picows would go on
            made.abandon(dialled)
            raise
        if made._transport is None:
            made.abandon(dialled)
            raise HandshakeError(0)
        return made

    async def close(self) -> None:
        """Nothing to release: each connection ends with its stream."""
