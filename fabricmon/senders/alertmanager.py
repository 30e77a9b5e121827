"""Sender `alertmanager`: incidents as alerts of the Alertmanager API v2, sent to every Alertmanager of a cluster.

The labels identify an alert, so they are only the stable ones used for routing, grouping and inhibition: alertname
(from the kind), kind, component, severity, incident (its id), domain (the sort of component), node, device, leaf and
rail where it is in one, and the static labels of the site. Everything else is in annotations. If kind,
component or severity change while an incident is open, the alert with the former labels is ended in the request that
starts the new one (`Notification.before` has every face sent).

Alertmanager drops an alert that is not repeated. The alert of an open incident is sent every REFRESH seconds with an
end in AHEAD seconds, as Prometheus does; the end of a resolved one for RESEND_RESOLVED seconds. So an Alertmanager that
was down or lost its state is correct within a minute, and if the server dies its alerts end.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import msgspec

from fabricmon.forms.readable import first_step
from fabricmon.forms.times import rfc3339
from fabricmon.model import Face, Incident, Notification
from fabricmon.notify.deciding import next_cause, reading
from fabricmon.notify.last_notification import LastNotification, face_of
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.notify.message_fields import jobs_text, listed
from fabricmon.senders.attempt import Attempt, DeliveryOutcome
from fabricmon.senders.post import attempt_of, post
from fabricmon.senders.routing import Routing
from fabricmon.senders.settings import check_headers, check_url

REFRESH = 60.0
AHEAD = 240.0  # Prometheus: 4 times its resend delay; three refreshes may fail before an alert ends
RESEND_RESOLVED = 300.0
MAX_URLS = 16
MAX_ALERTS = 500  # alerts in one request
MAX_ANNOTATION = 4000  # characters of one annotation

# Labels set by this sender; not allowed as static labels.
PLACES = ("node", "device", "leaf", "rail")
OURS = ("alertname", "kind", "component", "severity", "incident", "fabric", "domain", *PLACES)


class AlertmanagerConfig(Routing, forbid_unknown_fields=True, frozen=True):
    """A receiver of kind `alertmanager`; see also `routing.Routing`.

    Alertmanager repeats notifications itself (`repeat_interval`). Without `send_resolved` alerts end after 4 minutes.

    urls           every Alertmanager of the cluster ("http://am-0:9093"), not a load balancer.
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
                raise ValueError(f"`labels`: {name!r} is not a label name, or is set by fabricmon")
        check_headers(self.headers)
        self.check()


async def send(
    session: aiohttp.ClientSession,
    config: AlertmanagerConfig,
    notification: Notification,
    links: IncidentLinks = NO_LINKS,
) -> Attempt:
    """One attempt at all Alertmanagers. DONE if one accepted: they replicate, and `refresh` repeats to all."""
    return await _post(session, config, alerts(config, notification, time.time(), links))


def preview(config: AlertmanagerConfig, notification: Notification, links: IncidentLinks = NO_LINKS) -> str:
    """The content that `send` would send."""
    made = alerts(config, notification, notification.created, links)
    return msgspec.json.format(msgspec.json.encode(made)).decode()


async def refresh(
    session: aiohttp.ClientSession,
    config: AlertmanagerConfig,
    standing: Sequence[tuple[Incident, LastNotification]],
    links: IncidentLinks = NO_LINKS,
) -> Attempt:
    """Repeat the alerts of all incidents sent as firing, and of those recently resolved."""
    now = time.time()
    all_alerts = [
        alert(config, incident, face, now, links)
        for incident, last in standing
        for face in (last.faces if incident.status != "firing" else last.faces[-1:])
    ]
    results = [
        await _post(session, config, all_alerts[start : start + MAX_ALERTS])
        for start in range(0, len(all_alerts), MAX_ALERTS)
    ]
    return next((r for r in results if r.outcome is not DeliveryOutcome.DONE), Attempt.done("refreshed"))


