"""The webhook as a receiver sees it, over a real connection."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.notify.links import IncidentLinks
from fabricmon.senders import webhook
from fabricmon.senders.attempt import DeliveryOutcome
from fabricmon.senders.post import classify
from fabricmon.senders.webhook import WebhookConfig
from fabricmon.units import Duration
from tests.notify.made import T0, incident, note
from tests.rigs.daemons import free_port
from tests.rigs.served import serve


@dataclass
class Hook:
    url: str = ""
    answers: list[Callable[[], web.Response]] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()

    async def take(request: web.Request) -> web.Response:
        made.got.append((dict(request.headers), await request.read()))
        return made.answers.pop(0)() if made.answers else web.Response(status=204)

    app = web.Application()
    app.router.add_post("/hook", take)
    async with await serve(app) as served:
        made.url = f"{served.url}/hook"
        yield made


Send = Callable[..., Awaitable[webhook.Attempt]]


@pytest.fixture
async def send() -> AsyncIterator[Send]:
    async with aiohttp.ClientSession() as session:

        async def attempt(config: WebhookConfig, key: str = "k1") -> webhook.Attempt:
            return await webhook.send(
                session, config, note(key, incident(confidence=float("nan"))), IncidentLinks("http://page/")
            )

        yield attempt


async def test_the_body_has_the_documented_fields(hook: Hook, send: Send) -> None:
    result = await send(WebhookConfig(hook.url, headers={"X-Team": "fabric"}))
    assert result.outcome is DeliveryOutcome.DONE
    [(headers, raw)] = hook.got
    assert headers["Idempotency-Key"] == "k1"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("fabricmon/")
    assert headers["X-Team"] == "fabric"
    assert "X-Fabricmon-Signature" not in headers
    body = json.loads(raw)
    assert (body["version"], body["key"], body["reason"]) == ("1", "k1", "new incident")
    [told] = body["incidents"]
    assert told["since"] == "2027-01-15T08:00:00.000Z"
    assert told["confidence"] is None, "unknown is null, not a number"
    assert told["members"] == {"bad": 1, "of": 1}
    assert told["labels"] == {"rack": "r7"}
    assert told["url"] == "http://page/#i-1"
    assert told["evidence"][0] == {
        "component": "host-007/mlx5_3/1",
        "text": "3 downs, weighted by age 2.9",
        "formula": "P = 1000/down",
        "value": 2.941,
        "limit": 2.0,
        "unit": "",
        "for": True,
    }
    assert told["evidence"][1]["value"] is None
    issue = {"id", "status", "severity", "kind", "component", "since", "confidence", "title", "why", "action"}
    assert issue | {"evidence", "members", "labels"} <= set(told)


async def test_the_signature_proves_body_and_time(hook: Hook, send: Send, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    await send(WebhookConfig(hook.url, secret_file=str(tmp_path / "secret")))
    [(headers, raw)] = hook.got
    signed = headers["X-Fabricmon-Timestamp"].encode() + b"." + raw
    expected = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert headers["X-Fabricmon-Signature"] == f"sha256={expected}"


async def test_a_token_is_sent_and_read_anew_each_time(hook: Hook, send: Send, tmp_path: Path) -> None:
    token = tmp_path / "token"
    config = WebhookConfig(hook.url, token_file=str(token))
    assert (await send(config)).outcome is DeliveryOutcome.RETRY, "the file may come back"
    for text in ("one", "two"):
        token.write_text(text)
        await send(config)
    assert [h["Authorization"] for h, _ in hook.got] == ["Bearer one", "Bearer two"]


async def test_an_attempt_repeated_has_the_same_bytes_and_key(hook: Hook, send: Send) -> None:
    await send(WebhookConfig(hook.url))
    await send(WebhookConfig(hook.url))
    first, second = hook.got
    assert first[1] == second[1]
    assert first[0]["Idempotency-Key"] == second[0]["Idempotency-Key"]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, DeliveryOutcome.DONE),
        (204, DeliveryOutcome.DONE),
        (302, DeliveryOutcome.RETRY),
        (400, DeliveryOutcome.NEVER),
        (401, DeliveryOutcome.NEVER),
        (404, DeliveryOutcome.NEVER),
        (408, DeliveryOutcome.RETRY),
        (413, DeliveryOutcome.NEVER),
        (429, DeliveryOutcome.RETRY),
        (500, DeliveryOutcome.RETRY),
        (503, DeliveryOutcome.RETRY),
    ],
)
async def test_an_answer_decides(hook: Hook, send: Send, status: int, outcome: DeliveryOutcome) -> None:
    headers = {"Location": hook.url} if status == 302 else {}
    hook.answers.append(lambda: web.Response(status=status, text="what is wrong", headers=headers))
    result = await send(WebhookConfig(hook.url))
    assert result.outcome is outcome
    assert len(hook.got) == 1, "redirects are not followed"
    assert outcome is DeliveryOutcome.DONE or f"HTTP {status}: what is wrong" in result.reason


async def test_retry_after_is_honoured(hook: Hook, send: Send) -> None:
    hook.answers.append(lambda: web.Response(status=429, headers={"Retry-After": "17"}))
    assert (await send(WebhookConfig(hook.url))).retry_after == 17.0
    assert classify(503, "", "Fri, 15 Jan 2027 08:00:30 GMT", T0).retry_after == 30.0
    for nonsense in ("soon", "nan", "inf", "-5", "Fri, 99 Foo 2027"):
        assert classify(503, "", nonsense, T0).retry_after in (None, 0.0)


async def test_nobody_there_is_a_reason_to_try_again(send: Send) -> None:
    result = await send(WebhookConfig(f"http://127.0.0.1:{free_port()}/"))
    assert result.outcome is DeliveryOutcome.RETRY
    assert "Connect" in result.reason


async def test_a_receiver_that_never_answers_costs_the_timeout_only(hook: Hook, send: Send) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()  # until the sender gives up
        finally:
            writer.close()
            ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    result = await send(WebhookConfig(f"http://127.0.0.1:{port}/", timeout=Duration(0.2)))
    server.close()
    await ended.wait()
    assert result.outcome is DeliveryOutcome.RETRY
    assert "0.2 s" in result.reason


@given(st.integers(100, 999), st.text(max_size=300), st.text(max_size=40))
def test_any_answer_is_understood(status: int, text: str, retry_after: str) -> None:
    result = classify(status, text, retry_after, T0)
    assert len(result.reason) < 300
    assert (result.outcome is DeliveryOutcome.DONE) == (200 <= status < 300)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"url": "ftp://x"}, "url"),
        ({"url": "receiver:80"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"url": "http://me:secret@receiver/"}, "not contain user or password"),
        ({"headers": {"Idempotency-Key": "x"}}, "Idempotency-Key"),
        ({"headers": {"X Y": "x"}}, "X Y"),
        ({"headers": {"X": "a\nb"}}, "headers"),
        ({"timeout": Duration(0)}, "timeout"),
        ({"match": ("kind",)}, "match"),
    ],
)
def test_a_bad_setting_is_refused_by_its_name(change: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        WebhookConfig(**{"url": "http://receiver/", **change})  # type: ignore[arg-type]
