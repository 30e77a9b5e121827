"""Fields of a message: named pieces of plain text. Pure.

Names of the fabric (switch descriptions, host and job names, kernel messages) are untrusted: they lose control and
bidirectional characters here and are cut. Formats (HTML, Slack's mrkdwn) escape them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from fabricmon.forms.readable import first_step
from fabricmon.model import Impact, Incident, JobImpact, JobVerdict, Notification
from fabricmon.notify.acknowledge import acknowledgement_in
from fabricmon.notify.deciding import next_cause, reading, where
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.matchers import nodes_of

FIELDS: Mapping[str, str] = {
    "state": "CRITICAL, WARNING, INFO, ACKNOWLEDGED or RESOLVED",
    "title": "one line: what is broken, or was",
    "what": "the component, and how many of its members are bad",
    "why": "reason for this cause",
    "evidence": "readings for it",
    "against": "readings against it",
    "candidates": "other possible causes: components that the evidence cannot separate",
    "parts": "names of the bad members",
    "jobs": "affected jobs: crashed, stalled, slow or at risk; or unknown",
    "action": "next step, in full",
    "first_step": "what to do first: the beginning of the next step",
    "reading": "the deciding reading, with its limit and unit",
    "next_cause": "the next best cause, and why it is not the first",
    "where": "node, device, switch, leaf and rail, as far as it is in one",
    "since": "when it began, UTC",
    "lasted": "its duration so far, or in all",
    "resolved": "when it ended, UTC; empty while it fires",
    "reason": "reason for this notification: new incident, severity rose, resolved, ...",
    "acknowledged": "by whom it is acknowledged, and the comment",
    "url": "the incident on the server's page",
    "runbook": "the runbook of its kind",
    "dashboard": "the readings around it in Grafana",
    "id": "the incident's id",
    "kind": "link_flapping, nic_fault, ...",
    "component": "link(host-007/mlx5_3/1, leaf-3/12)",
    "nodes": "names of its nodes",
    "severity": "critical, warning or info, also when it has ended",
    "status": "firing or resolved",
    "confidence": "97 %",
    "members": "32 of 32; empty where it has none",
    "fabric": "name of the fabric",
    "server": "name of the server that sends the message",
    "receiver": "name of this receiver in the configuration",
    "count": "number of incidents in this notification",
}
"""Every field of a template, with its meaning. Further `label.NAME`: a label of the incident."""

MOST = 2000  # characters of one value
MOST_LINE = 500  # characters of one line of a value with several
MOST_LINES = 8  # lines of such a value; of more the rest is counted
MOST_NAMES = 12  # names in a list of names

UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of invisible characters with effects: controls, direction marks, surrogates, line ends."""

_VERDICTS = {
    JobVerdict.CRASH: "crashes",
    JobVerdict.STALL: "stalls",
    JobVerdict.SLOW: "is slow",
    JobVerdict.AT_RISK: "is at risk",
}

_PAST = {"is": "was", "are": "were", "has": "had", "have": "had", "loses": "lost", "lose": "lost", "does": "did"}
_VERBS = re.compile(rf"(?<= )({'|'.join(_PAST)})(?= )")


def field_values(incident: Incident, notification: Notification, links: IncidentLinks) -> dict[str, str]:
    """The value of every field, "" without one. For `label.*` see `label_value`."""
    bad = f"{incident.members.bad} of {incident.members.of}" if incident.members.of > 1 else ""
    ack = acknowledgement_in(incident)
    ended = incident.status != "firing"
    until = incident.resolved if ended and incident.resolved is not None else notification.created
    values = {
        "state": "RESOLVED" if ended else "ACKNOWLEDGED" if ack else incident.severity.value.upper(),
        "title": past(incident.title) if ended else incident.title,
        "what": incident.component + (f", {bad} bad" if bad else ""),
        "why": incident.why,
        "action": incident.action,
        "candidates": _names(incident.candidates),
        "parts": _names(incident.parts),
        "since": utc(incident.since),
        "lasted": duration(until - incident.since),
        "resolved": utc(incident.resolved) if ended else "",
        "reason": notification.reason,
        "acknowledged": f"{ack.reason}, {utc(ack.at)}" if ack else "",
        "url": links.incident(incident.id),
        "runbook": links.runbook(incident.kind),
        "dashboard": links.dashboard(incident),
        "id": incident.id,
        "kind": incident.kind,
        "component": incident.component,
        "nodes": incident.labels.get("node", "") or _names(nodes_of(incident)),
        "severity": incident.severity.value,
        "status": incident.status,
        "confidence": percent(incident.confidence),
        "members": bad,
        "fabric": incident.labels.get("fabric", ""),
        "server": links.server,
        "receiver": notification.receiver,
        "count": str(len(notification.incidents)),
    }
    return {name: plain(text, MOST) for name, text in (values | _deciding(incident)).items()} | {
        "evidence": _evidence(incident, True),
        "against": _evidence(incident, False),
        "jobs": jobs_text(incident.impact),
    }


