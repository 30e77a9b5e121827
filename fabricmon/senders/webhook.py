"""Sender `webhook`: one signed POST of versioned JSON. The body and the headers are documented in docs/webhook.md."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TypedDict

import aiohttp
import msgspec

from fabricmon.forms.documents import IncidentDocument, Time, incident_document
from fabricmon.forms.readable import first_step
from fabricmon.forms.times import rfc3339
from fabricmon.model import Incident, Notification
from fabricmon.notify.deciding import next_cause, reading
from fabricmon.notify.identity import incident_key
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.senders.attempt import Attempt
from fabricmon.senders.post import attempt_of, post, read_secret
from fabricmon.senders.routing import Paced
from fabricmon.senders.settings import check_headers, check_url

VERSION = "1"
REFRESH = 0.0  # receives changes only


class WebhookConfig(Paced, forbid_unknown_fields=True, frozen=True):
    """A receiver of kind `webhook`; see also `routing.Paced`.

    url            address to POST to.
    secret_file    file with the key of the signature; "": unsigned.
    token_file     file with a bearer token for the Authorization header; "": none.
    ca_file        CA certificates (PEM) to trust instead of the system's.
    headers        further headers.
    """

    url: str
    secret_file: str = ""
    token_file: str = ""
    ca_file: str = ""
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        check_url(self.url)
        check_headers(self.headers)
        self.check()


async def send(
    session: aiohttp.ClientSession, config: WebhookConfig, notification: Notification, links: IncidentLinks = NO_LINKS
) -> Attempt:
    """One attempt."""
    sent = body(notification, links)
    headers = {**config.headers, "Idempotency-Key": notification.key}
    if config.secret_file:
        try:
            secret = read_secret(config.secret_file)
        except (OSError, ValueError) as error:
            return Attempt.retry(f"secret file: {error}")
        headers |= signature(secret, sent, int(time.time()))
    access = (config.token_file, config.ca_file)
    return attempt_of(await post(session, config.url, sent, headers, config.timeout, *access))


def preview(config: WebhookConfig, notification: Notification, links: IncidentLinks = NO_LINKS) -> str:
    """The body that `send` would send."""
    return msgspec.json.format(body(notification, links)).decode()


def signature(secret: str, sent: bytes, timestamp: int) -> dict[str, str]:
    """The signature headers of a body: HMAC-SHA256 over "<timestamp>.<body>"."""
    mac = hmac.new(secret.encode(), f"{timestamp}.".encode() + sent, hashlib.sha256)
    return {"X-Fabricmon-Timestamp": str(timestamp), "X-Fabricmon-Signature": f"sha256={mac.hexdigest()}"}


class SentIncident(IncidentDocument):
    """One incident of a notification.

    key         of its state: the same on every server for the same state
    first_step  what to do first, in words; "": unknown
    reading     the deciding reading with its limit and unit, in words
    next_cause  the next best cause, in words
    """

    key: str
    first_step: str
    reading: str
    next_cause: str


class WebhookBody(TypedDict):
    """The body of a webhook.

    version   increases when a field changes its meaning or is removed
    key       of the notification: the same as the header Idempotency-Key
    server    name of the server that sends it
    receiver  name of the receiver in the configuration
    reason    reason for this notification: "new incident", "resolved", "digest"
    created   when it was made
    waiting   number of further incidents that wait for a notification to this receiver
    """

    version: str
    key: str
    server: str
    receiver: str
    reason: str
    created: Time
    waiting: int
    incidents: list[SentIncident]


def body(notification: Notification, links: IncidentLinks = NO_LINKS) -> bytes:
    """The JSON of a notification, the same bytes at every attempt."""
    incidents: list[SentIncident] = [
        {
            "key": _key(incident, notification),
            **incident_document(incident, links.of(incident)),
            "first_step": first_step(incident.action),
            "reading": reading(incident),
            "next_cause": next_cause(incident),
        }
        for incident in notification.incidents
    ]
    sent: WebhookBody = {
        "version": VERSION,
        "key": notification.key,
        "server": links.server,
        "receiver": notification.receiver,
        "reason": notification.reason,
        "created": rfc3339(notification.created),
        "waiting": notification.waiting,
        "incidents": incidents,
    }
    return msgspec.json.encode(sent)


def _key(incident: Incident, notification: Notification) -> str:
    """The key of the incident's state. Release 0.1.0 stored notifications without it."""
    state = notification.states.get(incident.id)
    return state.key if state is not None else incident_key(incident)
