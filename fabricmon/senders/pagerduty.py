"""Sender `pagerduty`: events of the Events API v2, one per incident, whose id is the `dedup_key`.

So a repeated notification is harmless, a recurring incident opens the same alert, and two servers open one. Limits
(PagerDuty's reference): `summary` 1,024 characters, `dedup_key` 255, an event 512 kB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import aiohttp
import msgspec
from msgspec.structs import replace

from fabricmon.forms.times import rfc3339
from fabricmon.model import Incident, Notification, Severity
from fabricmon.notify.acknowledge import acknowledgement_in
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.senders.attempt import Attempt, DeliveryOutcome
from fabricmon.senders.post import HttpAnswer, post, read_secret, without
from fabricmon.senders.routing import Worded, digest_line, incident_message, summary
from fabricmon.senders.settings import check_url

EACH = 1000  # incidents: each is an event
REFRESH = 0.0
ACKNOWLEDGES = True

Grade = Literal["critical", "error", "warning", "info"]

GRADES: Mapping[str, Grade] = {"critical": "critical", "warning": "warning", "info": "info"}
MAX_SUMMARY = 1024  # characters
MAX_DETAIL = 4000  # characters of one detail; the sum is far below 512 kB
MAX_WORD = 255  # characters of source, component, group, class


class PagerDutyConfig(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `pagerduty`; see also `routing.Worded`. `title` is the event's summary.

    routing_key_file  file with the integration key of the service (Events API v2).
    url               address for events; EU region: https://events.eu.pagerduty.com/v2/enqueue.
    severities        severity -> severity in PagerDuty (critical, error, warning, info), if not the same: {warning:
                      error}.
    ca_file           CA certificates (PEM) to trust instead of the system's.
    """

    routing_key_file: str
    url: str = "https://events.pagerduty.com/v2/enqueue"
    severities: dict[str, Grade] = {}
    ca_file: str = ""

    def __post_init__(self) -> None:
        self.check()
        check_url(self.url)
        for name in self.severities:
            if name not in GRADES:
                raise ValueError(f"`severities`: {name!r} is not one of {', '.join(GRADES)}")

    @property
    def each(self) -> int:
        return EACH


async def send(
    session: aiohttp.ClientSession, config: PagerDutyConfig, notification: Notification, links: IncidentLinks = NO_LINKS
) -> Attempt:
    """One attempt: an event per incident, in order. If one fails all are retried, which is harmless."""
    try:
        key = read_secret(config.routing_key_file)
    except (OSError, ValueError) as error:
        return Attempt.retry(f"routing key file: {error}")
    refused, result = "", Attempt.done("no incidents", answered=True)
    for made in events(config, notification, links):
        body = msgspec.json.encode({"routing_key": key, **made})
        answer = await post(session, config.url, body, {}, config.timeout, ca_file=config.ca_file)
        result = without(answer if isinstance(answer, Attempt) else _result(answer), key)
        if result.outcome is DeliveryOutcome.RETRY:
            return result
        if result.outcome is DeliveryOutcome.NEVER:
            refused = f"{made['dedup_key']}: {result.reason}"  # the other events are still sent
    if refused:
        return Attempt.never(refused, answered=True)
    return Attempt.done(result.reason, answered=True)


def preview(config: PagerDutyConfig, notification: Notification, links: IncidentLinks = NO_LINKS) -> str:
    """The events that `send` would send, without the routing key."""
    made = [{"routing_key": "***", **each} for each in events(config, notification, links)]
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def events(config: PagerDutyConfig, notification: Notification, links: IncidentLinks) -> list[dict[str, Any]]:
    """The events of a notification. Of a digest: one alert of its own for all that opened or became worse, and an event
    for each known alert that is resolved or acknowledged."""
    incidents = notification.incidents
    if notification.reason != DIGEST:
        return [event(config, i, notification, links) for i in incidents]
    closing = [i for i in incidents if i.id in notification.before and _closes(i)]
    rest = [i for i in incidents if i not in closing]
    made = [_digest_event(config, rest, notification, links)] if rest else []
    return made + [event(config, i, notification, links) for i in closing]


def _closes(incident: Incident) -> bool:
    return incident.status != "firing" or acknowledgement_in(incident) is not None


def _digest_event(
    config: PagerDutyConfig, incidents: Sequence[Incident], notification: Notification, links: IncidentLinks
) -> dict[str, Any]:
    """An alert that lists incidents. fabricmon does not resolve it."""
    worst = next((i for i in incidents if i.status == "firing"), replace(incidents[0], severity=Severity.INFO))
    made = event(config, worst, notification, links)
    messages = [incident_message(config, i, notification, links) for i in incidents]
    rows = (f"{digest_line(m)} ({m.value('url') or m.value('id')})" for m in messages)
    listed = {f"{n}": row[:MAX_DETAIL] for n, row in enumerate(rows, 1)}
    server = {"Server": links.server} if links.server else {}
    payload = {**made["payload"], "summary": summary(notification)[:MAX_SUMMARY], "custom_details": listed | server}
    payload["source"] = payload["component"] = payload["group"]
    return {**made, "event_action": "trigger", "dedup_key": f"digest-{notification.key}", "payload": payload}


def event(
    config: PagerDutyConfig, incident: Incident, notification: Notification, links: IncidentLinks
) -> dict[str, Any]:
    """The event of one incident, without the routing key."""
    message = incident_message(config, incident, notification, links)
    action = (
        "resolve"
        if incident.status != "firing"
        else "acknowledge"
        if notification.reason == "acknowledged" or (notification.reason == DIGEST and acknowledgement_in(incident))
        else "trigger"
    )
    made: dict[str, Any] = {"event_action": action, "dedup_key": incident.id}
    nodes = message.value("nodes")
    details = {line.heading or f"note {n}": line.text[:MAX_DETAIL] for n, line in enumerate(message.lines, 1)}
    made["payload"] = {
        "summary": message.title[:MAX_SUMMARY],
        "source": (nodes or message.value("component") or "fabric")[:MAX_WORD],
        "severity": config.severities.get(incident.severity.value, GRADES[incident.severity.value]),
        "timestamp": rfc3339(incident.since),
        "component": message.value("component")[:MAX_WORD],
        "group": message.value("fabric")[:MAX_WORD] or "fabric",
        "class": message.value("kind")[:MAX_WORD],
        "custom_details": {name: text for name, text in details.items() if text},
    }
    addresses = (("Incident", "url"), ("Runbook", "runbook"), ("Dashboard", "dashboard"))
    made["links"] = [{"href": message.value(name), "text": text} for text, name in addresses if message.value(name)]
    made["client"] = "fabricmon"
    if links.page:
        made["client_url"] = links.page
    return made


def _result(answer: HttpAnswer) -> Attempt:
    """The result of an answer. A wrong key is a configuration error: retried until corrected."""
    result = answer.result()
    if result.outcome is DeliveryOutcome.NEVER and (answer.status in (401, 403) or "routing_key" in answer.text):
        return result._replace(outcome=DeliveryOutcome.RETRY, answered=False)
    return result
