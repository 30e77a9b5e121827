"""What a receiver was sent in one story, and the questions that a test asks of it.

The stories are incidents in worlds written by testers who had read neither the engine nor the simulator
(docs/accuracy-stories.md). A story is played once, with one seed, and its expectation was written before it was played.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabricmon.model import Incident, Severity
from fabricmon.sim.scenarios.run import Log
from fabricmon.sim.scenarios.stage import START
from fabricmon.simulate.random_scenarios import DELIVERED


@dataclass(frozen=True)
class Sent:
    """One incident of one notification. `after`: seconds since the fault of the story began."""

    after: float
    reason: str
    incident: Incident

    def __str__(self) -> str:
        one = self.incident
        return (
            f"[{self.after:+.0f} s] {one.status} {one.severity.value} {one.kind} {one.component} "
            f"{one.confidence:.2f}: {one.title}"
        )

    @property
    def text(self) -> str:
        """All that it states in words: title, reason, next step and evidence."""
        one = self.incident
        return "\n".join((one.title, one.why, one.action, *(item.text for item in one.evidence)))


class Inbox:
    """What a receiver of the default configuration was sent, and how many messages it was."""

    def __init__(self, log: Log, fault: float) -> None:
        self._notes = [note for note in log.notes if note.receiver == DELIVERED.name]
        self._fault = fault

    def __iter__(self) -> Iterator[Sent]:
        for note in self._notes:
            for incident in note.incidents:
                yield Sent(note.created - START - self._fault, note.reason, incident)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing"

    @property
    def messages(self) -> int:
        return sum(note.messages for note in self._notes)

    def firing(self, pattern: str = "", *, by: float = float("inf")) -> list[Sent]:
        """Firing incidents sent by that second whose kind, component, title or candidates match the pattern."""
        return [
            one
            for one in self
            if one.incident.status == "firing" and one.after <= by and re.search(pattern, _words(one.incident))
        ]

    def besides(self, pattern: str) -> list[Sent]:
        """Firing incidents that do not match the pattern: what else was blamed."""
        expected = [one.incident for one in self.firing(pattern)]
        return [one for one in self.firing() if one.incident not in expected]

    def of(self, severity: Severity) -> list[Sent]:
        """Firing incidents of at least this severity."""
        return [one for one in self.firing() if one.incident.severity.rank >= severity.rank]

    @property
    def unresolved(self) -> set[str]:
        """Components whose last notification was not that they are resolved."""
        last = {one.incident.id: one.incident for one in self}
        return {one.component for one in last.values() if one.status != "resolved"}


def _words(incident: Incident) -> str:
    return " ".join((incident.kind, incident.component, incident.title, *incident.candidates))
