"""Incidents and symptoms as JSON documents: times are RFC 3339 in UTC, unknown values are null. Pure.

docs/webhook.md and docs/api.md describe the fields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fabricmon.forms.times import rfc3339
from fabricmon.model import Evidence, HistoryEntry, Impact, Incident, Symptom


def incident_document(incident: Incident, links: Mapping[str, str]) -> dict[str, Any]:
    """One incident. `links`: addresses by name ("url", "runbook", "dashboard"), added to its fields."""
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
        "members": {"bad": incident.members.bad, "of": incident.members.of},
        "labels": incident.labels,
        "candidates": incident.candidates,
        "ruled_out": [msgspec.to_builtins(other) for other in incident.ruled_out],
        "parts": incident.parts,
        "history": history_document(incident.history),
        "revision": incident.revision,
        "impact": None if incident.impact is None else _impact(incident.impact),
        **links,
    }


def history_document(history: Sequence[HistoryEntry]) -> list[dict[str, Any]]:
    """The state changes of an incident, in order of time."""
    return [{"at": rfc3339(h.at), "change": h.change, "reason": h.reason} for h in history]


def symptom_document(symptom: Symptom) -> dict[str, Any]:
    """One symptom."""
    component = symptom.component
    return {
        "rule": symptom.rule,
        "kind": symptom.kind,
        "severity": symptom.severity.value,
        "component": {"kind": component.kind.value, "node": component.node, "name": component.name},
        "since": rfc3339(symptom.since),
        "value": symptom.value,
        "evidence": [msgspec.to_builtins(e) for e in symptom.evidence],
        "info": symptom.info,
    }


def optional_time(wall: float | None) -> str | None:
    """RFC 3339 text of a time, or None."""
    return None if wall is None else rfc3339(wall)


def finite(value: float | None) -> float | None:
    """The number; None for NaN, infinity and None."""
    return value if value is not None and math.isfinite(value) else None


def _evidence(e: Evidence) -> dict[str, Any]:
    return {
        "component": e.component,
        "text": e.text,
        "formula": e.formula,
        "value": finite(e.value),
        "limit": finite(e.limit),
        "for": e.for_it,
    }


def _impact(impact: Impact) -> dict[str, Any]:
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