def past(title: str) -> str:
    """The title of an incident that is over: "Leaf su0/rail2 was down: 32 of 32 links"."""
    return _VERBS.sub(lambda found: _PAST[found[0]], title)


def _deciding(incident: Incident) -> dict[str, str]:
    return {
        "first_step": first_step(incident.action),
        "reading": reading(incident),
        "next_cause": next_cause(incident),
        "where": where(incident),
    }


def label_value(incident: Incident, name: str) -> str:
    """A label's value, "" where the incident has none of that name."""
    return plain(incident.labels.get(name, ""), MOST_LINE)


def plain(text: str, most: int) -> str:
    """One line of harmless text of at most `most` characters."""
    clean = text if text.isprintable() else _seen(text[: 4 * most])
    clean = clean.strip()
    return clean if len(clean) <= most else clean[: most - 1].rstrip() + "…"


def _seen(text: str) -> str:
    return re.sub(" +", " ", "".join(" " if unicodedata.category(c) in UNSEEN else c for c in text))


def _evidence(incident: Incident, for_it: bool) -> str:
    return listed(f"{e.component}: {e.text}" for e in incident.evidence if e.for_it == for_it)


def listed(lines: Iterable[str]) -> str:
    """Several plain lines; at most MOST_LINES, the last of which counts the rest."""
    found = [plain(line, MOST_LINE) for line in lines]
    if len(found) > MOST_LINES:
        found = [*found[: MOST_LINES - 1], f"and {len(found) - MOST_LINES + 1} more"]
    return "\n".join(found)


def percent(confidence: float) -> str:
    """Confidence as "97 %", "over 99 %" from 0.995 on; "" unknown."""
    if not math.isfinite(confidence):
        return ""
    return "over 99 %" if confidence >= 0.995 else f"{math.floor(confidence * 100)} %"


def utc(wall: float | None) -> str:
    """2026-05-04 09:10:01 UTC; "" unknown."""
    if wall is None:
        return ""
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def duration(seconds: float) -> str:
    """A duration in two parts: 45 s, 12 min, 3 h 20 min, 2 d 4 h; "" unknown."""
    if not math.isfinite(seconds) or seconds < 0:
        return ""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    (big, large), (small, little) = ((86400, "d"), (3600, "h")) if whole >= 86400 else ((3600, "h"), (60, "min"))
    rest = whole % big // small
    return f"{whole // big} {large}" + (f" {rest} {little}" if rest else "")


def jobs_text(impact: Impact | None) -> str:
    """The affected jobs, the worst first; "unknown: ..." without a scheduler; "" where an incident affects none."""
    if impact is None:
        return ""
    source = plain(impact.source, 100)
    if impact.state == "unknown":
        return f"unknown: no answer of {source or 'the scheduler'} for too long"
    lines = [_job(job) for job in impact.jobs]
    more = impact.total - len(impact.jobs)
    if more > 0:
        lines.append(f"and {more} more")
    if impact.state != "known":
        lines.append(f"possibly more: not every scheduler answered ({source})")
    return listed(lines) if lines else "none"


def _job(job: JobImpact) -> str:
    name = job.id if not job.name or job.name in job.id else job.name
    about = ", ".join(word for word in (job.id if name != job.id else "", job.user) if word)
    gone = "; it is not listed any more" if job.gone is not None else ""
    return f"{name}{f' ({about})' if about else ''} {_VERDICTS[job.verdict]}, {job.hit} of {job.of} nodes{gone}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(plain(name, 200) for name in names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
