"""What every receiver is sent about five incidents of the catalogue, read as the person who is woken by it."""

from __future__ import annotations

import json
import re

import pytest

from fabricmon.simulate.scenario_file import load
from tests.rigs.machine import ROOT
from tests.senders.limits import LIMITS, over
from tests.senders.real_incidents import CONFIGS, SCENARIOS, mail, notifications, own, play, preview, sizes
from tests.senders.test_messages import compare

NOTES = notifications()
THEORY = re.compile(r"\b(nats?|deciban|odds|posterior|noisy|Poisson|evidence level|formula)\b|10\^")
PEOPLE = ("slack", "pagerduty", "email")


@pytest.mark.parametrize("name", NOTES)
def test_a_mail_is_the_one_that_was_read(name: str) -> None:
    compare(f"real-{name}.txt", preview("email", NOTES[name]).rstrip() + "\n")


@pytest.mark.parametrize("name", NOTES)
def test_every_message_keeps_the_limits_of_its_receiver(name: str) -> None:
    assert [text for receiver in CONFIGS for text in over(receiver, preview(receiver, NOTES[name]))] == []
    assert over("mail", mail(NOTES[name])) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_message_has_what_somebody_needs_at_night_and_no_theory(name: str) -> None:
    (incident,) = NOTES[name].incidents
    for receiver in PEOPLE:
        made = preview(receiver, NOTES[name])
        assert incident.title in made
        for word in ("Affected jobs", "Next step", "Reading", "limit", "Confidence", "Next best cause", "Where",
                     "/runbooks/", "grafana.example"):  # fmt: skip
            assert word in made, f"{receiver}: no {word}"
        assert not THEORY.search(made)
        assert incident.why not in made


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_alert_has_the_same_in_its_annotations(name: str) -> None:
    (alert,) = json.loads(preview("alertmanager", NOTES[name]))
    assert {"kind", "domain", "severity", "incident"} <= alert["labels"].keys()
    for wanted in ("summary", "description", "reading", "next_cause", "jobs", "runbook_url", "dashboard_url"):
        assert alert["annotations"][wanted], wanted
    assert not THEORY.search(alert["annotations"]["description"] + alert["annotations"]["next_cause"])


@pytest.mark.parametrize(("name", "about"), SCENARIOS.items())
def test_the_kept_notification_is_of_what_its_scenario_requires(name: str, about: str) -> None:
    (kept,) = NOTES[name].incidents
    required = load(next(path for path in own() if path.stem == name)).expect.required
    assert any(kept.component.startswith(about) and about in str(one.component) for one in required)


def test_a_scenario_played_today_sends_the_kept_notification() -> None:
    name = "s03-leaf-down"
    (kept,), (now, *_) = NOTES[name].incidents, play(name, SCENARIOS[name]).incidents
    assert (now.id, now.kind, now.component, now.severity) == (kept.id, kept.kind, kept.component, kept.severity)


def test_the_document_has_the_sizes() -> None:
    """To a sixth: a longer word in a message needs no new table."""
    text = (ROOT / "docs/receivers.md").read_text()
    for row in sizes():
        receiver, what, *now = [cell.strip() for cell in row.strip("|").split("|")]
        found = re.search(rf"^\| {receiver} \| {re.escape(what)} " + r"\| ([\d,]+) " * 3, text, re.MULTILINE)
        assert found, f"docs/receivers.md lacks: {row}"
        for stated, measured in zip(found.groups(), now, strict=True):
            many, few = (int(number.replace(",", "")) for number in (stated, measured))
            assert abs(many - few) <= few / 6, f"docs/receivers.md is not current: {row}"


def test_each_limit_has_its_source() -> None:
    assert {limit.receiver for limit in LIMITS} == {*CONFIGS, "mail"} - {"email"}
    assert all(re.search(r"https://|RFC \d+|our own", limit.source) for limit in LIMITS)
