"""Mails as a mail server gets them: encrypted as agreed, with the right words, in one thread."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from fabricmon.senders import email
from fabricmon.senders.attempt import Attempt, DeliveryOutcome
from fabricmon.units import Duration
from tests.notify.made import incident
from tests.rigs.certificates import Authority
from tests.rigs.mail_server import MailServer
from tests.senders.incidents import LINKS, ended, leaf, telling

PASSWORD = "hunter2-SECRET"


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("mail.test", "IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def config(server: MailServer, **changes: Any) -> email.EmailConfig:
    fields: dict[str, Any] = {
        "host": "127.0.0.1", "port": server.port, "sender": "fabricmon@east.example", "to": ("ops@example.com",),
        "tls": "none", "timeout": Duration(5),
    }  # fmt: skip
    return email.EmailConfig(**{**fields, **changes})


async def sent(config: email.EmailConfig, note: Any, receipts: Mapping[str, str] | None = None) -> Attempt:
    async with aiohttp.ClientSession() as session:
        return await email.send(session, config, note, LINKS, receipts or {})


async def test_a_mail_says_it_in_text_and_html():
    async with MailServer() as server:
        result = await sent(config(server, to=("ops@example.com", "night@example.com")), telling(leaf()))
    assert result.outcome is DeliveryOutcome.DONE, result
    (mail,) = server.mails
    assert (mail.sender, mail.to) == ("fabricmon@east.example", ["ops@example.com", "night@example.com"])
    message = mail.message
    assert message["Subject"] == "[CRITICAL] Leaf su1/rail2 is down: 32 of 32 links"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Importance"] == "high"
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/alternative", "text/plain", "text/html",
    ]  # fmt: skip
    text, html = (message.get_body((kind,)).get_content() for kind in ("plain", "html"))
    for said in (text, html):
        assert "train-70b (4711, mara) crashes" in said
        assert "https://fabricmon.example/#5f1d6d0f3c2b9a47" in said
    assert "<a href=" in html
    assert "src=" not in html  # nothing is loaded from anywhere


async def test_an_incident_is_one_thread():
    async with MailServer() as server:
        made, receipts = config(server), {}
        for reason, told in (("new incident", leaf()), ("severity rose", leaf()), ("resolved", ended(leaf()))):
            result = await sent(made, telling(told, reason=reason, key=f"key-{reason}".replace(" ", "-")), receipts)
            receipts |= result.receipts
    first, *later = [mail.message for mail in server.mails]
    assert first["In-Reply-To"] is None
    assert {m["In-Reply-To"] for m in later} == {m["References"] for m in later} == {first["Message-ID"]}
    assert len({mail.message["Message-ID"] for mail in server.mails}) == 3
    assert server.mails[-1].message["Subject"].startswith("[RESOLVED]")


async def test_what_comes_back_later_begins_a_thread():
    async with MailServer() as server:
        first = await sent(config(server), telling(leaf()))
        await sent(config(server), telling(leaf(), key="another"), first.receipts)
    assert [mail.message["In-Reply-To"] for mail in server.mails] == [None, None]


async def test_the_same_telling_is_the_same_mail():
    async with MailServer() as server:
        for _ in range(2):
            await sent(config(server), telling(leaf()))
    assert server.mails[0].message["Message-ID"] == server.mails[1].message["Message-ID"]
    assert server.mails[0].message["Date"] == server.mails[1].message["Date"]


async def test_many_come_as_one_digest_and_end_in_its_thread():
    many = [incident(f"i-{n}", title=f"Link {n} flaps") for n in range(20)]
    async with MailServer() as server:
        first = await sent(config(server), telling(*many))
        end = telling(ended(many[3]), reason="resolved", key="end")
        await sent(config(server), end, first.receipts)
    digest, reply = (mail.message for mail in server.mails)
    assert digest["Subject"] == "[WARNING] 20 incidents: new incident"
    assert "Link 19 flaps" in digest.get_body(("plain",)).get_content()
    assert reply["In-Reply-To"] == digest["Message-ID"]


async def test_starttls_and_a_password(tls, authority, tmp_path):
    (tmp_path / "password").write_text(PASSWORD + "\n")
    secure = {"tls": "starttls", "user": "fabricmon", "password_file": str(tmp_path / "password"),
              "ca_file": str(authority.ca)}  # fmt: skip
    async with MailServer(tls=tls, password=PASSWORD) as server:
        assert (await sent(config(server, **secure), telling(leaf()))).outcome is DeliveryOutcome.DONE
        assert (server.mails[0].encrypted, server.mails[0].user) == (True, "fabricmon")
        (tmp_path / "password").write_text("wrong-SECRET")
        refused = await sent(config(server, **secure), telling(leaf()))
        assert (refused.outcome, refused.answered) == (DeliveryOutcome.RETRY, False)  # the site can put it right
        assert "535" in refused.reason
        assert "SECRET" not in refused.reason
        (tmp_path / "password").write_text(PASSWORD)  # rotated: used at the next attempt
        assert (await sent(config(server, **secure), telling(leaf()))).outcome is DeliveryOutcome.DONE


async def test_implicit_tls(tls, authority):
    async with MailServer(tls=tls, implicit=True) as server:
        result = await sent(config(server, tls="implicit", ca_file=str(authority.ca)), telling(leaf()))
    assert result.outcome is DeliveryOutcome.DONE, result
    assert server.mails[0].encrypted


async def test_a_server_without_starttls_gets_nothing():
    async with MailServer() as server:
        result = await sent(config(server, tls="starttls"), telling(leaf()))
    assert result.outcome is DeliveryOutcome.RETRY
    assert "STARTTLS" in result.reason
    assert not server.mails
    assert "MAIL" not in server.commands


async def test_a_certificate_that_does_not_fit_is_not_accepted(tls):
    async with MailServer(tls=tls) as server:
        result = await sent(config(server, tls="starttls"), telling(leaf()))
    assert result.outcome is DeliveryOutcome.RETRY
    assert "CERTIFICATE_VERIFY_FAILED" in result.reason
    assert not server.mails


@pytest.mark.parametrize(
    ("verb", "answer", "outcome"),
    [("MAIL", "451 4.3.0 try later", DeliveryOutcome.RETRY), ("MAIL", "550 5.7.1 not you", DeliveryOutcome.NEVER),
     ("RCPT", "450 4.2.0 greylisted", DeliveryOutcome.RETRY), ("RCPT", "550 5.1.1 no such user", DeliveryOutcome.NEVER),
     (".", "452 4.3.1 full", DeliveryOutcome.RETRY), (".", "554 5.6.0 refused", DeliveryOutcome.NEVER)],
)  # fmt: skip
async def test_what_an_answer_means(verb, answer, outcome):
    async with MailServer(answers={verb: [answer]}) as server:
        result = await sent(config(server), telling(leaf()))
    assert (result.outcome, result.answered) == (outcome, True), result
    assert answer[:9] in result.reason


async def test_a_server_that_wants_a_login_is_for_the_site_to_put_right():
    async with MailServer(answers={"MAIL": ["530 5.7.0 authentication required"]}) as server:
        result = await sent(config(server), telling(leaf()))
    assert (result.outcome, result.answered) == (DeliveryOutcome.RETRY, False)
    assert "530 5.7.0" in result.reason


async def test_one_refused_recipient_does_not_keep_the_others_from_knowing():
    async with MailServer(answers={"RCPT": ["550 5.1.1 gone"]}) as server:
        result = await sent(config(server, to=("gone@example.com", "ops@example.com")), telling(leaf()))
    assert result.outcome is DeliveryOutcome.DONE
    assert "gone@example.com (550" in result.reason
    assert server.mails[0].to == ["ops@example.com"]


async def test_a_server_that_hangs_delays_for_the_timeout_only():
    async with MailServer(silent=True) as server:
        result = await sent(config(server, timeout=Duration(0.3)), telling(leaf()))
    assert (result.outcome, result.answered) == (DeliveryOutcome.RETRY, False)


async def test_names_from_the_fabric_make_no_headers_and_no_markup():
    nasty = "x\r\nBcc: evil@example.com\r\n\r\n<script>alert(1)</script> <img src=http://x>"
    async with MailServer() as server:
        result = await sent(config(server), telling(leaf(title=nasty, component=nasty, labels={"fabric": nasty})))
    assert result.outcome is DeliveryOutcome.DONE, result
    message = server.mails[0].message
    assert message["Bcc"] is None
    assert server.mails[0].to == ["ops@example.com"]
    html = message.get_body(("html",)).get_content()
    assert "<script" not in html
    assert "<img" not in html


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"sender": "nobody"}, "from"), ({"to": ()}, "to"), ({"to": ("a b@c",)}, "to"), ({"host": ""}, "host"),
     ({"user": "x"}, "password_file"), ({"user": "x", "password_file": "/y"}, "without TLS"),
     ({"sender": "a@b\r\nBcc: c@d"}, "from"), ({"title": "{x}"}, "title")],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        config(MailServer(), **fields)
