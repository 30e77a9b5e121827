"""Frames of a WebSocket as picows hands them on, against a plain telling of RFC 6455: which messages they make, and
what is none."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import random
import struct
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

picows = pytest.importorskip("picows", reason="picows is not on this platform")

from fabricmon.central.streams.connection import MessageKind, StreamRequest  # noqa: E402
from fabricmon.central.streams.picows_dialler import PicowsConnection, PicowsDialler  # noqa: E402
from fabricmon.runtime.fair_loop import new_loop  # noqa: E402
from tests.central.streams import until  # noqa: E402

LARGEST = 6
TEXT, BINARY, MORE = picows.WSMsgType.TEXT, picows.WSMsgType.BINARY, picows.WSMsgType.CONTINUATION
PING, PONG, CLOSE = picows.WSMsgType.PING, picows.WSMsgType.PONG, picows.WSMsgType.CLOSE
KEPT_ALIVE = ("pong", b"")


@dataclass
class Sent:
    """A frame that the other side sent."""

    msg_type: Any
    payload: bytes = b""
    fin: bool = True
    rsv1: bool = False
    rsv2: bool = False
    rsv3: bool = False
    tail_size: int = 0

    @property
    def payload_size(self) -> int:
        return len(self.payload)

    def get_payload_as_bytes(self) -> bytes:
        return self.payload

    def get_payload_as_utf8_text(self) -> str:
        return self.payload.decode()

    def get_close_code(self) -> int:
        return 1000


@dataclass
class Receives:
    """A receiver that notes what comes: (kind, content), or how the stream ended."""

    came: list[tuple[str, Any]] = field(default_factory=list)

    def opened(self, connection: object) -> None:
        raise AssertionError

    def binary(self, data: bytes) -> None:
        self.came.append(("binary", data))

    def message(self, kind: MessageKind, data: bytes | str) -> None:
        self.came.append((kind.value, data))

    def closed(self, error: Exception | None) -> None:
        self.came.append(("over", str(error) if error else ""))


@dataclass
class Wire:
    """The transport, as far as a frame may call it."""

    sent: list[Any] = field(default_factory=list)
    is_disconnected = is_close_frame_sent = False

    def send_close(self, code: int) -> None:
        self.sent.append(("close", int(code)))

    def send_pong(self, data: bytes) -> None:
        self.sent.append(("pong", data))

    def disconnect(self, graceful: bool = True) -> None:
        self.sent.append("disconnect" if graceful else "abort")

    async def wait_disconnected(self) -> None:
        """The other side never answers."""
        await asyncio.Event().wait()


def told(frames: list[Sent]) -> list[tuple[str, Any]]:
    """What these frames are, up to the end of the stream."""
    came: list[tuple[str, Any]] = []
    begun: tuple[Any, bytes] | None = None
    for one in frames:
        if one.rsv1 or one.rsv2 or one.rsv3:
            return [*came, ("over", "reserved bits are set")]
        if one.msg_type in (PING, PONG):
            came.append(("ping" if one.msg_type == PING else "pong", one.payload))
            continue
        if one.msg_type == CLOSE:
            return [*came, ("over", "")]
        if (one.msg_type == MORE) != (begun is not None):
            return [*came, ("over", "a message begins within another, or goes on without a beginning")]
        pieces = begun is not None or not one.fin
        kind, before = begun or (one.msg_type, b"")
        whole = before + one.payload
        if pieces and len(whole) > LARGEST:
            return [*came, ("over", f"a message of more than {LARGEST} bytes")]
        if one.fin:
            came.append(("binary", whole) if kind == BINARY else ("text", whole.decode()))
        else:
            came.append(KEPT_ALIVE)
        begun = None if one.fin else (kind, whole)
    return came


frames = st.builds(
    Sent,
    st.sampled_from([TEXT, BINARY, MORE, MORE, MORE, PING, PONG, CLOSE]),
    st.sampled_from([b"", b"a", b"bc", b"def", b"ghijkl"]),
    st.sampled_from([True, False]),
    *[st.sampled_from([False] * 9 + [True])] * 3,
)


@given(st.lists(frames, max_size=12))
def test_frames_make_the_messages_that_the_protocol_says(sent: list[Sent]) -> None:
    receiver, wire = Receives(), Wire()
    connection = PicowsConnection(receiver, LARGEST)
    for one in sent:
        connection.on_ws_frame(wire, one)
        if receiver.came and receiver.came[-1][0] == "over":
            break
    assert receiver.came == told(sent)
    assert wire.sent == ([("close", 1000), "disconnect"] if receiver.came[-1:] == [("over", "")] else [])


@pytest.mark.parametrize("pieces", [[3, 3], [3, 4], [6], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])
def test_a_message_in_pieces_may_have_as_many_bytes_as_one_in_one_piece_and_the_next_begins_at_none(
    pieces: list[int],
) -> None:
    made = [Sent(MORE, b"x" * size, False) for size in pieces] + [Sent(MORE)]
    made[0].msg_type = BINARY
    receiver = Receives()
    connection = PicowsConnection(receiver, LARGEST)
    for one in made * 2:
        connection.on_ws_frame(Wire(), one)
    binary = [data for kind, data in receiver.came if kind == "binary"]
    if sum(pieces) <= LARGEST:
        assert binary == [b"x" * sum(pieces)] * 2
    else:
        assert ("over", f"a message of more than {LARGEST} bytes") in receiver.came


def test_who_reads_no_answers_gets_none_and_a_stream_that_is_not_open_sends_none() -> None:
    connection, wire = PicowsConnection(Receives(), LARGEST), Wire()
    connection.pong(b"not open")
    connection._transport = wire
    connection.pong(b"one")
    connection.pause_writing()
    with pytest.raises(ValueError, match="it reads no answers"):
        connection.pong(b"two")
    connection.resume_writing()
    connection.pong(b"three")
    assert wire.sent == [("pong", b"one"), ("pong", b"three")]


async def test_what_a_stream_that_ended_is_told_is_an_error() -> None:
    connection = PicowsConnection(Receives(), LARGEST)
    with pytest.raises(ConnectionResetError):
        await connection.send("text")
    await asyncio.wait_for(connection.close(), 1.0)


async def test_a_stream_whose_end_is_not_waited_for_is_ended_all_the_same() -> None:
    connection, wire = PicowsConnection(Receives(), LARGEST), Wire()
    connection._transport = wire
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    assert wire.sent == [("close", 1000)]
    closing.cancel()
    await asyncio.wait({closing})
    assert wire.sent == [("close", 1000), "abort"]


def framed(kind: int, data: bytes, fin: bool = True) -> bytes:
    """A WebSocket frame of a server."""
    size = len(data)
    head = bytes([fin << 7 | kind])
    if size < 126:
        return head + bytes([size]) + data
    return head + (struct.pack("!BH", 126, size) if size < 65536 else struct.pack("!BQ", 127, size)) + data


@dataclass
class Gathers(Receives):
    def opened(self, connection: object) -> None:
        pass


class Speaks(asyncio.Protocol):
    """The other end: answers the handshake and writes these pieces, each when the one before has been read."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces, self.asked = pieces, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.asked += data
        if not self.asked.endswith(b"\r\n\r\n"):
            return
        (key,) = (line.split(b": ")[1] for line in self.asked.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key"))
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + self.pieces[0]
        )
        self.writing = asyncio.ensure_future(self.write())

    async def write(self) -> None:
        for piece in self.pieces[1:]:
            await asyncio.sleep(0.0005)
            self.transport.write(piece)
        self.transport.close()


