"""Sender `webhook`: one signed POST of versioned JSON. The body and the headers are documented in docs/webhook.md."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec

from fabricmon.model import Evidence, Impact, Incident, Notification
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.senders.post import post, read_secret
from fabricmon.senders.result import Outcome, Result
from fabricmon.senders.routing import Paced
from fabricmon.senders.settings import check_headers, check_url

VERSION = "1"
REFRESH = 0.0  # this receiver is told changes; it keeps no state that would need to be refreshed


class Config(Paced, forbid_unknown_fields=True, frozen=True):
    """A receiver of kind `webhook`; what it has besides stands in `routing.Paced`.

    url            where to POST.
    secret_file    file with the key of the signature; "": not signed.
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
    session: aiohttp.ClientSession, config: Config, notification: Notification, links: Links = NO_LINKS
) -> Result:
    """One attempt."""
    sent = body(notification, links)
    headers = {**config.headers, "Idempotency-Key": notification.key}
    if config.secret_file:
        try:
            secret = read_secret(config.secret_file)
        except (OSError, ValueError) as error:
            return Result(Outcome.RETRY, f"secret file: {error}")
        headers |= signature(secret, sent, int(time.time()))
    return await post(session, config.url, sent, headers, config.timeout, config.token_file, config.ca_file)


def preview(config: Config, notification: Notification, links: Links = NO_LINKS) -> str:
    """What would be sent."""
    return msgspec.json.format(body(notification, links)).decode()


def signature(secret: str, sent: bytes, timestamp: int) -> dict[str, str]:
    """The headers that prove who sent a body and when: HMAC-SHA256 over "<timestamp>.<body>"."""
    mac = hmac.new(secret.encode(), f"{timestamp}.".encode() + sent, hashlib.sha256)
    return {"X-Fabricmon-Timestamp": str(timestamp), "X-Fabricmon-Signature": f"sha256={mac.hexdigest()}"}


def body(notification: Notification, links: Links = NO_LINKS) -> bytes:
    """The JSON of a notification; the same notification has the same bytes at every attempt."""
    incidents = [document(incident, links) for incident in notification.incidents]
    return msgspec.json.encode(
        {
            "version": VERSION,
            "key": notification.key,
            "receiver": notification.receiver,
            "reason": notification.reason,
            "created": rfc3339(notification.created),
            "incidents": incidents,
        }
    )


def document(incident: Incident, links: Links = NO_LINKS) -> dict[str, Any]:
    """One incident as it travels: times are RFC 3339 in UTC, what is unknown is null."""
    return {
        "id": incident.id,
        "status": incident.status,
        "severity": incident.severity.value,
        "kind": incident.kind,
        "component": incident.component,
        "since": rfc3339(incident.since),
        "resolved": None if incident.resolved is None else rfc3339(incident.resolved),
        "updated": rfc3339(incident.updated),
        "confidence": _number(incident.confidence),
        "title": incident.title,
        "why": incident.why,
        "action": incident.action,
        "evidence": [_evidence(e) for e in incident.evidence],
        "members": {"bad": incident.members.bad, "of": incident.members.of},
        "labels": incident.labels,
        "candidates": incident.candidates,
        "ruled_out": [msgspec.to_builtins(other) for other in incident.ruled_out],
        "parts": incident.parts,
        "history": [{"at": rfc3339(h.at), "change": h.change, "reason": h.reason} for h in incident.history],
        "revision": incident.revision,
        "impact": None if incident.impact is None else _impact(incident.impact),
        **({"url": url} if (url := links.incident(incident.id)) else {}),
        **({"runbook": runbook} if (runbook := links.runbook(incident.kind)) else {}),
        **({"dashboard": dashboard} if (dashboard := links.dashboard(incident)) else {}),
    }


def rfc3339(wall: float) -> str | None:
    """Seconds since 1970 as "2026-01-31T12:00:00.250Z"; None where they are unknown or no time of this calendar."""
    try:
        return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def _evidence(e: Evidence) -> dict[str, Any]:
    return {
        "component": e.component,
        "text": e.text,
        "formula": e.formula,
        "value": None if e.value is None else _number(e.value),
        "limit": None if e.limit is None else _number(e.limit),
        "for": e.for_it,
    }


def _impact(impact: Impact) -> dict[str, Any]:
    return {
        "state": impact.state,
        "source": impact.source,
        "as_of": None if impact.as_of is None else rfc3339(impact.as_of),
        "jobs": [
            {
                "id": job.id,
                "name": job.name,
                "user": job.user,
                "source": job.source,
                "verdict": job.verdict.value,
                "reason": job.reason,
                "nodes": job.nodes,
                "hit": job.hit,
                "of": job.of,
                "since": rfc3339(job.since),
                "gone": None if job.gone is None else rfc3339(job.gone),
            }
            for job in impact.jobs
        ],
        "total": impact.total,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
