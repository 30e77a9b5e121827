"""Sender `pagerduty`: events of the Events API v2, one for each incident; its id is the `dedup_key`.

So a telling may be sent again without harm, what comes back opens the same alert, and two centres make one. Limits,
by PagerDuty's reference: `summary` 1,024 characters, `dedup_key` 255, an event 512 kB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import aiohttp
import msgspec

from fabricmon.model import Incident, Notification
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.senders.post import Answer, ask, read_secret, without
from fabricmon.senders.result import Outcome, Result
from fabricmon.senders.routing import Worded, words
from fabricmon.senders.settings import check_url
from fabricmon.senders.webhook import rfc3339

REFRESH = 0.0
ACKNOWLEDGES = True

Grade = Literal["critical", "error", "warning", "info"]

GRADES: Mapping[str, Grade] = {"critical": "critical", "warning": "warning", "info": "info"}
MAX_SUMMARY = 1024  # characters
MAX_DETAIL = 4000  # characters of one of the details: all of them stay far below 512 kB
MAX_WORD = 255  # characters of source, component, group, class


class Config(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `pagerduty`; see also `routing.Worded`. `title` is the event's summary.

    routing_key_file  file with the integration key of the service (Events API v2).
    url               where to send events; of the EU region https://events.eu.pagerduty.com/v2/enqueue.
    severities        what our severities are called there, where not the same: {warning: error}; PagerDuty knows
                      critical, error, warning and info.
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
                raise ValueError(f"`severities`: {name!r} is none of {', '.join(GRADES)}")


async def send(
    session: aiohttp.ClientSession, config: Config, notification: Notification, links: Links = NO_LINKS
) -> Result:
    """One attempt: an event for each incident, in order. Where one fails all are sent again, which does no harm."""
    try:
        key = read_secret(config.routing_key_file)
    except (OSError, ValueError) as error:
        return Result(Outcome.RETRY, f"routing key file: {error}")
    refused, result = "", Result(Outcome.DONE, "nothing to tell", answered=True)
    for incident in notification.incidents:
        body = msgspec.json.encode({"routing_key": key, **event(config, incident, notification, links)})
        answer = await ask(session, config.url, body, {}, config.timeout, ca_file=config.ca_file)
        result = without(answer if isinstance(answer, Result) else _meant(answer), key)
        if result.outcome is Outcome.RETRY:
            return result
        if result.outcome is Outcome.NEVER:
            refused = f"{incident.id}: {result.reason}"  # the others are told all the same
    if refused:
        return Result(Outcome.NEVER, refused, answered=True)
    return Result(Outcome.DONE, result.reason, answered=True)


def preview(config: Config, notification: Notification, links: Links = NO_LINKS) -> str:
    """What would be sent, without the routing key."""
    made = [{"routing_key": "***", **event(config, i, notification, links)} for i in notification.incidents]
    return msgspec.json.format(msgspec.json.encode(made)).decode()


def event(config: Config, incident: Incident, notification: Notification, links: Links) -> dict[str, Any]:
    """The event of one incident, without the routing key."""
    said = words(config, incident, notification, links)
    action = (
        "resolve"
        if incident.status != "firing"
        else "acknowledge"
        if notification.reason == "acknowledged"
        else "trigger"
    )
    made: dict[str, Any] = {"event_action": action, "dedup_key": incident.id}
    nodes = said.value("nodes")
    details = {line.heading or f"note {n}": line.text[:MAX_DETAIL] for n, line in enumerate(said.lines, 1)}
    made["payload"] = {
        "summary": said.title[:MAX_SUMMARY],
        "source": (nodes or said.value("component") or "fabric")[:MAX_WORD],
        "severity": config.severities.get(incident.severity.value, GRADES[incident.severity.value]),
        "timestamp": rfc3339(incident.since),
        "component": said.value("component")[:MAX_WORD],
        "group": said.value("fabric")[:MAX_WORD] or "fabric",
        "class": said.value("kind")[:MAX_WORD],
        "custom_details": {name: text for name, text in details.items() if text},
    }
    addresses = (("Incident", "url"), ("Runbook", "runbook"), ("Dashboard", "dashboard"))
    made["links"] = [{"href": said.value(name), "text": text} for text, name in addresses if said.value(name)]
    made["client"] = "fabricmon"
    if links.page:
        made["client_url"] = links.page
    return made


def _meant(answer: Answer) -> Result:
    """What an answer means. A wrong key is for the site to put right; what waits is told then."""
    result = answer.result()
    if result.outcome is Outcome.NEVER and (answer.status in (401, 403) or "routing_key" in answer.text):
        return result._replace(outcome=Outcome.RETRY, answered=False)
    return result