async def received(pieces: list[bytes], largest: int) -> list[tuple[str, Any]]:
    """What comes of these bytes, up to the end of the connection."""
    loop, receiver = asyncio.get_running_loop(), Gathers()
    server = await loop.create_server(lambda: Speaks(pieces), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/stream"
    await PicowsDialler("test").open(StreamRequest(url, {}, None, None, largest), receiver)
    await until(lambda: receiver.came and receiver.came[-1][0] == "over")
    server.close()
    return receiver.came


SIZES = (0, 1, 125, 126, 300, 4000, 4096, 16_379, 16_380, 16_381, 40_000, 70_000)


@pytest.mark.parametrize("cut", ["at each message", "anywhere", "by the byte"])
def test_messages_are_the_same_however_their_bytes_come(cut: str) -> None:
    choose = random.Random(cut)
    sizes = choose.choices(SIZES[:4], k=5) if cut == "by the byte" else choose.choices(SIZES, k=25)
    sent, expected = [], list[tuple[str, Any]]()
    for size in sizes:
        data = bytes(choose.choices(b"abc\x82\x7e", k=size))
        kind = choose.choice(("binary", "binary", "binary", "ping", "pieces"))
        if kind == "pieces":
            sent += [framed(2, data[:3], False), framed(9, b"now"), framed(0, data[3:])]
            expected += [("pong", b""), ("ping", b"now"), ("binary", data)]
        else:
            data = data[:125] if kind == "ping" else data
            sent.append(framed({"binary": 2, "ping": 9}[kind], data))
            expected.append((kind, data))
    if cut != "at each message":
        whole, sent = b"".join(sent), []
        while whole:
            size = 1 if cut == "by the byte" else choose.choice((1, 3, 200, 5000, 30_000))
            sent, whole = [*sent, whole[:size]], whole[size:]
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(received([b"", *sent], 2**20)) == [*expected, ("over", "")]


@pytest.mark.parametrize("size", [4096, 4097, 70_000])
def test_a_message_has_as_many_bytes_as_the_setting_permits(size: int) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        came = runner.run(received([b"", framed(2, b"x"), framed(2, b"y" * size)], 4096))
    assert came[0] == ("binary", b"x")
    assert (came[1][0] == "binary") is (size == 4096)


def protocols() -> int:
    return sum(type(one).__name__ == "WSProtocol" for one in gc.get_objects())


def test_a_stream_that_is_over_leaves_its_buffer_at_once() -> None:
    """The server collects cycles seldom, and a buffer has the largest message of its stream."""
    gc.collect()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            for _ in range(2):
                came = runner.run(received([b"", framed(2, b"x" * 300), framed(2, b"y" * 70_000)], 2**20))
                assert [len(data) for _, data in came[:2]] == [300, 70_000]
                runner.run(asyncio.sleep(0.01))
            assert protocols() == 0
    finally:
        gc.enable()
