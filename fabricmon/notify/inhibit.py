"""Inhibition: an incident that only repeats part of a larger one is not told while the larger one fires. Pure.

The engine already folds what a cause explains into that cause. This is for what reaches the plan all the same, for
instance incidents opened at two ticks, or restored from before a restart. It holds back news only: what a receiver
was told of is followed up, and when the larger one ends while the smaller still fires, the smaller is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabricmon.model import Incident

# Kinds whose incident stands for all its members.
DOMAINS = frozenset({"fault_domain", "host_unreachable", "nic_fault"})


def inhibited_by(incident: Incident, firing: Iterable[Incident]) -> Incident | None:
    """The firing domain incident, at least as severe, that names every bad member of this one and more besides."""
    if not incident.parts or incident.status != "firing":
        return None
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
