"""Acknowledgement: somebody has taken an incident on. Nobody is reminded of it and nobody else is called. Pure.

Unlike a silence it is about one incident, hides nothing that becomes worse, and ends with the incident.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from fabricmon.model import HistoryEntry, Incident, Severity

CHANGE = "acknowledged"
"""`HistoryEntry.change` of an acknowledgement, in the history of an incident that is told."""

MAX_WORDS = 1024  # characters of an author, a comment


class AcknowledgementError(ValueError):
    """An acknowledgement that cannot be accepted; the text names the field."""


class Acknowledgement(Struct, frozen=True):
    """`author` took the incident on at wall time `at`, when it was of this severity."""

    incident: str
    at: float
    author: str
    comment: str
    severity: Severity

    def covers(self, incident: Incident) -> bool:
        """Whether it holds for the incident as it is: the same episode, and no worse than it was."""
        return (
            incident.id == self.incident
            and incident.status == "firing"
            and incident.severity.rank <= self.severity.rank
            and opened(incident) <= self.at
        )


Acknowledgements = Mapping[str, Acknowledgement]
"""By incident id."""


def acknowledgement(incident: Incident, at: float, author: str, comment: str) -> Acknowledgement:
    """An acknowledgement by what a person said; AcknowledgementError names what is wrong with it."""
    if incident.status != "firing":
        raise AcknowledgementError(f"incident {incident.id} has ended")
    for name, text in (("author", author), ("comment", comment)):
        if len(text) > MAX_WORDS:
            raise AcknowledgementError(f"{name}: at most {MAX_WORDS} characters, got {len(text)}")
    return Acknowledgement(incident.id, at, author, comment, incident.severity)


def opened(incident: Incident) -> float:
    """Wall time at which its present episode became an incident, by its history; its onset may be earlier."""
    return max((e.at for e in incident.history if e.change in ("opened", "reopened")), default=incident.since)


def with_word(incident: Incident, ack: Acknowledgement | None) -> Incident:
    """The incident with the acknowledgement in its history, for those who are told of it."""
    if ack is None:
        return incident
    said = f"by {ack.author or 'somebody'}" + (f": {ack.comment}" if ack.comment else "")
    return replace(incident, history=(*incident.history, HistoryEntry(ack.at, CHANGE, said)))


def said(incident: Incident) -> HistoryEntry | None:
    """The acknowledgement in the history of an incident that is told."""
    return next((entry for entry in reversed(incident.history) if entry.change == CHANGE), None)
