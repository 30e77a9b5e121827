"""Notifications of five scenarios of the catalogue, and the messages about them for every receiver.

    python -m tests.senders.real_incidents            plays the scenarios, writes tests/senders/real anew (a minute)
    python -m tests.senders.real_incidents DIR        writes every receiver's messages into DIR, and prints their sizes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fabricmon.commands.scenario import own
from fabricmon.model import Notification
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import IncidentLinks
from fabricmon.senders import SENDERS, alertmanager, email, mail_message, pagerduty, slack, webhook
from fabricmon.sim.scenarios.run import watch
from fabricmon.sim.scenarios.scenario import Work
from fabricmon.simulate.scenario_file import load
from tests.senders.limits import LIMITS

REAL = Path(__file__).with_name("real")
SCENARIOS = {
    "s01-single-cable-flap": "link(",
    "s03-leaf-down": "leaf(",
    "s05-spine-half-gray": "spine(",
    "s08-rail-congestion": "rail(",
    "s18-nvlink-domain": "nvlink_domain(",
}
"""Scenario -> what its incident is about."""

LINKS = IncidentLinks("https://fabricmon.example", dashboards="https://grafana.example", server="central-a")
CONFIGS: dict[str, Any] = {
    "webhook": webhook.WebhookConfig("http://receiver/"),
    "alertmanager": alertmanager.AlertmanagerConfig(("http://am:9093",)),
    "slack": slack.SlackConfig(url_file="/dev/null"),
    "pagerduty": pagerduty.PagerDutyConfig(routing_key_file="/dev/null"),
    "email": email.EmailConfig(host="mail", sender="fabricmon@example.com", to=("ops@example.com",)),
}
ENVELOPE = mail_message.Envelope("fabricmon@example.com", ("ops@example.com",), "example.com")


def play(name: str, about: str) -> Notification:
    """The notification that wakes somebody in a scenario, with a job on all hosts where the scenario has none."""
    scenario = load(next(path for path in own() if path.stem == name))
    if not scenario.traffic:
        scenario = replace(scenario, traffic=(Work(name="train-70b", pattern="ring", hosts="*"),))
    return next(n for n in watch(scenario, 1).notes if any(i.component.startswith(about) for i in n.incidents))


def notifications() -> dict[str, Notification]:
    """The kept notifications by their scenario, and a digest of all."""
    found = {name: msgspec.json.decode((REAL / f"{name}.json").read_bytes(), type=Notification) for name in SCENARIOS}
    first = next(iter(found.values()))
    return {**found, "digest": replace(first, incidents=tuple(i for n in found.values() for i in n.incidents),
                                       reason=DIGEST)}  # fmt: skip


def preview(receiver: str, notification: Notification) -> str:
    return SENDERS[receiver].module.preview(CONFIGS[receiver], notification, LINKS)


def mail(notification: Notification) -> EmailMessage:
    """The mail as it is sent, text and HTML."""
    config, incidents = CONFIGS["email"], notification.incidents
    if notification.reason == DIGEST:
        return mail_message.digest(config, incidents, notification, LINKS, ENVELOPE)
    return mail_message.single(config, incidents[0], notification, LINKS, ENVELOPE, "")


def messages() -> Iterator[tuple[str, str, str]]:
    """(scenario or "digest", receiver, text), also the HTML of the mail."""
    for name, notification in notifications().items():
        for receiver in CONFIGS:
            yield name, receiver, preview(receiver, notification).rstrip() + "\n"
        html = mail(notification).get_body(("html",))
        assert isinstance(html, EmailMessage)
        yield name, "html", html.get_content()


def sizes() -> list[str]:
    """For each limit: what is limited, the largest of the five messages, that of their digest, and the limit."""
    rows = []
    for limit in LIMITS:
        needed = {
            name: limit.needed(mail(note) if limit.receiver == "mail" else preview(limit.receiver, note))
            for name, note in notifications().items()
        }
        digest = needed.pop("digest")
        rows.append(f"| {limit.receiver} | {limit.what} | {max(needed.values()):,} | {digest:,} | {limit.most:,} |")
    return rows


def main() -> None:
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(exist_ok=True)
        for name, receiver, text in messages():
            (folder / f"{name}.{receiver}").write_text(text)
        print("\n".join(sizes()))
        return
    for name, about in SCENARIOS.items():
        (REAL / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(play(name, about))) + b"\n")


if __name__ == "__main__":
    main()
