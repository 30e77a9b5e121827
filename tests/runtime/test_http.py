"""The listener: addresses, limits and an end in time."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from fabricmon.runtime.address import Address, parse_address
from fabricmon.runtime.door import Door
from fabricmon.runtime.http import add_probes, listen


@pytest.mark.parametrize(("text", "address"), [
    ("127.0.0.1:9790", ("127.0.0.1", 9790)), (":9790", ("", 9790)), ("[::1]:80", ("::1", 80)),
    ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)), ("host-1.example:0", ("host-1.example", 0)),
])
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert parse_address(str(parse_address(text))) == address


@pytest.mark.parametrize("text", ["", "9790", "host", "host:", "host:99999", "::1:80", "http://x:1", "a b:1", "[::1]"])
def test_what_is_no_address_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match="expected an address such as"):
        parse_address(text)


def application() -> web.Application:
    async def slow(_request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    app = web.Application(client_max_size=1000)
    app.router.add_get("/slow", slow)
    app.router.add_post("/echo", echo)
    return app


async def test_probes_tell_the_reason() -> None:
    app = application()
    reason: list[str | None] = ["first round"]
    add_probes(app, lambda: None, lambda: reason[0])
    listener = await listen(app, ["127.0.0.1:0"])
    async with aiohttp.ClientSession(f"http://{listener.addresses[0]}") as http:
        async with http.get("/-/ready", headers={"Host": "anything.example"}) as answer:
            assert (answer.status, await answer.text()) == (503, "first round\n")
        reason[0] = None
        for path in ("/-/ready", "/-/live", "/-/healthy"):
            async with http.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
    await listener.close()


async def test_bodies_and_headers_are_limited() -> None:
    listener = await listen(application(), ["127.0.0.1:0"])
    async with aiohttp.ClientSession(f"http://{listener.addresses[0]}") as http:
        async with http.post("/echo", data=b"x" * 999) as answer:
            assert answer.status == 200
        async with http.post("/echo", data=b"x" * 2000) as answer:
            assert answer.status == 413
        async with http.get("/echo", headers={"X": "y" * 20_000}) as answer:
            assert answer.status == 400
    await listener.close()


async def test_connections_are_limited_and_a_place_is_free_again() -> None:
    listener = await listen(application(), ["127.0.0.1:0"], door=Door(max_connections=2))
    host, port = listener.addresses[0]
    held = [await asyncio.open_connection(host, port) for _ in range(2)]
    await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection(host, port)
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    held[0][1].close()
    await held[0][1].wait_closed()
    async with aiohttp.ClientSession(f"http://{listener.addresses[0]}") as http, asyncio.timeout(60):
        while True:
            try:
                async with http.post("/echo", data=b"x") as answer:
                    assert answer.status == 200
                    break
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.01)
    held[1][1].close()
    await listener.close()


async def test_an_address_that_is_taken_keeps_none() -> None:
    first = await listen(application(), ["127.0.0.1:0"])
    with pytest.raises(OSError):
        await listen(application(), ["127.0.0.1:0", str(first.addresses[0])])
    await first.close()
    assert isinstance(first.addresses[0], Address)


async def test_a_request_that_hangs_does_not_hold_up_the_end() -> None:
    listener = await listen(application(), ["127.0.0.1:0"], grace=0.1)
    async with aiohttp.ClientSession(f"http://{listener.addresses[0]}") as http:
        waiting = asyncio.create_task(http.get("/slow"))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(60):
            await listener.close()
            with pytest.raises(aiohttp.ClientError):
                await waiting
