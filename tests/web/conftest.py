"""A small application behind a listener with security, and certificates for it."""

import asyncio
import base64
import contextlib
import ssl
from types import SimpleNamespace

import aiohttp
import pytest
import yaml
from aiohttp import web

from fabricmon.runtime.http import add_probes, listen
from fabricmon.web import watched
from fabricmon.web.gate import Gate
from fabricmon.web.settings import WebConfig

# "right" at the least cost, by libxcrypt
RIGHT = "$2y$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC"


@pytest.fixture(scope="session")
def server(authority):
    return authority.issue("server", "DNS:localhost,IP:127.0.0.1")


@pytest.fixture
async def serve(tmp_path, monkeypatch):
    """`await serve({web configuration}, token_file=..., ...)` starts a listener; files are looked at often."""
    monkeypatch.setattr(watched, "PERIOD", 0.05)
    running = []

    async def start(content=None, change_token_file="", external_url="", door=None, **settings):
        if content is not None:
            path = tmp_path / "web.yaml"
            path.write_text(yaml.safe_dump(content))
            settings["config_file"] = str(path)
        gate = Gate(WebConfig(**settings), "central", change_token_file, external_url)
        if door:
            for name, value in door.items():
                setattr(gate.door, name, value)
        app = application(gate.access)
        gate.guard(app)
        listener = await listen(app, ["127.0.0.1:0"], door=gate.door)
        task = asyncio.create_task(gate.run())
        running.append((listener, task))
        return SimpleNamespace(gate=gate, port=listener.addresses[0].port, address=str(listener.addresses[0]),
                               path=tmp_path / "web.yaml")

    yield start
    for listener, task in running:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await listener.close()


def application(who):
    async def stream(request):
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            await ws.send_str(message.data)
        return ws

    async def large(_request):
        return web.Response(body=bytes(32 << 20))

    app = web.Application(client_max_size=1000)
    for path in ("/metrics", "/health", "/", "/api/v1/nodes", "/api/v1/access"):
        app.router.add_get(path, who)
    app.router.add_post("/api/v1/silences", who)
    app.router.add_delete("/api/v1/silences", who)
    app.router.add_get("/stream", stream)
    app.router.add_get("/large", large)
    add_probes(app, lambda: None, lambda: None)
    return app


def client(ca=None, pair=None, **more):
    """A client's TLS context."""
    context = ssl.create_default_context(cafile=str(ca) if ca else None)
    if pair:
        context.load_cert_chain(pair.cert, pair.key)
    for name, value in more.items():
        setattr(context, name, value)
    return context


def basic(user, password="right"):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def status(url, method="GET", **more):
    """The answer's status; None where there was none."""
    try:
        async with aiohttp.ClientSession() as http, http.request(method, url, **more) as answer:
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, ConnectionError):
        return None


async def answer(url, method="GET", **more):
    async with aiohttp.ClientSession() as http, http.request(method, url, **more) as got:
        return got.status, await got.text(), got.headers


async def until(look, patience=120.0):
    async with asyncio.timeout(patience):
        while not look():
            await asyncio.sleep(0.01)
