"""Each message as it is sent, against a file that a person has read. FABRICMON_GOLDEN=write writes them anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fabricmon.model import Evidence, HistoryEntry
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import NO_LINKS
from fabricmon.senders import SENDERS, alertmanager, email, pagerduty, slack, webhook
from fabricmon.senders.mail_message import Envelope, digest, single
from fabricmon.senders.slack_message import reply
from tests.notify.made import T0, incident
from tests.recorded import golden
from tests.senders.incidents import LINKS, ended, leaf, telling
from tests.senders.limits import over

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
    golden.compare(name, made, GOLDEN)


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


@pytest.mark.parametrize("reason", ["absorbed", "new incident"])
def test_a_short_reply_on_what_became_part_of_another_does_not_depend_on_the_message(reason):
    """It may come with the message about the larger one, which has another reason."""
    part = ended(leaf())
    part = replace(part, labels={**part.labels, "absorbed_by": "larger"})
    made = reply(CONFIGS["slack"], part, telling(part, reason=reason), LINKS)
    assert "merged into a larger incident" in made["text"]
    assert "resolved after" in reply(CONFIGS["slack"], ended(leaf()), telling(ended(leaf())), LINKS)["text"]


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_preview_is_what_is_sent_and_needs_no_links(kind):
    made = SENDERS[kind].module.preview(CONFIGS[kind], telling(leaf()), NO_LINKS)
    assert "Leaf su1/rail2 is down" in made
    if kind != "email":
        json.loads(made)


LONG = st.text("ab<&>{}\\n\u202e é", max_size=3000)


@given(st.data())
@settings(max_examples=40)
def test_whatever_an_incident_says_a_message_keeps_the_limits_of_its_receiver(data):
    """Those of tests/senders/limits.py; no limit of the names of the fabric is assumed."""
    some = [
        leaf(f"i-{n}", title=data.draw(LONG), action=data.draw(LONG), component=f"link(n/{data.draw(LONG)})",
             labels={"node": data.draw(LONG), "rail": data.draw(LONG)}, candidates=(data.draw(LONG),),
             evidence=(Evidence("x", data.draw(LONG), "", 3.0, 2.0),) * 20)
        for n in range(data.draw(st.sampled_from((1, 2, 40))))
    ]  # fmt: skip
    note = telling(*some, reason=data.draw(st.sampled_from(("new incident", DIGEST))))
    for kind in ("slack", "pagerduty", "alertmanager"):
        assert over(kind, SENDERS[kind].module.preview(CONFIGS[kind], note, LINKS)) == []
    envelope = Envelope("a@b.c", ("d@e.f",), "b.c")
    for mail in (single(CONFIGS["email"], some[0], note, LINKS, envelope, ""),
                 digest(CONFIGS["email"], some, note, LINKS, envelope)):  # fmt: skip
        assert over("mail", mail) == []


def test_a_digest_has_one_line_an_incident():
    some = [leaf(), *(incident(f"i-{n}", title=f"Link {n} flaps") for n in range(5))]
    mail = email.preview(CONFIGS["email"], telling(*some, reason=DIGEST), LINKS)
    lines = [line for line in mail.splitlines() if line.startswith("[")]
    assert len(lines) == 6
    assert lines[0].endswith("; train-70b (4711, mara) crashes, 32 of 64 nodes and 1 more")


@pytest.mark.parametrize("kind", ["slack", "pagerduty", "email"])
def test_a_message_begins_with_jobs_and_the_next_step_and_has_no_theory(kind):
    made = SENDERS[kind].module.preview(CONFIGS[kind], telling(leaf()), LINKS)
    order = [made.index(word) for word in ("Affected jobs", "Next step", "Reading", "Confidence", "Next best cause")]
    assert order == sorted(order)
    assert leaf().why not in made


def test_an_alert_has_labels_for_its_place_that_its_component_names():
    labels = {"node": "host-007", "device": "mlx5_3", "leaf": "su0/rail3", "rail": "su0/3", "mode": "x", "fabric": "e"}
    flap = incident("i", component="link(host-007/mlx5_3/1, leaf-3/12)", labels=labels)
    (made,) = alertmanager.alerts(CONFIGS["alertmanager"], telling(flap), T0, LINKS)
    assert {name: made["labels"].get(name) for name in ("domain", *alertmanager.PLACES)} == {
        "domain": "link", "node": "host-007", "device": "mlx5_3", "leaf": "su0/rail3", "rail": "su0/3"
    }  # fmt: skip
    assert set(made["annotations"]) & {"label_node", "label_rail", "label_fabric"} == set()
    whole = replace(flap, component="leaf(su0/rail3)", kind="fault_domain")
    (made,) = alertmanager.alerts(CONFIGS["alertmanager"], telling(whole), T0, LINKS)
    assert {"node", "device"} & made["labels"].keys() == set(), "its members come and go"
    with pytest.raises(ValueError, match="is set by fabricmon"):
        alertmanager.AlertmanagerConfig(("http://am:9093",), labels={"rail": "x"})
