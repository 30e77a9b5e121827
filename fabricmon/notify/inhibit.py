"""Inhibition: an incident that only repeats part of a larger one is not told while the larger one fires. Pure.

The engine already folds what a cause explains into that cause. This is for what reaches the plan all the same, for
instance incidents opened at two ticks, or restored from before a restart. It holds back news only: what a receiver
was told of is followed up, and when the larger one ends while the smaller still fires, the smaller is told.
"""

from __future__ import annotations

from collections.abc import Collection

from fabricmon.model import Incident

# Kinds whose incident stands for all its members.
DOMAINS = frozenset({"fault_domain", "host_unreachable", "nic_fault"})

MASS_ALARM = "mass_alarm"
"""Kind of the incident that stands for everything that opens while it fires; its label "from" says since when."""

OPENINGS = frozenset({"opened", "reopened"})


def inhibited_by(incident: Incident, firing: Collection[Incident]) -> Incident | None:
    """The firing mass alarm that began before this one opened; else the firing domain incident, at least as severe,
    that names every bad member of this one and more besides."""
    if incident.status != "firing":
        return None
    alarm = next((other for other in firing if _holds(other, incident)), None)
    if alarm is not None or not incident.parts:
        return alarm
    mine = set(incident.parts)
    for other in firing:
        if (
            other.id != incident.id
            and other.status == "firing"
            and other.kind in DOMAINS
            and other.severity.rank >= incident.severity.rank
            and mine < set(other.parts)
        ):
            return other
    return None


def _holds(alarm: Incident, incident: Incident) -> bool:
    """Whether a mass alarm speaks for an incident: it opened at the time, or since."""
    if alarm.kind != MASS_ALARM or alarm.status != "firing" or incident.kind == MASS_ALARM:
        return False
    opened = max((entry.at for entry in incident.history if entry.change in OPENINGS), default=incident.since)
    return opened >= float(alarm.labels.get("from", alarm.since))
