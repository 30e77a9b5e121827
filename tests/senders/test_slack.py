"""Slack as its service sees us: an incoming webhook, and a bot with threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Severity
from fabricmon.notify.batch import DIGEST, MAX_DIGEST
from fabricmon.notify.links import NO_LINKS
from fabricmon.senders import slack
from fabricmon.senders.attempt import Attempt, DeliveryOutcome
from fabricmon.senders.slack_message import escape
from fabricmon.units import Duration
from tests.notify.made import T0, incident
from tests.senders.incidents import LINKS, ended, leaf, telling
from tests.senders.service import Service

SECRET = "B0123/xyzSECRETxyz"


class Slack(Service):
    """The Web API: keeps messages by ts, refuses what Slack refuses."""

    def __init__(self) -> None:
        super().__init__(usual=self.answer)
        self.messages: dict[str, dict[str, Any]] = {}

    def answer(self, body: dict[str, Any]) -> web.Response:
        for attachment in body.get("attachments", []):
            check_blocks(attachment["blocks"])
        if not body.get("text") or body.get("channel") not in ("#fabric", "C01"):
            return web.json_response({"ok": False, "error": "channel_not_found"})
        if "ts" in body:  # chat.update
            if body["ts"] not in self.messages:
                return web.json_response({"ok": False, "error": "message_not_found"})
            self.messages[body["ts"]] |= body
            return web.json_response({"ok": True, "ts": body["ts"], "channel": "C01"})
        ts = f"1800000000.{len(self.messages):06}"
        self.messages[ts] = dict(body)
        # Slack repeats the message: the answer is longer than what we sent.
        return web.json_response({"ok": True, "ts": ts, "channel": "C01", "message": body, "pad": "x" * 5000})


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    """The shape of Block Kit that we use, with its limits."""
    assert 1 <= len(blocks) <= 50
    for block in blocks:
        assert set(block) == {"type", "text"}
        assert block["type"] == "section"
        assert set(block["text"]) == {"type", "text"}
        assert block["text"]["type"] == "mrkdwn"
        assert 1 <= len(block["text"]["text"]) <= 3000
    assert sum(len(block["text"]["text"]) for block in blocks) <= 13_000


async def sent(config: slack.SlackConfig, note: Any, receipts: Any = None, links: Any = LINKS) -> Attempt:
    async with aiohttp.ClientSession() as session:
        return await slack.send(session, config, note, links, receipts or {})


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("xoxb-1-SECRET\n")
    return tmp_path


def bot(service: Service, secrets: Path, **changes: Any) -> slack.SlackConfig:
    fields: dict[str, Any] = {"token_file": str(secrets / "token"), "channel": "#fabric", "api": f"{service.url}/api"}
    return slack.SlackConfig(**{**fields, **changes}, timeout=Duration(5))


def hook(service: Service, secrets: Path, **changes: Any) -> slack.SlackConfig:
    (secrets / "url").write_text(f"{service.url}/services/{SECRET}\n")
    return slack.SlackConfig(url_file=str(secrets / "url"), timeout=Duration(5), **changes)


# ---------------------------------------------------------------- incoming webhook


async def test_a_webhook_gets_one_message_an_incident(secrets):
    async with Service() as service:
        result = await sent(hook(service, secrets), telling(leaf(), incident("b")))
        assert result.outcome is DeliveryOutcome.DONE
        assert [got.path for got in service.got] == [f"/services/{SECRET}"] * 2
        message = service.got[0].body
        assert "Leaf su1/rail2 is down" in message["text"]
        assert "https://fabricmon.example/#5f1d6d0f3c2b9a47" in message["text"]
        check_blocks(message["attachments"][0]["blocks"])
        assert "train-70b (4711, mara) crashes" in json.dumps(message)


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (200, "ok", DeliveryOutcome.DONE),
        (400, "invalid_payload", DeliveryOutcome.NEVER),
        (403, "action_prohibited", DeliveryOutcome.RETRY),  # for the site to put right; what waits is told then
        (404, "no_service", DeliveryOutcome.RETRY),
        (410, "channel_is_archived", DeliveryOutcome.RETRY),
        (429, "rate_limited", DeliveryOutcome.RETRY),
        (500, "rollup_error", DeliveryOutcome.RETRY),
    ],
)
async def test_what_an_answer_of_the_webhook_means(status, text, outcome, secrets):
    async with Service(usual=lambda _: web.Response(status=status, text=text, headers={"Retry-After": "7"})) as service:
        result = await sent(hook(service, secrets), telling(leaf()))
    assert result.outcome is outcome
    assert outcome is DeliveryOutcome.DONE or text in result.reason
    assert status != 429 or result.retry_after == 7.0


async def test_half_of_a_notification_is_not_reported_twice(secrets):
    async with Service() as service:
        service.answers = [lambda _: web.Response(), lambda _: web.Response(status=503)]
        note = telling(leaf(), incident("b"))
        first = await sent(hook(service, secrets), note)
        assert first.outcome is DeliveryOutcome.RETRY
        again = await sent(hook(service, secrets), note, first.receipts)
        assert again.outcome is DeliveryOutcome.DONE
    assert ["Leaf" in got.body["text"] for got in service.got] == [True, False, False]


async def test_the_address_is_a_secret(secrets):
    async with Service(usual=lambda _: web.Response(status=500, text=f"no {service.url}/services/{SECRET}")) as service:
        assert SECRET not in (await sent(hook(service, secrets), telling(leaf()))).reason
    (secrets / "url").write_text(f"not an address {SECRET}")
    result = await sent(slack.SlackConfig(url_file=str(secrets / "url")), telling(leaf()))
    assert result.outcome is DeliveryOutcome.RETRY
    assert SECRET not in result.reason
    assert SECRET not in slack.preview(slack.SlackConfig(url_file=str(secrets / "url")), telling(leaf()), LINKS)


# ---------------------------------------------------------------- bot


async def test_an_incident_lives_in_one_thread(secrets):
    async with Slack() as service:
        config, fault = bot(service, secrets, mention="<!here>"), leaf(severity=Severity.WARNING)
        first = await sent(config, telling(fault))
        assert first.outcome is DeliveryOutcome.DONE
        assert service.got[0].headers["Authorization"] == "Bearer xoxb-1-SECRET"
        receipts = dict(first.receipts)

        for reason, told in (
            ("severity rose", leaf()),
            ("acknowledged", leaf(history=(HistoryEntry(T0 + 60, "acknowledged", "by mara: on it"),))),
            ("resolved", ended(leaf())),
        ):
            result = await sent(config, telling(told, reason=reason, key=f"key-{reason}"), receipts)
            assert result.outcome is DeliveryOutcome.DONE
            receipts |= result.receipts
    (root, *replies) = service.messages.values()
    assert [m.get("thread_ts") for m in replies] == ["1800000000.000000"] * 3
    assert [m.get("reply_broadcast") for m in replies] == [True, False, False]
    assert replies[0]["text"].startswith("<!here> ")
    assert "acknowledged by mara: on it" in replies[1]["text"]
    assert "resolved after 10 min" in replies[2]["text"]
    assert "[RESOLVED]" in root["text"]  # the first message shows how it stands
    assert root["attachments"][0]["color"] == "#2e7d32"
    methods = [got.path.rsplit("/")[-1] for got in service.got]
    assert methods == ["chat.postMessage", *["chat.update", "chat.postMessage"] * 3]


async def test_what_comes_back_later_gets_a_message_of_its_own(secrets):
    async with Slack() as service:
        config = bot(service, secrets)
        first = await sent(config, telling(leaf()))
        await sent(config, telling(leaf(), key="another episode"), first.receipts)
    assert [m.get("thread_ts") for m in service.messages.values()] == [None, None]


async def test_many_come_as_one_digest_and_end_in_its_thread(secrets):
    many = [incident(f"i-{n}", title=f"Link {n} flaps") for n in range(40)]
    async with Slack() as service:
        config = bot(service, secrets)
        first = await sent(config, telling(*many))
        assert len(service.messages) == 1
        assert len(first.receipts) == 40
        body = service.got[0].body
        assert "40 incidents" in body["text"]
        assert "Link 39 flaps" in json.dumps(body)
        await sent(config, telling(ended(many[7]), reason="resolved", key="end"), first.receipts)
    (root, reply) = service.messages.values()
    assert reply["thread_ts"] == "1800000000.000000"
    assert "40 incidents" in root["text"]  # the digest is about others too and stays


async def test_a_digest_is_one_message_and_every_first_message_shows_the_state(secrets):
    known = [incident(f"i-{n}", title=f"Link {n} flaps") for n in range(2)]
    new = incident("new", title="Link new flaps")
    async with Slack() as service:
        config = bot(service, secrets)
        first = await sent(config, telling(*known))
        digest = telling(ended(known[0]), known[1], new, reason=DIGEST, key="digest")
        digest = replace(digest, before={id: at for id, at in digest.before.items() if id != "new"})
        # Slack asks for a pause after the first update; what was done is done again, and posted once
        service.answers = [service.answer, lambda _: web.json_response({"ok": False, "error": "ratelimited"})]
        again = await sent(config, digest, first.receipts)
        assert again.outcome is DeliveryOutcome.RETRY
        last = await sent(config, digest, {**first.receipts, **again.receipts})
        assert last.outcome is DeliveryOutcome.DONE
        assert set(last.receipts) == {"i-0", "i-1", "new"}
        await sent(config, telling(ended(new), reason="resolved", key="end"), {**first.receipts, **last.receipts})
    *roots, made, reply = service.messages.values()
    assert ["[RESOLVED]" in m["text"] for m in roots] == [True, False]
    assert made["text"] == "*[WARNING] digest: 2 firing, 1 resolved*"
    assert all(f"Link {name} flaps" in json.dumps(made) for name in ("0", "1", "new"))
    assert service.messages[reply["thread_ts"]] is made


def test_a_digest_names_every_incident_however_long_its_words_are():
    many = [incident(f"i-{n:03}", title=f"{n:03} " + "&" * 300) for n in range(MAX_DIGEST)]
    (message,) = slack.messages(slack.SlackConfig(url_file="/dev/null"), telling(*many, reason=DIGEST), LINKS).values()
    check_blocks(message["attachments"][0]["blocks"])
    written = json.dumps(message)
    assert all(f"] {n:03} " in written for n in range(MAX_DIGEST))
    assert "more_" not in written


async def test_a_message_that_somebody_deleted_does_not_stop_the_word(secrets):
    async with Slack() as service:
        config = bot(service, secrets)
        first = await sent(config, telling(leaf()))
        service.answers = [lambda _: web.json_response({"ok": False, "error": "message_not_found"})]
        result = await sent(config, telling(ended(leaf()), reason="resolved", key="end"), first.receipts)
    assert result.outcome is DeliveryOutcome.DONE


@pytest.mark.parametrize(
    ("error", "outcome", "answered"),
    [("ratelimited", DeliveryOutcome.RETRY, True), ("internal_error", DeliveryOutcome.RETRY, True),
     ("invalid_auth", DeliveryOutcome.RETRY, False), ("not_in_channel", DeliveryOutcome.RETRY, False),
     ("msg_blocks_too_long", DeliveryOutcome.NEVER, True)],
)  # fmt: skip
async def test_what_an_error_of_the_api_means(error, outcome, answered, secrets):
    async with Service(usual=lambda _: web.json_response({"ok": False, "error": error})) as service:
        result = await sent(bot(service, secrets), telling(leaf()))
    assert (result.outcome, result.answered) == (outcome, answered)
    assert error in result.reason


async def test_something_that_is_not_slack(secrets):
    async with Service(usual=lambda _: web.Response(text="<html>")) as service:
        assert (await sent(bot(service, secrets), telling(leaf()))).outcome is DeliveryOutcome.RETRY


async def test_whom_to_call(secrets):
    async with Slack() as service:
        config = bot(service, secrets, mention="<!subteam^S01>")
        await sent(config, telling(incident("a"), leaf("b")))
    a, b = service.messages.values()
    assert "subteam" not in a["text"]  # a warning
    assert b["text"].startswith("<!subteam^S01> ")


# ---------------------------------------------------------------- messages


def test_names_cannot_call_anybody_or_link_anywhere():
    fault = leaf(title="<!channel> <https://evil|x> & co", component="*leaf* <@U1>")
    (message,) = slack.messages(slack.SlackConfig(url_file="/dev/null"), telling(fault), LINKS).values()
    written = json.dumps(message)
    for bad in ("<!channel>", "<https://evil", "<@U1>"):
        assert bad not in written
    assert escape("<!channel>") in written


def test_the_longest_incident_fits():
    fault = leaf(why="w" * 50_000, action="&" * 50_000, title="t" * 900, candidates=tuple("c" * 300 for _ in range(99)))
    config = slack.SlackConfig(url_file="/dev/null", body="{why}{why}{action}\n" * 80)
    (message,) = slack.messages(config, telling(fault), LINKS).values()
    check_blocks(message["attachments"][0]["blocks"])
    assert "more_\n*Server:* central-a" in message["attachments"][0]["blocks"][-1]["text"]["text"]
    hundred = telling(*[leaf(str(n), title="<" * 900) for n in range(100)])
    many = slack.messages(slack.SlackConfig(url_file="/dev/null"), hundred, LINKS)
    check_blocks(next(iter(many.values()))["attachments"][0]["blocks"])


def test_without_a_page_there_are_no_links():
    (message,) = slack.messages(slack.SlackConfig(url_file="/dev/null"), telling(leaf()), NO_LINKS).values()
    assert "http" not in json.dumps(message)


@pytest.mark.parametrize(
    ("fields", "word"),
    [({}, "url_file"), ({"url_file": "/a", "token_file": "/b", "channel": "c"}, "either"),
     ({"token_file": "/b"}, "channel"), ({"url_file": "/a", "mention": "<!everyone> hi"}, "mention"),
     ({"url_file": "/a", "title": "{tittle}"}, "column 1"),
     ({"url_file": "/a", "body": "x\n{0}"}, "line 2"), ({"url_file": "/a", "title": "a\nb"}, "one line"),
     ({"url_file": "/a", "digest": Duration(-1)}, "digest"), ({"url_file": "/a", "repeat": Duration(1)}, "repeat"),
     ({"url_file": "/a", "after": Duration(9e9)}, "after")],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        slack.SlackConfig(**fields)