def alerts(
    config: AlertmanagerConfig, notification: Notification, now: float, links: IncidentLinks = NO_LINKS
) -> list[dict[str, Any]]:
    """The alerts of a notification: the current face of each incident, and an end for each former face."""
    made = []
    for incident in notification.incidents:
        current = face_of(incident)
        made += [
            alert(config, incident, former, now, links) | {"endsAt": rfc3339(now)}
            for former in notification.before.get(incident.id, ())
            if former != current
        ]
        made.append(alert(config, incident, current, now, links))
    return made


def alert(
    config: AlertmanagerConfig, incident: Incident, face: Face, now: float, links: IncidentLinks = NO_LINKS
) -> dict[str, Any]:
    """One alert: labels from the face, the rest from the current incident."""
    labels = {
        "alertname": alertname(face.kind),
        "kind": face.kind,
        "component": face.component,
        "severity": face.severity.value,
        "incident": incident.id,
        **({"fabric": incident.labels["fabric"]} if incident.labels.get("fabric") else {}),
        **places(face.component, incident.labels),
        **config.labels,
    }
    annotations = annotations_of(incident, face.kind, links)
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


def annotations_of(incident: Incident, kind: str, links: IncidentLinks) -> dict[str, str]:
    """The annotations of an alert; "" without a value."""
    jobs = jobs_text(incident.impact)
    return {
        "summary": incident.title,
        "description": "\n".join(filter(None, (
            f"Affected jobs: {jobs}" if jobs else "", f"Next step: {first_step(incident.action)}",
            f"Reading: {reading(incident)}",
        ))),
        "action": incident.action,
        "reading": reading(incident),
        "next_cause": next_cause(incident),
        "members": f"{incident.members.bad} of {incident.members.of}" if incident.members.of else "",
        "parts": ", ".join(incident.parts),
        "confidence": f"{incident.confidence:.3f}",
        "candidates": ", ".join(incident.candidates),
        "evidence": listed(f"{e.component}: {e.text}" for e in incident.evidence if e.for_it),
        "jobs": jobs,
        "runbook_url": links.runbook(kind),
        "dashboard_url": links.dashboard(incident),
        "server": links.server,
        **{
            f"label_{re.sub('[^a-zA-Z0-9_]', '_', k)}": v
            for k, v in sorted(incident.labels.items())
            if k != "jobs" and k not in OURS
        },
    }  # fmt: skip


def places(component: str, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels for where a component is. Node and device only where the component names them: an alert keeps its
    labels while the members of a larger component come and go."""
    found = {name: labels[name] for name in PLACES if labels.get(name)}
    words = set(re.split(r"[(),/ ]+", component))
    kept = {name: value for name, value in found.items() if name in ("leaf", "rail") or value in words}
    return {"domain": component.partition("(")[0], **kept}


def alertname(kind: str) -> str:
    """link_flapping -> FabricLinkFlapping: CamelCase as alert names are, and together in a sorted list."""
    return "Fabric" + "".join(word.capitalize() for word in kind.split("_") if word != "fabric")


async def _post(session: aiohttp.ClientSession, config: AlertmanagerConfig, made: list[dict[str, Any]]) -> Attempt:
    sent, access = msgspec.json.encode(made), (config.token_file, config.ca_file)
    places = [f"{url.rstrip('/')}/api/v2/alerts" for url in config.urls]
    posts = (post(session, place, sent, config.headers, config.timeout, *access) for place in places)
    results = [attempt_of(answer) for answer in await asyncio.gather(*posts)]
    for outcome in (DeliveryOutcome.DONE, DeliveryOutcome.RETRY):
        for url, result in zip(config.urls, results, strict=True):
            if result.outcome is outcome:
                return result._replace(reason=f"{url}: {result.reason}")
    return results[0]._replace(reason=f"{config.urls[0]}: {results[0].reason}")
