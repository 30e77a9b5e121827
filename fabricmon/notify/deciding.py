"""What decides an incident, in a few words for a message: reading, next best cause, place. Pure."""

from __future__ import annotations

import math

from fabricmon.forms.quantities import quantity
from fabricmon.model import Evidence, Incident

_PLACES = ("node", "device", "switch", "leaf", "rail")
_MILLION = 1e6
UNEXPLAINED = 0.1
"""Missing confidence that is more than ten times what the other causes take is that of normal work, as one or two of
three known explanations (docs/methods.md#harmless-causes)."""


def deciding_evidence(incident: Incident) -> Evidence | None:
    """The first evidence for the incident that was compared with a limit, else the first one for it. Of a group it is
    a reading of one of its members: how many are bad is in the title."""
    found = [e for e in incident.evidence if e.for_it]
    limited = [e for e in found if e.value is not None and e.limit and math.isfinite(e.value + e.limit)]
    if incident.members.of > 1:
        limited = [e for e in limited if e.component != incident.component]
    return next(iter(limited or found), None)


def reading(incident: Incident) -> str:
    """The deciding reading, with limit and unit: "link down for 10 s (limit 5 s)"; "" without any. Of a group:
    "host-003/mlx5_2/1 (1 of 32): link down for 10 s (limit 5 s)"; the only member has the place of the incident."""
    evidence = deciding_evidence(incident)
    if evidence is None:
        return ""
    one_of = f" (1 of {incident.members.bad})" if incident.members.bad > 1 else ""
    alone = evidence.component == incident.component or incident.parts == (evidence.component,)
    where = "" if alone else f"{evidence.component}{one_of}: "
    return f"{where}{with_limit(evidence)}"


def with_limit(evidence: Evidence) -> str:
    """The text of a reading with its limit: "link down for 10 s (limit 5 s)"."""
    limit = limit_text(evidence)
    return f"{evidence.text} (limit {limit})" if limit else evidence.text


def limit_text(evidence: Evidence) -> str:
    """The limit with its unit; "" where nothing was compared with one, or it is the value itself."""
    if not evidence.measure or evidence.value is None or not evidence.limit or evidence.value == evidence.limit:
        return ""
    return quantity(evidence.limit, evidence.unit) if math.isfinite(evidence.value + evidence.limit) else ""


def next_cause(incident: Incident) -> str:
    """The next best cause: one that the evidence cannot separate, else normal work where that limits the confidence,
    else the one ruled out most narrowly; "" none."""
    if incident.candidates:
        return f"{incident.candidates[0]}, not ruled out"
    behind = [other for other in incident.ruled_out if other.behind is not None]
    near = min(behind, key=lambda other: other.behind or 0.0, default=None)
    if near is None:
        return ""
    nats = near.behind or 0.0
    if 1.0 - incident.confidence > max(UNEXPLAINED, 10.0 * math.exp(-nats)):
        return "normal work that shows the same, not ruled out"
    return f"{near.component}, {less_likely(nats)}"


def less_likely(nats: float) -> str:
    """ "25 times less likely", "over a million times less likely"."""
    if nats > math.log(_MILLION):
        return "over a million times less likely"
    return f"{math.exp(max(nats, 0.0)):,.0f} times less likely"


def where(incident: Incident) -> str:
    """ "node host-011, device mlx5_2, leaf su0/rail2, rail su0/2"; the component where it is in none of these."""
    found = [f"{name} {incident.labels[name]}" for name in _PLACES if incident.labels.get(name)]
    return ", ".join(found) or incident.component
