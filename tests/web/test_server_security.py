"""The whole server in this process: what its own listener and page ask for, and what it tells of itself."""

import asyncio
import contextlib

import aiohttp
import pytest

from fabricmon import config
from fabricmon.central.api import request as api_request
from fabricmon.central.app import Central
from tests.web.conftest import RIGHT, answer, basic, client, status, until

SILENCE = {"matchers": ["kind=link_down"], "duration": "1h"}


@pytest.fixture
async def central(tmp_path):
    """Starts servers; `settings` are of `central:`."""
    running = []

    async def start(**settings):
        given = {"listen": ["127.0.0.1:0"], "state": str(tmp_path / "state"), **settings}
        central = Central(config.load(None, {f"central.{name}": value for name, value in given.items()}))
        task = asyncio.create_task(central.run())
        running.append(task)
        await until(lambda: central.listening.is_set() or task.done())
        if task.done():
            task.result()
        return central, str(central.addresses[0])

    yield start
    for task in running:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_body_that_does_not_come_is_not_waited_for(central, monkeypatch):
    monkeypatch.setattr(api_request, "BODY_LIMIT", 0.2)
    _, address = await central()
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /api/v1/silences HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 50\r\n\r\n{")  # fmt: skip
    async with asyncio.timeout(60):
        assert b"408" in await reader.readline()
    writer.transport.abort()


async def test_the_page_its_stream_and_its_api_over_tls_with_users(central, authority, server, tmp_path):
    path = tmp_path / "web.yaml"
    path.write_text(f"tls_server_config: {{cert_file: {server.cert}, key_file: {server.key}}}\n"
                    f"basic_auth_users: {{mara: {RIGHT}, jon: {RIGHT}}}\n")  # fmt: skip
    central, address = await central(web={"config_file": str(path), "roles": {"mara": "change"}})
    url, trust = f"https://{address}", client(authority.ca)
    mara, jon = map(basic, ("mara", "jon"))
    assert await status(f"{url}/", ssl=trust) == 401
    code, _, headers = await answer(f"{url}/", ssl=trust, headers=jon)
    assert code == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    async with aiohttp.ClientSession() as http, http.get(f"{url}/page/events", ssl=trust, headers=jon) as events:
        assert (await events.content.readline()).startswith(b"event: update")
    assert await status(f"{url}/api/v1/silences", "POST", ssl=trust, headers=jon, json=SILENCE) == 403
    assert await status(f"{url}/api/v1/silences", "POST", ssl=trust, headers=mara, json=SILENCE) == 201
    foreign = {"Origin": "https://evil.example"}
    assert await status(f"{url}/api/v1/silences", "POST", ssl=trust, json=SILENCE, headers={**mara, **foreign}) == 403
    code, text, _ = await answer(f"{url}/api/v1/access", ssl=trust, headers=jon)
    assert (code, text) == (200, '{"caller":"jon","may":"read","ways":["basic"]}')
    page = (await answer(f"{url}/metrics", ssl=trust, headers=jon))[1]
    assert 'fabricmon_web_requests_refused_total{reason="forbidden"} 1' in page
    assert 'fabricmon_web_requests_refused_total{reason="origin"} 1' in page
    path.write_text("basic_auth_users: {mara: plain}\n")
    await central.gate.watched.check_files(_Now())
    await central.gate.watched.check_files(_Now())
    health = (await answer(f"{url}/health", ssl=trust, headers=jon))[1]
    assert "web.yaml:1: basic_auth_users.mara: not a bcrypt hash" in health


class _Now:
    """Stands for a reader's thread: calls at once."""

    async def call(self, function, _limit):
        return function()


async def test_a_certificate_that_has_ended_is_reported_at_health(central, authority, tmp_path):
    old = authority.issue("ended", "DNS:localhost", expired=True)
    path = tmp_path / "web.yaml"
    path.write_text(f"tls_server_config: {{cert_file: {old.cert}, key_file: {old.key}}}\n")
    central, _ = await central(web={"config_file": str(path)})
    assert central.warnings() == ["The certificate of the listener has expired"]
