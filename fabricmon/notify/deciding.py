"""What decides an incident, in a few words for a message: reading, next best cause, place. Pure."""

from __future__ import annotations

import math
import re

from fabricmon.model import Evidence, Incident

_UNITS = "%|ms|s|min|h|dBm|°C|W|mW|Gb/s|GT/s|lanes|errors/s"
_NUMBER = re.compile(rf"([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?) ?({_UNITS})?(?!\w)")
_SAME = 0.03  # relative difference between a value and its text: texts have two digits or more
_PLACES = ("node", "device", "leaf", "rail")


def deciding_evidence(incident: Incident) -> Evidence | None:
    """The first evidence for the incident that was compared with a limit, else the first one for it."""
    found = [e for e in incident.evidence if e.for_it]
    limited = (e for e in found if e.value is not None and e.limit and math.isfinite(e.value + e.limit))
    return next(limited, found[0] if found else None)


def reading(incident: Incident) -> str:
    """The deciding reading, with its limit in the unit of its text: "penalty 3705 (limit 2000)"; "" without any."""
    evidence = deciding_evidence(incident)
    if evidence is None:
        return ""
    where = "" if evidence.component == incident.component else f"{evidence.component}: "
    limit = limit_text(evidence)
    return f"{where}{evidence.text}" + (f" (limit {limit})" if limit else "")


def limit_text(evidence: Evidence) -> str:
    """The limit in the unit in which the text gives the value; "" without one, or where it is the value itself."""
    if evidence.value is None or not evidence.limit or not math.isfinite(evidence.value + evidence.limit):
        return ""
    if evidence.value == evidence.limit:
        return ""
    for number, unit in _NUMBER.findall(evidence.text):
        given = float(number.replace(",", ""))
        if _close(given, evidence.value):
            return f"{evidence.limit:.4g} {unit}".rstrip()
        if unit == "%" and _close(given, 100 * evidence.value):
            return f"{100 * evidence.limit:.4g} %"
    return f"{evidence.limit:.4g}"


def next_cause(incident: Incident) -> str:
    """The next best cause: one that the evidence cannot separate, else the one ruled out most narrowly; "" none."""
    if incident.candidates:
        return f"{incident.candidates[0]}, not ruled out"
    behind = [other for other in incident.ruled_out if other.behind is not None]
    near = min(behind, key=lambda other: other.behind or 0.0, default=None)
    return f"{near.component}, ruled out: {near.reason}" if near is not None else ""


def where(incident: Incident) -> str:
    """ "node host-011, device mlx5_2, leaf su0/rail2, rail su0/2"; the component where it is in none of these."""
    found = [f"{name} {incident.labels[name]}" for name in _PLACES if incident.labels.get(name)]
    return ", ".join(found) or incident.component


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME)
