"""Incidents and symptoms as JSON documents: times are RFC 3339 in UTC, unknown values are null. Pure.

docs/webhook.md and docs/api.md describe the fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta

from fabricmon.forms.times import rfc3339
from fabricmon.model import Evidence, HistoryEntry, Impact, Incident, Members, RuledOut, Symptom


class LinksDocument(TypedDict, total=False):
    """Addresses of an incident; one that is not known is left out.

    url        the incident on the server's page
    runbook    what to do about this kind of incident
    dashboard  the related readings in Grafana
    """

    url: str
    runbook: str
    dashboard: str




Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | None
"""RFC 3339, UTC, milliseconds; null: unknown."""

# `for` is no name in Python
EvidenceDocument = TypedDict(
    "EvidenceDocument",
    {
        "component": str,
        "text": str,
        "formula": str,
        "value": float | None,
        "limit": float | None,
        "unit": Annotated[str, Meta(description='of value and limit: "ratio", "seconds", "nats"; "": a plain number')],
        "for": bool,
    },
)
"""A reading, with the formula that evaluated it; `for` false: against the verdict."""


class HistoryDocument(TypedDict):
    """One change of an incident's state."""

    at: Time
    change: str
    reason: str


class AffectedJob(TypedDict):
    """A job that the incident affects.

    verdict  the worst so far: crash, stall, slow or at_risk
    nodes    its affected nodes, at most 16
    hit      number of its affected nodes
    of       number of its nodes
    gone     when the scheduler first no longer listed it
    """

    id: str
    name: str
    user: str
    source: str
    verdict: str
    reason: str
    nodes: tuple[str, ...]
    hit: int
    of: int
    since: Time
    gone: Time


class ImpactDocument(TypedDict):
    """Affected jobs and jobs at risk.

    state  known, partly (a source has not answered for long) or unknown
    as_of  time of the oldest answer used
    jobs   at most 32, the worst first
    total  number of all
    """

    state: str
    source: str
    as_of: Time
    jobs: list[AffectedJob]
    total: int


class IncidentDocument(LinksDocument):
    """One incident.

    id          identifies the cause, also after a restart and on a second server
    kind        kind of fault; may become more precise while the incident fires
    component   affected component; may become more precise while the incident fires
    confidence  0 to 1; null: unknown
    members     bad members of the component, and all members
    candidates  other components that the evidence cannot distinguish from this one
    ruled_out   other causes of the same symptoms, and why they do not apply
    parts       names of the bad members, at most 64
    revision    increases with every change of the incident on one server
    impact      affected jobs; null: it cannot affect jobs, or no source of jobs is configured
    """

    id: str
    status: str
    severity: str
    kind: str
    component: str
    since: Time
    resolved: Time
    updated: Time
    confidence: float | None
    title: str
    why: str
    action: str
    evidence: list[EvidenceDocument]
    members: Members
    labels: dict[str, str]
    candidates: tuple[str, ...]
    ruled_out: list[RuledOut]
    parts: tuple[str, ...]
    history: list[HistoryDocument]
    revision: int
    impact: ImpactDocument | None


class SymptomDocument(TypedDict):
    """A rule that holds for a component. `info`: further facts by name."""

    rule: str
    kind: str
    severity: str
    component: ComponentDocument
    since: Time
    value: float | None
    evidence: list[Evidence]
    info: dict[str, str]


class ComponentDocument(TypedDict):
    """A component: its kind, its node, its name on that node."""

    kind: str
    node: str
    name: str


def incident_document(incident: Incident, links: LinksDocument) -> IncidentDocument:
    """One incident; `links` are added to its fields."""
    return {
        "id": incident.id,
        "status": incident.status,
        "severity": incident.severity.value,
        "kind": incident.kind,
        "component": incident.component,
        "since": rfc3339(incident.since),
        "resolved": optional_time(incident.resolved),
        "updated": rfc3339(incident.updated),
        "confidence": finite(incident.confidence),
        "title": incident.title,
        "why": incident.why,
        "action": incident.action,
        "evidence": [_evidence(e) for e in incident.evidence],
        "members": incident.members,
        "labels": incident.labels,
        "candidates": incident.candidates,
        "ruled_out": list(incident.ruled_out),
        "parts": incident.parts,
        "history": history_document(incident.history),
        "revision": incident.revision,
        "impact": None if incident.impact is None else _impact(incident.impact),
        **links,
    }


def history_document(history: Sequence[HistoryEntry]) -> list[HistoryDocument]:
    """The state changes of an incident, in order of time."""
    return [{"at": rfc3339(h.at), "change": h.change, "reason": h.reason} for h in history]


def symptom_document(symptom: Symptom) -> SymptomDocument:
    """One symptom."""
    component = symptom.component
    return {
        "rule": symptom.rule,
        "kind": symptom.kind,
        "severity": symptom.severity.value,
        "component": {"kind": component.kind.value, "node": component.node, "name": component.name},
        "since": rfc3339(symptom.since),
        "value": symptom.value,
        "evidence": list(symptom.evidence),
        "info": symptom.info,
    }


def optional_time(wall: float | None) -> str | None:
    """RFC 3339 text of a time, or None."""
    return None if wall is None else rfc3339(wall)


def finite(value: float | None) -> float | None:
    """The number; None for NaN, infinity and None."""
    return value if value is not None and math.isfinite(value) else None


def _evidence(e: Evidence) -> EvidenceDocument:
    return {
        "component": e.component,
        "text": e.text,
        "formula": e.formula,
        "value": finite(e.value),
        "limit": finite(e.limit),
        "unit": e.unit,
        "for": e.for_it,
    }


def _impact(impact: Impact) -> ImpactDocument:
    return {
        "state": impact.state,
        "source": impact.source,
        "as_of": optional_time(impact.as_of),
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
                "gone": optional_time(job.gone),
            }
            for job in impact.jobs
        ],
        "total": impact.total,
    }
