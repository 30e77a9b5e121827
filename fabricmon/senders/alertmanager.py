"""Sender `alertmanager`: incidents as alerts of the Alertmanager API v2, at every Alertmanager of a cluster.

An alert is its labels: if one changes, that is another alert. So the labels are only what people route by and what an
incident keeps for long: alertname (from the kind), kind, component, severity, incident (its id), and the site's own
static ones; all that moves is in annotations. Kind, component and severity can still sharpen while an incident
lives. Then the alert with the former labels is ended in the same request that begins the new one
(`Notification.before` has every face told).

Alertmanager forgets an alert that nobody repeats. While an incident fires its alert is sent again every REFRESH
seconds with an end AHEAD seconds from now, as Prometheus does, and the end of a resolved one for RESEND_RESOLVED
seconds. So an Alertmanager that was away, or restarted without its state, is right again within a minute, and when
the centre dies its alerts end by themselves.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from fabricmon.model import Face, Incident, Notification
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.notify.told import Telling, face
from fabricmon.senders.post import post
from fabricmon.senders.result import Outcome, Result
from fabricmon.senders.routing import Routing
from fabricmon.senders.settings import check_headers, check_url
from fabricmon.senders.webhook import rfc3339

REFRESH = 60.0
AHEAD = 240.0  # Prometheus: 4 times its resend delay; three refreshes may fail before an alert ends
RESEND_RESOLVED = 300.0
MAX_URLS = 16
MAX_ALERTS = 500  # alerts in one request
MAX_ANNOTATION = 4000  # characters of one annotation

# Labels that this sender sets; a site's static labels may not take their names.
OURS = ("alertname", "kind", "component", "severity", "incident", "fabric")


class Config(Routing, forbid_unknown_fields=True, frozen=True):
    """A receiver of kind `alertmanager`; what it has besides stands in `routing.Routing`.

    Repeating is Alertmanager's own business (`repeat_interval` there). Without `send_resolved` alerts end by
    themselves after 4 minutes.

    urls           every Alertmanager of the cluster ("http://am-0:9093"), not a balancer in front of them.
    labels         static labels on every alert, to route by: {cluster: training-1}.
    token_file     file with a bearer token; "": none.
    ca_file        CA certificates (PEM) to trust instead of the system's.
    headers        further headers.
    """

    urls: tuple[str, ...]
    labels: dict[str, str] = {}
    token_file: str = ""
    ca_file: str = ""
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not 1 <= len(self.urls) <= MAX_URLS:
            raise ValueError(f"`urls`: expected 1 to {MAX_URLS} Alertmanagers")
        for url in self.urls:
            check_url(url, "urls")
        for name in self.labels:
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or name in OURS:
                raise ValueError(f"`labels`: {name!r} is no label name, or one that fabricmon sets")
        check_headers(self.headers)
        self.check()


async def send(
    session: aiohttp.ClientSession, config: Config, notification: Notification, links: Links = NO_LINKS
) -> Result:
    """One attempt at all Alertmanagers. DONE when one has it: they tell each other, and `refresh` tells all again."""
    return await _post(session, config, alerts(config, notification, time.time(), links))


def preview(config: Config, notification: Notification, links: Links = NO_LINKS) -> str:
    """What would be sent."""
    made = alerts(config, notification, notification.created, links)
    return msgspec.json.format(msgspec.json.encode(made)).decode()


async def refresh(
    session: aiohttp.ClientSession,
    config: Config,
    standing: Sequence[tuple[Incident, Telling]],
    links: Links = NO_LINKS,
) -> Result:
    """Say again what stands: every incident told as firing, and those told as resolved a short while ago."""
    now = time.time()
    all_alerts = [
        alert(config, incident, look, now, links)
        for incident, telling in standing
        for look in (telling.faces if incident.status != "firing" else telling.faces[-1:])
    ]
    results = [
        await _post(session, config, all_alerts[start : start + MAX_ALERTS])
        for start in range(0, len(all_alerts), MAX_ALERTS)
    ]
    return next((r for r in results if r.outcome is not Outcome.DONE), Result(Outcome.DONE, "refreshed"))


def alerts(config: Config, notification: Notification, now: float, links: Links = NO_LINKS) -> list[dict[str, Any]]:
    """The alerts of a notification: each incident's present face, and an end for each face it had before."""
    made = []
    for incident in notification.incidents:
        current = face(incident)
        made += [
            alert(config, incident, former, now, links) | {"endsAt": rfc3339(now)}
            for former in notification.before.get(incident.id, ())
            if former != current
        ]
        made.append(alert(config, incident, current, now, links))
    return made


def alert(config: Config, incident: Incident, look: Face, now: float, links: Links = NO_LINKS) -> dict[str, Any]:
    """One alert: labels from the face, everything else from the incident as it is now."""
    labels = {
        "alertname": alertname(look.kind),
        "kind": look.kind,
        "component": look.component,
        "severity": look.severity.value,
        "incident": incident.id,
        **({"fabric": incident.labels["fabric"]} if incident.labels.get("fabric") else {}),
        **config.labels,
    }
    annotations = {
        "summary": incident.title,
        "description": incident.why,
        "action": incident.action,
        "members": f"{incident.members.bad} of {incident.members.of}" if incident.members.of else "",
        "parts": ", ".join(incident.parts),
        "confidence": f"{incident.confidence:.3f}",
        "candidates": ", ".join(incident.candidates),
        "evidence": "\n".join(f"{e.component}: {e.text}" for e in incident.evidence),
        "jobs": incident.labels.get("jobs", ""),
        "runbook_url": links.runbook(look.kind),
        "dashboard_url": links.dashboard(incident),
        **{f"label_{re.sub('[^a-zA-Z0-9_]', '_', k)}": v for k, v in sorted(incident.labels.items()) if k != "jobs"},
    }
    firing = incident.status == "firing"
    ends = now + AHEAD if firing else min(now, incident.resolved if incident.resolved is not None else now)
    made: dict[str, Any] = {
        "labels": labels,
        "annotations": {k: v[:MAX_ANNOTATION] for k, v in annotations.items() if v},
        # An alert whose end is not after its start is refused.
        "startsAt": rfc3339(min(incident.since, ends - 0.001)) or rfc3339(ends - 0.001),
        "endsAt": rfc3339(ends),
    }
    if url := links.incident(incident.id):
        made["generatorURL"] = url
    return made


def alertname(kind: str) -> str:
    """link_flapping -> FabricLinkFlapping: CamelCase as alert names are, and together in a sorted list."""
    return "Fabric" + "".join(word.capitalize() for word in kind.split("_") if word != "fabric")


async def _post(session: aiohttp.ClientSession, config: Config, made: list[dict[str, Any]]) -> Result:
    sent = msgspec.json.encode(made)
    results = await asyncio.gather(
        *(
            post(
                session,
                f"{url.rstrip('/')}/api/v2/alerts",
                sent,
                config.headers,
                config.timeout,
                config.token_file,
                config.ca_file,
            )
            for url in config.urls
        )
    )
    for outcome in (Outcome.DONE, Outcome.RETRY):
        for url, result in zip(config.urls, results, strict=True):
            if result.outcome is outcome:
                return result._replace(reason=f"{url}: {result.reason}")
    return results[0]._replace(reason=f"{config.urls[0]}: {results[0].reason}")
