"""/stream over a real socket: what a server gets, what a slow or late one gets, and that the number is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import numpy as np
import pytest

from fabricmon import frame
from fabricmon.agent.api import HEARTBEAT, MAX_CONTROL
from fabricmon.model import Event, Inventory
from tests.agent.fakes import Config, FakeCollector, FakeSession, Running, until


class Reader:
    """Follows a stream as a server does: keeps the inventory and applies each frame."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.inventory: Inventory | None = None
        self.values = np.zeros(0)
        self.frames: list[frame.Frame] = []
        self.events: list[Event] = []
        self.goodbye: str | None = None
        self.order = ""

    async def next(self) -> frame.Frame | Inventory | Event | frame.Goodbye | None:
        message = await self.ws.receive(timeout=120)
        if message.type is aiohttp.WSMsgType.TEXT:
            got = frame.decode_text(message.data)
            if isinstance(got, Inventory):
                self.inventory, self.order = got, self.order + "i"
            elif isinstance(got, Event):
                self.events.append(got)
                self.order += "e"
            else:
                self.goodbye = got.reason
            return got
        if message.type is aiohttp.WSMsgType.BINARY:
            one = frame.decode(message.data)
            assert self.inventory is not None
            assert one.inventory == self.inventory.id
            assert one.size == self.inventory.size
            if one.index is None:
                self.values = one.values.copy()
                self.order += "F"
            else:
                self.values[one.index] = one.values
                self.order += "d"
            self.frames.append(one)
            return one
        return None

    async def until(self, condition: object) -> None:
        async with asyncio.timeout(60):
            while not condition():  # type: ignore[operator]
                assert not self.ws.closed, "the stream ended"
                await self.next()


@asynccontextmanager
async def follow(running: Running, after: str = "") -> AsyncIterator[Reader]:
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(running.url("/stream") + after, max_msg_size=0) as ws,
    ):
        yield Reader(ws)


