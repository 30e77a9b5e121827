"""Acknowledgement of one incident by a person: no reminders, no escalation. Pure.

Unlike a silence it hides nothing that becomes worse, and it ends with the incident.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Incident, Severity

CHANGE = "acknowledged"
"""`HistoryEntry.change` of an acknowledgement in a notified incident."""

MAX_WORDS = 1024  # characters of an author, a comment


class AcknowledgementError(ValueError):
    """An acknowledgement that cannot be accepted; the text names the field."""


class Acknowledgement(Struct, frozen=True):
    """`author` acknowledged the incident at wall time `at`, when it had this severity."""

    incident: str
    at: float
    author: str
    comment: str
    severity: Severity

    def covers(self, incident: Incident) -> bool:
        """Whether it holds for the incident now: the same episode, at most the same severity."""
        return (
            incident.id == self.incident
            and incident.status == "firing"
            and incident.severity.rank <= self.severity.rank
            and opened(incident) <= self.at
        )


Acknowledgements = Mapping[str, Acknowledgement]
"""By incident id."""


def acknowledgement(incident: Incident, at: float, author: str, comment: str) -> Acknowledgement:
    """An acknowledgement from its fields; AcknowledgementError names the field that is wrong."""
    if incident.status != "firing":
        raise AcknowledgementError(f"incident {incident.id} has ended")
    for name, text in (("author", author), ("comment", comment)):
        if len(text) > MAX_WORDS:
            raise AcknowledgementError(f"{name}: at most {MAX_WORDS} characters, got {len(text)}")
    return Acknowledgement(incident.id, at, author, comment, incident.severity)


def opened(incident: Incident) -> float:
    """Wall time at which its present episode opened, by its history; its onset may be earlier."""
    return max(incident.openings)


def with_acknowledgement(incident: Incident, ack: Acknowledgement | None) -> Incident:
    """The incident with the acknowledgement in its history, for notifications."""
    if ack is None:
        return incident
    reason = f"by {ack.author or 'unknown'}" + (f": {ack.comment}" if ack.comment else "")
    return replace(incident, history=(*incident.history, HistoryEntry(ack.at, CHANGE, reason)))


def acknowledgement_in(incident: Incident) -> HistoryEntry | None:
    """The acknowledgement in the history of an incident, None without one."""
    return next((entry for entry in reversed(incident.history) if entry.change == CHANGE), None)
