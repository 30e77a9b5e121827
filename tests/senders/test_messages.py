"""Each message as it is sent, against a file that a person has read. FABRICMON_GOLDEN=write writes them anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fabricmon.model import HistoryEntry
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import NO_LINKS
from fabricmon.senders import SENDERS, alertmanager, email, pagerduty, slack, webhook
from fabricmon.senders.mail_message import Envelope, single
from fabricmon.senders.slack_message import reply
from tests.notify.made import T0, incident
from tests.senders.incidents import LINKS, ended, leaf, telling

GOLDEN = Path(__file__).parent / "golden"
CONFIGS = {
    "webhook": webhook.WebhookConfig("http://receiver/"),
    "alertmanager": alertmanager.AlertmanagerConfig(("http://am:9093",)),
    "slack": slack.SlackConfig(url_file="/dev/null", mention="<!here>"),
    "pagerduty": pagerduty.PagerDutyConfig(routing_key_file="/dev/null"),
    "email": email.EmailConfig(host="mail", sender="fabricmon@example.com", to=("ops@example.com",)),
}
TAKEN = (HistoryEntry(T0 + 60, "acknowledged", "by mara: cable is ordered"),)
CASES: dict[str, Callable[[], object]] = {
    "begins": lambda: telling(leaf()),
    "taken": lambda: telling(leaf(history=TAKEN), reason="acknowledged"),
    "ended": lambda: telling(ended(leaf()), reason="resolved"),
    "digest": lambda: telling(
        leaf(),
        incident("i-1", title="Link 1 flaps"),
        ended(incident("i-2", title="Link 2 flaps")),
        reason=DIGEST,
        waiting=7,
    ),
    "many": lambda: telling(leaf(), *[incident(f"i-{n}", title=f"Link {n} flaps") for n in range(5)]),
}


def compare(name: str, made: str) -> None:
    file = GOLDEN / name
    if os.environ.get("FABRICMON_GOLDEN") == "write":
        file.write_text(made)
    assert made == file.read_text(), f"{name} is another message now; FABRICMON_GOLDEN=write writes it anew"


def test_every_sender_is_here():
    assert set(SENDERS) ^ set(CONFIGS) == set(), "in CONFIGS (tests/senders/test_messages.py)"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["slack", "pagerduty", "email"])
def test_a_message_is_the_one_that_was_read(kind, case):
    made = SENDERS[kind].module.preview(CONFIGS[kind], CASES[case](), LINKS).rstrip() + "\n"
    compare(f"{kind}-{case}.{'txt' if kind == 'email' else 'json'}", made)


def test_the_html_is_the_one_that_was_read():
    mail = single(CONFIGS["email"], leaf(), telling(leaf()), LINKS, Envelope("a@b.c", ("d@e.f",), "b.c"), "")
    compare("email-begins.html", mail.get_body(("html",)).get_content())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", CONFIGS)
def test_every_message_names_its_server(kind, case):
    """Two servers send to one receiver; a text of its own does not change that."""
    texts = {"body": "{title}"} if hasattr(CONFIGS[kind], "body") else {}
    for config in (CONFIGS[kind], replace(CONFIGS[kind], **texts)):
        assert "central-a" in SENDERS[kind].module.preview(config, CASES[case](), LINKS)


def test_a_template_that_names_the_server_does_it_once():
    config = replace(CONFIGS["email"], body="From {server}: {title}")
    assert email.preview(config, telling(leaf()), LINKS).count("central-a") == 1


@pytest.mark.parametrize("reason", ["resolved", "absorbed", "acknowledged"])
def test_a_short_reply_names_its_server(reason):
    made = reply(CONFIGS["slack"], ended(leaf()), telling(ended(leaf()), reason=reason), LINKS)
    assert "central-a" in made["text"]


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_preview_is_what_is_sent_and_needs_no_links(kind):
    made = SENDERS[kind].module.preview(CONFIGS[kind], telling(leaf()), NO_LINKS)
    assert "Leaf su1/rail2 is down" in made
    if kind != "email":
        json.loads(made)
