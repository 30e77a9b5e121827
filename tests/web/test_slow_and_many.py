"""Peers that are slow on purpose or too many: they lose their place, others do not notice."""

import asyncio
import contextlib
import ssl
import subprocess
import sys

import aiohttp
import pytest

from fabricmon.runtime import door
from fabricmon.runtime.door import Door, Seldom, peer_of
from tests.agent.fakes import FakeCollector, Running
from tests.web.conftest import client, status, until


async def ended(reader, patience=120):
    """What came before the peer closed or cut the connection."""
    async with asyncio.timeout(patience):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("sent", [b"", b"GE", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n"])
async def test_headers_that_never_end_cost_one_place_for_a_while(serve, sent):
    at = await serve(door={"header_limit": 0.2})
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(sent)
    assert await ended(reader) == b""
    assert at.gate.door.refused["slow_request"] == 1
    writer.close()
    await until(lambda: at.gate.door.open == 0)


async def test_a_drop_at_a_time_is_no_way_in(serve):
    at = await serve(door={"header_limit": 0.3})
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    writer.write(b"GET / HTTP/1.1\r\n")

    async def drip():
        for n in range(1000):
            writer.write(b"X-%d: 1\r\n" % n)
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    assert await ended(reader) == b""
    dripping.cancel()
    assert at.gate.door.refused["slow_request"] == 1
    writer.close()


async def test_a_second_request_is_timed_too_and_waiting_between_two_is_not(serve):
    at = await serve(door={"header_limit": 0.2})
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    for _ in range(2):
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)
    writer.write(b"GET /metr")
    await ended(reader)
    assert at.gate.door.refused["slow_request"] == 1
    writer.close()


async def test_a_stream_that_says_nothing_is_no_slow_request(serve):
    at = await serve(door={"header_limit": 0.1})
    async with aiohttp.ClientSession() as http, http.ws_connect(f"http://{at.address}/stream") as stream:
        await asyncio.sleep(0.4)
        await stream.send_str("here")
        assert await stream.receive_str(timeout=120) == "here"
        await asyncio.sleep(0.3)
        await stream.send_str("here")
        assert await stream.receive_str(timeout=120) == "here"


async def test_a_handshake_that_is_not_finished_costs_one_place_for_a_while(serve, server, monkeypatch):
    monkeypatch.setattr(door, "HANDSHAKE_LIMIT", 0.2)
    at = await serve({"tls_server_config": {"cert_file": str(server.cert), "key_file": str(server.key)}})
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
    await until(lambda: at.gate.door.open == 1)
    assert await ended(reader) == b""
    await until(lambda: at.gate.door.open == 0 and not at.gate.door.handshakes)
    assert at.gate.door.refused["handshake"] == 1
    writer.close()


async def test_handshakes_under_way_are_limited(serve, authority, server, monkeypatch):
    monkeypatch.setattr(door, "MAX_HANDSHAKES", 2)
    at = await serve({"tls_server_config": {"cert_file": str(server.cert), "key_file": str(server.key)}})
    held = [await asyncio.open_connection("127.0.0.1", at.port) for _ in range(2)]
    await until(lambda: len(at.gate.door.handshakes) == 2)
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await asyncio.open_connection("localhost", at.port, ssl=client(authority.ca))
    assert at.gate.door.refused["handshakes"] == 1
    held[0][1].close()
    await until(lambda: len(at.gate.door.handshakes) == 1)
    assert await status(f"https://localhost:{at.port}/", ssl=client(authority.ca)) == 200
    held[1][1].close()


async def test_silent_handshakes_of_one_peer_shut_nobody_else_out(serve, authority, server):
    at = await serve({"tls_server_config": {"cert_file": str(server.cert), "key_file": str(server.key)}})
    held = [await asyncio.open_connection("127.0.0.1", at.port, local_addr=("127.0.0.2", 0)) for _ in range(80)]
    await until(lambda: at.gate.door.refused["handshakes"] == 80 - door.MAX_HANDSHAKES_PER_PEER)
    assert await status(f"https://localhost:{at.port}/", ssl=client(authority.ca)) == 200
    for _, writer in held:
        writer.transport.abort()


async def test_one_peer_cannot_take_all_places(serve):
    at = await serve(door={"max_connections": 10, "max_per_peer": 3})
    held = [await asyncio.open_connection("127.0.0.1", at.port, local_addr=("127.0.0.2", 0)) for _ in range(3)]
    await until(lambda: at.gate.door.open == 3)
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port, local_addr=("127.0.0.2", 0))
    assert await ended(reader) == b""
    writer.close()
    assert await status(f"http://127.0.0.1:{at.port}/") == 200
    assert at.gate.door.refused["peer_connections"] == 1
    for _, one in held:
        one.close()
    await until(lambda: at.gate.door.open == 0)
    assert at.gate.door._peers == {}


async def test_one_peer_cannot_take_all_streams_of_an_agent():
    async with Running(FakeCollector(), max_streams=4) as running, contextlib.AsyncExitStack() as stack:
        url, kept = running.url("/stream"), []

        async def open_from(address):
            connector = aiohttp.TCPConnector(local_addr=(address, 0))
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            try:
                kept.append(await http.ws_connect(url))
            except aiohttp.WSServerHandshakeError as error:
                return error.status
            return 101

        seen = [await open_from(address) for address in ("127.0.0.2",) * 3 + ("127.0.0.1",) * 3]
        assert seen == [101, 101, 503, 101, 101, 503]


async def test_who_does_not_read_is_cut_off(serve):
    at = await serve(door={"stall_limit": 0.2})
    reader, writer = await asyncio.open_connection("127.0.0.1", at.port, limit=1)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: at.gate.door.refused["slow_reader"] == 1, 30)
    writer.transport.abort()
    await until(lambda: at.gate.door.open == 0)
    assert reader is not None


@pytest.mark.parametrize(("address", "peer"), [
    (("10.0.0.1", 5), "10.0.0.1"), (("2001:db8:1:2:3:4:5:6", 1, 0, 0), "2001:db8:1:2::/64"),
    (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"), (("fe80::1%eth0", 1, 0, 2), "fe80::/64"), ("", ""), (None, ""),
])  # fmt: skip
def test_whom_an_address_counts_for(address, peer):
    assert peer_of(address) == peer


def test_what_happens_often_is_said_seldom():
    seldom = Seldom()
    assert [seldom.due("a", t) for t in (0.0, 1.0, 59.0, 60.0, 61.0)] == [1, 0, 0, 3, 0]
    assert seldom.due("b", 61.0) == 1


def test_an_agent_without_security_settings_imports_none_of_it():
    look = "import sys, fabricmon.agent.app; print(*sorted(m for m in sys.modules if m.startswith('fabricmon.web')))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["fabricmon.web", "fabricmon.web.settings"]


async def test_every_refusal_is_counted_by_a_series_that_was_there_before():
    families = {f.name: f for f in Door().families()}
    reasons = {s.labels["reason"]: s.value for s in families["fabricmon_web_connections_refused"].samples}
    assert reasons == dict.fromkeys(door.REASONS, 0.0)
