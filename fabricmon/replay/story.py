"""Results of one engine over a recording: incidents by episode, and numbers of notifications. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fabricmon.model import Change, HistoryEntry, Incident, Notification, Severity
from fabricmon.notify.due import plan_notifications
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.pacing import Pacing
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence

PLAN_PERIOD = 5.0  # seconds between two plans without a change, as on the server
MAX_ROUNDS = 50  # plans in a row when more is due than one plan holds
MOST_EPISODES = 100_000  # that are kept; further ones are counted only


@dataclass(slots=True)
class Episode:
    """One incident from its opening to its end. Times are wall seconds.

    onset     when its cause began; opened: when it became an incident; ended: None while it fires
    severity  the highest it had
    kinds     its kinds, in order
    notified  notifications it was in
    """

    id: str
    component: str
    kinds: list[str]
    severity: Severity
    onset: float
    opened: float
    ended: float | None = None
    confidence: float = 0.0
    notified: int = 0

    @property
    def kind(self) -> str:
        """The last kind."""
        return self.kinds[-1]


@dataclass(slots=True)
class Story:
    """Collects the changes of ticks.

    receivers      of notifications; notifications: receiver -> number
    left_out       episodes beyond MOST_EPISODES
    """

    episodes: list[Episode] = field(default_factory=list)
    receivers: Sequence[Receiver] = ()
    silences: Sequence[Silence] = ()
    notifications: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    _open: dict[str, Episode] = field(default_factory=dict)
    _last: dict[str, Episode] = field(default_factory=dict)
    _sent: LastNotifications = field(default_factory=lambda: LastNotifications(()))
    _pacing: Pacing = field(default_factory=Pacing)
    _plan_at: float = 0.0

    def tick(self, now: float, change: Change, incidents: Callable[[], list[Incident]], count: bool = True) -> None:
        """Add the change of a tick. `incidents` is called when a plan is due; `count`: within the requested time."""
        for incident in change.incidents:
            self._take(incident, now, count)
        if self.receivers and (change.incidents or now >= self._plan_at):
            self._plan_at = now + PLAN_PERIOD
            self._notify(incidents(), now, count)

    def _take(self, incident: Incident, now: float, count: bool) -> None:
        episode = self._open.get(incident.id)
        if episode is None:
            if incident.status != "firing":
                return
            if len(self.episodes) >= MOST_EPISODES:
                self.left_out += 1
                return
            at = _opened(incident.history, now)
            episode = Episode(incident.id, incident.component, [incident.kind], incident.severity, incident.since, at)
            self._open[incident.id] = self._last[incident.id] = episode
            if count:
                self.episodes.append(episode)
        if incident.kind != episode.kind:
            episode.kinds.append(incident.kind)
        episode.component, episode.onset = incident.component, incident.since
        episode.confidence = incident.confidence
        if incident.severity.rank > episode.severity.rank:
            episode.severity = incident.severity
        if incident.status != "firing":
            episode.ended = now
            del self._open[incident.id]

    def _notify(self, incidents: Sequence[Incident], now: float, count: bool) -> None:
        for _ in range(MAX_ROUNDS):
            plan = plan_notifications(
                incidents, self._sent, self.receivers, self.silences, now, pacing=self._pacing
            )
            for notification in plan.notifications:
                self._sent.add(notification)
                self._pacing.add(notification)
                self._pacing.answered(notification, now)
                if count:
                    self._count(notification)
            self._pacing.withhold(plan.withheld, plan.released)
            if not plan.full:
                return

    def _count(self, notification: Notification) -> None:
        name = notification.receiver
        self.notifications[name] = self.notifications.get(name, 0) + 1
        for incident in notification.incidents:
            if incident.id in self._last:
                self._last[incident.id].notified += 1


def _opened(history: Sequence[HistoryEntry], now: float) -> float:
    """When the episode became an incident, by its history."""
    return next((entry.at for entry in reversed(history) if entry.change in ("opened", "reopened")), now)
