"""Why a receiver is notified of an incident now. Pure.

It compares the incident with the last notification and needs no queue of changes, so nothing is lost by a restart, a
silence or a full outbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fabricmon.model import Incident
from fabricmon.notify.acknowledge import Acknowledgement, Acknowledgements, opened
from fabricmon.notify.inhibit import inhibits
from fabricmon.notify.last_notification import LastNotification, LastNotifications
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import SilenceMatches

ACKNOWLEDGED = "acknowledged"
ENDED_MEANWHILE = "ended meanwhile"
RISES = frozenset({"severity rose", "cause sharpened"})
"""Reasons within an episode: the incident became worse, or more is known."""


@dataclass(slots=True)
class Reasons:
    """The reasons of one receiver at wall time `now`.

    larger  incidents that inhibit others here, as the receiver was or is now notified of them, each with the start of
            a silence that covers it
    """

    receiver: Receiver
    notified: LastNotifications
    silences: SilenceMatches
    acknowledgements: Acknowledgements
    now: float
    larger: list[tuple[Incident, float | None]] = field(default_factory=list)

    def know_larger(self, candidates: Sequence[Incident]) -> None:
        """Keep those of `candidates`, as `larger_first` orders them, that this receiver is notified of."""
        for incident in candidates:
            last = self.last(incident)
            if (last is not None and last.covers(incident)) or self.of(incident):
                silence = self.silences.silenced_by(incident, self.now)
                self.larger.append((incident, silence.starts if silence is not None else None))

    def last(self, incident: Incident) -> LastNotification | None:
        return self.notified.get(self.receiver.name, incident.id)

    def acknowledgement(self, incident: Incident) -> Acknowledgement | None:
        """The one that covers the incident as it is now."""
        ack = self.acknowledgements.get(incident.id)
        return ack if ack is not None and ack.covers(incident) else None

    def of(self, incident: Incident) -> str:
        """Why the receiver is notified of an incident now; "" where it is not."""
        last = self.last(incident)
        if incident.status != "firing":
            # A receiver that was notified of an incident is notified of its end in spite of silences and changed
            # routes. An absorbed incident ends; its label `absorbed_by` names the larger one.
            ended = "absorbed" if incident.labels.get("absorbed_by") else "resolved"
            return ended if last is not None and last.firing and self.receiver.send_resolved else ""
        if not self.receiver.takes(incident):
            return ""
        known = last if last is not None and last.covers(incident) else None
        # Matching silences is the slow part: an inhibited flood is not matched.
        if (known is None and self._inhibited(incident)) or self.silences.silenced_by(incident, self.now) is not None:
            return ""
        return self._to_go_on(incident, known) if known is not None else self._to_open(incident)

    def of_withheld(self, incident: Incident) -> str:
        """Why the receiver is notified of an incident that was due, waited, and has ended; "" where it is not."""
        if not self.receiver.takes(incident) or self.silences.silenced_by(incident, self.now) is not None:
            return ""
        part = any(larger.id == incident.labels.get("absorbed_by") for larger, _ in self.larger)
        return "" if part or self._inhibited(incident) else ENDED_MEANWHILE

    def _inhibited(self, incident: Incident) -> bool:
        return any(larger.id != incident.id and inhibits(larger, incident, since) for larger, since in self.larger)

    def _to_open(self, incident: Incident) -> str:
        """Of an episode without a notification to the receiver."""
        after = self.receiver.after
        if after:
            late = self.acknowledgement(incident) is None and self.now - opened(incident) >= after
            return f"not acknowledged for {_hours(after)}" if late else ""
        over = any(s.ends <= self.now and s.ends > incident.since for s in self.silences.of(incident))
        return "silence ended" if over else "new incident"

    def _to_go_on(self, incident: Incident, last: LastNotification) -> str:
        """Of an episode with a notification to the receiver."""
        # the engine raises the revision with every change that receivers should know
        if incident.revision > last.revision:
            if incident.severity.rank > last.rank:
                return "severity rose"
            if (incident.kind, incident.component) not in {(f.kind, f.component) for f in last.faces}:
                return "cause sharpened"
        ack, repeat = self.acknowledgement(incident), self.receiver.repeat
        if ack is not None:
            return ACKNOWLEDGED if self.receiver.acknowledged and ack.at > last.acknowledged_at else ""
        return reminder(repeat) if repeat and self.now - last.at >= repeat else ""


def reminder(repeat: float) -> str:
    """The reason of a reminder."""
    return f"repeat after {_hours(repeat)}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds / 60:g}m"
