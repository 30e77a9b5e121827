"""What a message can say of an incident: named pieces of plain text. Pure.

Names of the fabric (descriptions of switches, host names, job names, kernel messages) come from machines and people
we do not know: here they lose control characters and what turns text around, and get a length. Who writes them into
a format of its own (HTML, Slack's mrkdwn) escapes them there.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from fabricmon.model import Impact, Incident, JobImpact, JobVerdict, Notification
from fabricmon.notify.acknowledge import said
from fabricmon.notify.links import Links
from fabricmon.notify.matchers import nodes_of

FIELDS: Mapping[str, str] = {
    "state": "CRITICAL, WARNING, INFO, ACKNOWLEDGED or RESOLVED",
    "title": "one line: what is broken",
    "what": "the component, and how many of its members are bad",
    "why": "why we think so",
    "sure": "how sure we are, in words and per cent",
    "evidence": "the readings that speak for it",
    "against": "the readings that speak against it",
    "candidates": "what else it could be: components that the evidence cannot tell apart",
    "parts": "names of the bad members",
    "jobs": "jobs that crash, stall, are slow or at risk, and why; or that nobody knows",
    "action": "what to do",
    "since": "when it began, UTC",
    "lasted": "how long it has been going on, or went on",
    "resolved": "when it ended, UTC; empty while it fires",
    "reason": "why this is told now: new incident, severity rose, resolved, ...",
    "taken": "who has taken it on, and their comment",
    "url": "the incident on the centre's page",
    "runbook": "the runbook of its kind",
    "dashboard": "the readings around it in Grafana",
    "id": "the incident's id",
    "kind": "link_flapping, nic_fault, ...",
    "component": "link(host-007/mlx5_3/1, leaf-3/12)",
    "nodes": "names of the nodes it is about",
    "severity": "critical, warning or info, also when it has ended",
    "status": "firing or resolved",
    "confidence": "0 to 1",
    "members": "32 of 32; empty where it has none",
    "fabric": "name of the fabric",
    "receiver": "name of this receiver in the configuration",
    "count": "how many incidents this notification tells of",
}
"""Every field of a template, with its meaning. Besides there is `label.NAME`: a label of the incident."""

MOST = 2000  # characters of one value
MOST_LINE = 500  # characters of one line of a value with several
MOST_LINES = 8  # lines of such a value; of more the rest is counted
MOST_NAMES = 12  # names in a list of names

UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that show nothing and do something: controls, marks that turn text around, halves of
pairs, line ends."""

_VERDICTS = {
    JobVerdict.CRASH: "crashes",
    JobVerdict.STALL: "stalls",
    JobVerdict.SLOW: "is slow",
    JobVerdict.AT_RISK: "is at risk",
}


def fields(incident: Incident, notification: Notification, links: Links) -> dict[str, str]:
    """The value of every field; "" for what there is not to say. `label.*` is not among them, see `label`."""
    members = incident.members
    bad = f"{members.bad} of {members.of}" if members.of > 1 else ""
    ack = said(incident)
    ended = incident.status != "firing"
    until = incident.resolved if ended and incident.resolved is not None else notification.created
    values = {
        "state": "RESOLVED" if ended else "ACKNOWLEDGED" if ack else incident.severity.value.upper(),
        "title": incident.title,
        "what": incident.component + (f", {bad} bad" if bad else ""),
        "why": incident.why,
        "sure": sure(incident.confidence),
        "action": incident.action,
        "candidates": _names(incident.candidates),
        "parts": _names(incident.parts),
        "since": clock(incident.since),
        "lasted": lasted(until - incident.since),
        "resolved": clock(incident.resolved) if ended else "",
        "reason": notification.reason,
        "taken": f"{ack.reason}, {clock(ack.at)}" if ack else "",
        "url": links.incident(incident.id),
        "runbook": links.runbook(incident.kind),
        "dashboard": links.dashboard(incident),
        "id": incident.id,
        "kind": incident.kind,
        "component": incident.component,
        "nodes": incident.labels.get("node", "") or _names(nodes_of(incident)),
        "severity": incident.severity.value,
        "status": incident.status,
        "confidence": f"{incident.confidence:.2f}" if math.isfinite(incident.confidence) else "",
        "members": bad,
        "fabric": incident.labels.get("fabric", ""),
        "receiver": notification.receiver,
        "count": str(len(notification.incidents)),
    }
    made = {name: plain(text, MOST) for name, text in values.items()}
    made["evidence"] = listed(f"{e.component}: {e.text}" for e in incident.evidence if e.for_it)
    made["against"] = listed(f"{e.component}: {e.text}" for e in incident.evidence if not e.for_it)
    made["jobs"] = jobs(incident.impact)
    return made


def label(incident: Incident, name: str) -> str:
    """A label's value, "" where the incident has none of that name."""
    return plain(incident.labels.get(name, ""), MOST_LINE)


def plain(text: str, most: int) -> str:
    """One line of harmless text of at most `most` characters."""
    clean = text if text.isprintable() else _seen(text[: 4 * most])
    clean = clean.strip()
    return clean if len(clean) <= most else clean[: most - 1].rstrip() + "…"


def _seen(text: str) -> str:
    return re.sub(" +", " ", "".join(" " if unicodedata.category(c) in UNSEEN else c for c in text))


def listed(lines: Iterable[str]) -> str:
    """Several lines, each of them harmless; at most MOST_LINES, the last of which counts the rest."""
    found = [plain(line, MOST_LINE) for line in lines]
    if len(found) > MOST_LINES:
        found = [*found[: MOST_LINES - 1], f"and {len(found) - MOST_LINES + 1} more"]
    return "\n".join(found)


def sure(confidence: float) -> str:
    """Confidence as a person says it: "very likely (96 %)"."""
    if not math.isfinite(confidence):
        return "not known"
    per_cent = min(99, math.floor(confidence * 100)) if confidence < 1 else 100
    for least, word in ((0.99, "as good as certain"), (0.9, "very likely"), (0.7, "likely"), (0.5, "suspected")):
        if confidence >= least:
            return f"{word} ({per_cent} %)"
    return f"only a guess ({per_cent} %)"


def clock(wall: float | None) -> str:
    """2026-05-04 09:10:01 UTC; "" where it is not known."""
    if wall is None:
        return ""
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def lasted(seconds: float) -> str:
    """A length of time in two parts: 45 s, 12 min, 3 h 20 min, 2 d 4 h; "" where it is not known."""
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


def jobs(impact: Impact | None) -> str:
    """The jobs hit, the worst first; that nobody knows where nobody does; "" where an incident can hit none."""
    if impact is None:
        return ""
    source = plain(impact.source, 100)
    if impact.state == "unknown":
        return f"not known: {source or 'the scheduler'} was not heard of for too long"
    lines = [_job(job) for job in impact.jobs]
    more = impact.total - len(impact.jobs)
    if more > 0:
        lines.append(f"and {more} more")
    if impact.state != "known":
        lines.append(f"perhaps others: not every scheduler was heard of ({source})")
    return listed(lines) if lines else "none"


def _job(job: JobImpact) -> str:
    name = job.id if not job.name or job.name in job.id else f"{job.name}#{job.id}"
    of = f" of {job.user}" if job.user else ""
    gone = "; it is not listed any more" if job.gone is not None else ""
    return f"{name}{of} {_VERDICTS[job.verdict]}, {job.hit} of {job.of} nodes hit: {job.reason}{gone}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(plain(name, 200) for name in names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
