"""Streams by picows, which parses WebSockets in C and calls for each message: a third of what aiohttp takes.

Without TLS nearly all messages do not even come to it: one in one piece, of 126 to 65,535 bytes, is taken from the
socket as it is. Its buffer, which it never gives back, is for the rest only.
"""

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
READ_BUFFER = 2048
"""Bytes of a new stream's buffer in picows; it grows to the largest message that comes to it, and stays so."""
AT_ONCE = 16 * 1024  # bytes that are taken from a socket at once, past picows
_TEXT, _BINARY, _MORE = WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION
_WHOLE_TEXT, _WHOLE_BINARY = 0x81, 0x82  # first byte of a message in one piece
_SIZED = 126  # second byte of one of 126 to 65,535 bytes; two bytes with that number follow
_CONTROL = {WSMsgType.PING: MessageKind.PING, WSMsgType.PONG: MessageKind.PONG}

# What agents do wrong is logged by `noting`, once; an adapter, so that no logger is made for each connection.
_quiet = logging.getLogger("picows.quiet")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
_quiet.setLevel(logging.CRITICAL)
_LOG = logging.LoggerAdapter(_quiet, {})


class PlainSocket(socket.socket):
    """A connection without TLS. Before it has `begun` the transport reads no more than the answer to the handshake: so
    nothing of the stream comes to picows with it."""

    begun = False

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        if not self.begun:
            end = self.recv(len(buffer), socket.MSG_PEEK).find(b"\r\n\r\n")
            nbytes = end + 4 if end >= 0 else nbytes
        return super().recv_into(buffer, nbytes, flags)


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
        self._plain: PlainSocket | None = None
        self._protocol: Any = None  # picows's, from its begin to its end
        self._between = False  # picows has no part of a message
        self._part, self._needed = bytearray(), 0  # of a message past picows, and its bytes
        self._abandoned, self._writable = False, asyncio.Event()
        self._writable.set()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        if self._abandoned:
            transport.disconnect(False)
        else:
            self._fd = transport.underlying_transport.get_extra_info("socket").fileno()
            self._protocol = transport.underlying_transport.get_protocol()
            if self._plain is not None:
                self._plain.begun = self._between = True
            put_last(self._fd, self._read if self._plain is not None else None)
            self._receiver.opened(self)

    def _read(self) -> bool:
        """Take what the socket has. False where its transport is to: picows has the beginning of a message and room for
        its rest, or the connection has ended."""
        if self._plain is None or not self._between:
            return False
        try:
            data = self._plain.recv(AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        if not data:
            return False
        if self._needed:
            self._part += data
            if len(self._part) < self._needed:
                return True
            data, self._part, self._needed = bytes(self._part), bytearray(), 0
        self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        """Messages in one piece; the rest is for picows, up to the next time that it stands between two messages."""
        at, end = 0, len(data)
        while self._between and end - at > 4 and data[at + 1] == _SIZED and data[at] in (_WHOLE_BINARY, _WHOLE_TEXT):
            size = data[at + 2] << 8 | data[at + 3]
            if not _SIZED <= size <= self._largest:
                break
            then = at + 4 + size
            if then > end:
                self._part, self._needed = bytearray(data[at:]), 4 + size
                return
            if data[at] == _WHOLE_BINARY:
                self._binary(data[at + 4 : then])
            else:
                self._text(data[at + 4 : then])
            at = then
        if at < end:
            self._give(memoryview(data)[at:])

    def _text(self, data: bytes) -> None:
        try:
            text = data.decode()
        except ValueError as error:
            self._receiver.closed(error)
        else:
            self._receiver.message(MessageKind.TEXT, text)

    def _give(self, data: memoryview) -> None:
        """Have picows parse this."""
        assert self._transport is not None
        while data and not self._transport.underlying_transport.is_closing():
            room = self._protocol.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._between = False
            self._protocol.buffer_updated(size)
            data = data[size:]

    def abandon(self, dialled: Iterable[socket.socket]) -> None:
        """End it now, whether its handshake is over or not."""
        self._abandoned = True
        if self._transport is not None:
            self._transport.disconnect(False)
        for one in dialled:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind, plain = frame.msg_type, frame.fin and not (frame.rsv1 or frame.rsv2 or frame.rsv3)
        if kind == _BINARY and plain and self._joined is None and frame.payload_size <= self._largest:
            self._between = not frame.tail_size
            self._binary(frame.get_payload_as_bytes())
            return
        try:
            self._seldom(transport, kind, frame)
            self._between = not frame.tail_size and self._joined is None
        except ValueError as error:
            self._receiver.closed(error)

    def _seldom(self, transport: WSTransport, kind: WSMsgType, frame: WSFrame) -> None:
        """Text, control frames, messages in pieces. ValueError for what is no WebSocket."""
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            raise ValueError("reserved bits are set")
        if frame.payload_size > self._largest:  # picows has ended the stream for it, and goes on until that is done
            raise ValueError(f"a message of more than {self._largest} bytes")
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
        self._plain = self._protocol = None  # a cycle with the buffer, which would be kept for long
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

        # Of picows's two kinds of transports only asyncio's own reads by the socket's method.
        plain = (lambda found: PlainSocket(*found[:3])) if request.tls is None else None

        async def dial(url: Any) -> socket.socket:
            found = await self._addresses.of(url.host, url.port)
            dialled.append(await aiohappyeyeballs.start_connection(
                found, happy_eyeballs_delay=SECOND_ADDRESS, interleave=1, socket_factory=plain))  # fmt: skip
            if isinstance(dialled[0], PlainSocket):
                made._plain = dialled[0]
            return dialled[0]

        names: dict[str, Any] = {} if request.server_hostname is None else {"server_hostname": request.server_hostname}
        context = request.tls if isinstance(request.tls, ssl.SSLContext) else None
        try:
            await ws_connect(
                lambda _asked, _answer: made, request.url.replace("http", "ws", 1), ssl_context=context,
                websocket_handshake_timeout=None, logger_name=_LOG, enable_auto_pong=False,
                max_frame_size=request.max_message, max_redirects=0, read_buffer_init_size=READ_BUFFER,
                extra_headers={"User-Agent": self._agent, **request.headers}, socket_factory=dial,
                use_aiofastnet=None if plain is None else False, **names,
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