SLOW = Config(interval=3600.0, deadline=60.0)
UPGRADE = (
    b"GET /stream HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def test_inventory_then_all_values_then_differences() -> None:
    session = FakeSession("mlx5_0", ("symbol_errors", "rcv", "rate"))
    session.values = [1.0, 2.0, math.nan]
    async with Running(FakeCollector(mlx5_0=session)) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        assert reader.order == "iF"
        assert reader.inventory is not None
        assert reader.inventory.identity.node == "host-007"
        assert reader.inventory.parts[0].columns == ("symbol_errors", "rcv", "rate")
        assert reader.values[:2].tolist() == [1.0, 2.0]
        assert math.isnan(reader.values[2])
        session.values = [1.0, 7.0, math.nan]
        await reader.until(lambda: reader.values[1] == 7.0)
        changed = next(f for f in reader.frames[1:] if len(f.values))
        assert changed.index is not None
        assert changed.index.tolist() == [1]
        assert reader.frames[-1].taken[0] > reader.frames[0].taken[0]


async def test_a_frame_comes_as_heartbeat_when_nothing_is_read() -> None:
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")), config=SLOW) as running, follow(running) as reader:
        await reader.until(lambda: len(reader.frames) >= 3)
        assert reader.order == "iFdd"
        assert all(len(f.values) == 0 for f in reader.frames[1:])


async def test_heartbeats_come_with_the_readings() -> None:
    session = FakeSession("mlx5_0")
    async with Running(FakeCollector(mlx5_0=session), config=Config(interval=1.0)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        await until(lambda: session.reads == 2)
        await asyncio.sleep(0.4)  # the stream begins between two readings
        async with follow(running) as reader:
            ages = []
            while len(reader.frames) < 8:
                if isinstance(await reader.next(), frame.Frame):
                    ages.append(asyncio.get_running_loop().time() - reader.frames[-1].taken[0])
            assert min(ages[:2]) > 0.3
            assert min(ages[-4:]) < 0.2, ages


async def test_a_new_device_sends_a_new_inventory_and_all_values() -> None:
    collector = FakeCollector(mlx5_0=FakeSession("mlx5_0"))
    async with Running(collector, config=Config(rediscover=0.05)) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        collector.found["mlx5_1"] = FakeSession("mlx5_1")
        await reader.until(lambda: len(reader.values) == 4)
        assert reader.order.count("i") == 2
        assert "iF" in reader.order[2:]


async def test_an_event_comes_at_once_and_so_does_the_read_after_it() -> None:
    session = FakeSession("eth0", ("carrier",))
    session.values = [1.0]
    collector = FakeCollector(eth0=session)
    async with Running(collector, config=SLOW) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        loop = asyncio.get_running_loop()
        waits = []
        for down in (0.0, 1.0, 0.0, 1.0, 0.0):
            before = loop.time()
            session.values = [down]
            collector.notify(Event(0, 1.0, "link", "eth0", "eth0 changed"))
            await reader.until(lambda down=down: reader.values[0] == down)
            waits.append(loop.time() - before)
        assert len(reader.events) == 5
        assert [e.seq for e in reader.events] == sorted({e.seq for e in reader.events})
        # without the wake-up each would wait for the heartbeat: half of it on average
        assert sorted(waits)[2] < HEARTBEAT / 2, waits


async def test_a_server_that_comes_back_gets_the_events_it_missed() -> None:
    collector = FakeCollector(eth0=FakeSession("eth0"))
    async with Running(collector, config=SLOW, max_events=4) as running:
        await running.agent.node.schedule.board.first_round.wait()
        for n in range(3):
            collector.notify(Event(0, float(n), "link", "eth0", f"event {n}"))
        await until(lambda: len(list(running.agent.node.state.events_after(0))) == 3)
        first = next(iter(running.agent.node.state.events_after(0))).seq

        async def texts(after: str) -> list[str]:
            async with follow(running, after) as reader:
                await reader.until(lambda: len(reader.frames) == 2)
                return [e.text for e in reader.events]

        assert await texts("") == []
        assert await texts(f"?after={first}") == ["event 1", "event 2"]
        assert await texts("?after=0") == ["event 0", "event 1", "event 2"]
        # a number of an agent whose clock was ahead: what it missed is not known, so it gets what there is
        assert await texts(f"?after={10**15}") == ["event 0", "event 1", "event 2"]
        for n in range(3, 9):
            collector.notify(Event(0, float(n), "link", "eth0", f"event {n}"))
        await until(lambda: running.agent.node.state.event_seq == first + 8)
        assert await texts("?after=0") == ["event 5", "event 6", "event 7", "event 8"]


async def test_a_reader_that_does_not_read_gets_the_newest_afterwards_not_a_queue() -> None:
    columns = tuple(f"raw:x/{n}" for n in range(20_000))  # 160 kB a frame: a few fill the socket
    session = FakeSession("mlx5_0", columns)
    async with Running(FakeCollector(mlx5_0=session), config=Config(interval=0.02)) as running:
        await running.agent.node.schedule.board.first_round.wait()
        host, port = running.agent.addresses[0]
        slow_in, slow_out = await asyncio.open_connection(host, port, limit=4096)
        slow_out.write(b"GET /stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        async with follow(running) as quick:
            while len(quick.frames) < 30:
                session.values = [float(len(quick.frames))] * len(columns)
                running.agent.api.wake()
                await quick.next()
            ws = running.agent.api._streams[0].ws
            # What waits for the slow one in this process is one message, however many the quick one has got.
            assert ws._req is not None
            assert ws._req.transport is not None
            assert ws._req.transport.get_write_buffer_size() < 2 * 8 * len(columns)
            assert running.agent.node.state.snapshot.values[0] >= 25.0
        slow_out.close()
        assert slow_in is not None


async def test_streams_are_bounded_and_a_place_is_free_again() -> None:
    async with Running(FakeCollector(), max_streams=2) as running:
        async with follow(running) as a, follow(running) as b:
            await a.next()
            await b.next()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with follow(running):
                    pass
            assert refused.value.status == 503
        await until(lambda: not running.agent.api._streams)
        async with follow(running) as c:
            assert isinstance(await c.next(), Inventory)


async def test_the_end_of_the_agent_is_said() -> None:
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0"))) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        running._task.cancel()
        await reader.until(lambda: reader.goodbye is not None)
        assert reader.goodbye == "agent stops"
        assert await reader.next() is None


async def test_a_reader_who_talks_is_sent_away() -> None:
    async with Running(FakeCollector()) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        await reader.ws.send_str("hello")
        await reader.until(lambda: reader.ws.closed)
        assert reader.ws.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_a_reader_that_pings_without_end_is_sent_away() -> None:
    async with Running(FakeCollector()) as running, follow(running) as reader:
        await reader.until(lambda: reader.frames)
        with contextlib.suppress(ConnectionError):
            for _ in range(2 * MAX_CONTROL):
                await reader.ws.ping()
        ends = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING)
        async with asyncio.timeout(60):
            while (message := await reader.ws.receive()).type not in ends:
                await asyncio.sleep(0)
        assert message.data == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_a_peer_that_floods_is_cut_off_before_its_pings_are_read_and_others_are_served() -> None:
    pings = bytes([0x89, 0x80, 1, 2, 3, 4]) * 100_000
    async with Running(FakeCollector()) as running, aiohttp.ClientSession() as http:
        where = running.agent.addresses[0]
        for _ in range(2):  # the second time there is no budget left for a request
            reader, writer = await asyncio.open_connection(where.host, where.port, local_addr=("127.0.0.2", 0))
            writer.write(UPGRADE + pings)
            got = b""
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(60):
                    got = await reader.read()
            writer.close()
            assert got.count(bytes([0x8A, 0])) <= MAX_CONTROL, "no more pongs than one stream gets"
        async with http.get(running.url("/metrics")) as answer:
            page = await answer.text()
    [refused] = [line for line in page.splitlines() if 'refused_total{reason="flood"}' in line]
    assert float(refused.rpartition(" ")[2]) >= 2


async def test_a_reader_that_leaves_before_its_answer_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    reset = struct.pack("ii", 1, 0)  # SO_LINGER of 0 s
    async with Running(FakeCollector()) as running:
        for _ in range(20):
            with socket.create_connection(running.agent.addresses[0]) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                gone.sendall(UPGRADE)
            await asyncio.sleep(0.01)
        await until(lambda: not running.agent.api._streams)
        async with follow(running) as reader:
            assert isinstance(await reader.next(), Inventory)
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_ping_now_and_then_is_answered() -> None:
    async with (
        Running(FakeCollector()) as running,
        aiohttp.ClientSession() as http,
        http.ws_connect(running.url("/stream"), max_msg_size=0, autoping=False) as ws,
        asyncio.timeout(60),
    ):
        await ws.ping(b"there?")
        while (message := await ws.receive()).type is not aiohttp.WSMsgType.PONG:
            await asyncio.sleep(0)
        assert bytes(message.data) == b"there?"


@pytest.mark.parametrize(("path", "status"), [
    ("/stream", 426), ("/stream?after=x", 400), ("/stream?after=-1", 400), ("/", 200), ("/health", 200),
    ("/-/live", 200), ("/-/healthy", 200), ("/-/ready", 200), ("/nowhere", 404),
])
async def test_plain_requests(path: str, status: int) -> None:
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0"))) as running, aiohttp.ClientSession() as http:
        await running.agent.node.schedule.board.first_round.wait()
        async with http.get(running.url(path)) as answer:
            assert answer.status == status


async def test_not_ready_before_the_first_round_yet_alive_and_answering() -> None:
    session = FakeSession("mlx5_0")
    session.gate.clear()
    async with Running(FakeCollector(mlx5_0=session), config=SLOW) as running, aiohttp.ClientSession() as http:
        for path, status in (("/-/ready", 503), ("/-/live", 200), ("/metrics", 200), ("/health", 200)):
            async with http.get(running.url(path)) as answer:
                assert answer.status == status, path
        session.gate.set()
        await running.agent.node.schedule.board.first_round.wait()
        async with http.get(running.url("/-/ready")) as answer:
            assert answer.status == 200


async def test_health_tells_stuck_and_failing_sources() -> None:
    good, bad = FakeSession("mlx5_0"), FakeSession("mlx5_1")
    bad.gate.clear()
    async with (
        Running(FakeCollector(mlx5_0=good, mlx5_1=bad), config=Config(deadline=0.05)) as running,
        aiohttp.ClientSession() as http,
    ):
        await running.agent.node.schedule.board.first_round.wait()
        async with http.get(running.url("/health")) as answer:
            health = await answer.json()
        assert health["node"] == "host-007"
        assert health["status"] == "unknown"  # evaluation is off
        by_device = {c["device"]: c for c in health["collectors"]}
        assert by_device["mlx5_0"]["success"] is True
        assert by_device["mlx5_1"]["success"] is False
        assert by_device["mlx5_1"]["stuck_since"] is not None
        assert by_device["mlx5_1"]["last_success"] is None
        bad.gate.set()
