"""When an incident of before a restart ends that no draft has confirmed yet. Pure.

It stays until each of its parts was seen healthy or does not exist any more (`Fleet.exists`), or until other incidents
explain the rest, as one of this process would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from fabricmon.catalogue.kinds import Inhibits, kind_of
from fabricmon.engine.incidents.incident_draft import FEW, LINGER, IncidentDraft
from fabricmon.model import Incident

FOUND_AGAIN = 600.0
"""Seconds after a restart within which a restored incident without parts must be found again: nodes and jobs report
again within them."""


class PartState(Enum):
    """What is known of a part of a restored incident."""

    HEALTHY = "healthy"  # seen healthy
    UNCONFIRMED = "unconfirmed"  # not seen healthy
    LEFT = "left"  # it does not exist any more


class Ending(NamedTuple):
    """Why an incident ends. `absorbed_by`: the id of the larger one that takes it over, "" none."""

    reason: str
    absorbed_by: str = ""


class Parts(NamedTuple):
    """The parts of a restored incident: is one here at all, and which are not seen healthy."""

    here: bool
    bad: frozenset[str]


def parts_of(incident: Incident, state: Callable[[str, str], PartState]) -> Parts:
    states = {part: state(part, incident.kind) for part in incident.parts}
    bad = frozenset(part for part, found in states.items() if found is PartState.UNCONFIRMED)
    return Parts(any(found is not PartState.LEFT for found in states.values()), bad)


def without_parts(now: float, since: float) -> Ending | None:
    """Of an incident that names no part; `since`: `now` from which on it could be found again."""
    return None if now - since < FOUND_AGAIN else Ending("it was not found again after the restart")


def healthy(incident: Incident, parts: Parts, calm_for: float) -> Ending | None:
    """Of an incident without a bad part for `calm_for` seconds. A rule's memory is lost at a restart: it cools."""
    if not parts.here:
        return Ending("all its parts left the fabric")
    cool = calm_for >= kind_of(incident.kind).cooling
    return Ending("all its parts were seen healthy after the restart") if cool else None


def explained_otherwise(
    incident: Incident, bad: frozenset[str], firing: Mapping[str, IncidentDraft], restored_for: float
) -> Ending | None:
    """Of an incident whose bad parts are in others now. `firing`: id -> draft of each."""
    kind, explained = incident.kind, set[str]()
    any_symptom = kind_of(kind).symptom is None
    for id, draft in firing.items():
        theirs = {str(key.component) for key in draft.claims if any_symptom or key.rule == kind}
        if bad <= theirs and (draft.group or len(incident.parts) == 1):
            return Ending(f"part of {draft.component}", id)
        explained |= theirs
    together = kind_of(kind).inhibits is Inhibits.PARTS and len(bad) > FEW
    if not together and bad <= explained and restored_for >= LINGER:
        return Ending("its remaining parts have incidents of their own now")
    return None
