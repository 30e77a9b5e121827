"""The last notification of each incident to each receiver, so that a restart neither forgets nor repeats. Pure.

The store writes a LastNotification in the same transaction as the notification itself, so `LastNotifications` can
always be derived again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from msgspec import Struct, field

from fabricmon.model import Face, Incident, Notification, NotifiedState, Severity
from fabricmon.notify.acknowledge import acknowledgement_in

MAX_REMEMBERED = 100_000  # that are remembered; of more, resolved ones are forgotten, oldest first
MAX_FACES = 16  # faces of one episode that are remembered, newest kept
NO_STATE = NotifiedState("", "")
CRITICAL = "critical"  # in `LastNotifications.recent`, beside sorts


class LastNotification(Struct, frozen=True):
    """The last notification of one incident to one receiver.

    An episode is the time from one notification of `firing` after another state to that of `resolved`.
    status    "firing" or "resolved"
    revision  Incident.revision then
    at        wall time at which it was decided, not delivered; that of the incident's beginning where a clock that was
              set back shows an earlier one: else it would be new at each tick until then
    faces     every face notified in this episode, oldest first
    acknowledged_at  wall time of the acknowledgement in it, 0.0: none; stored as `taken_on`
    episode, reminders  of `NotifiedState`; "" of release 0.1.0
    """

    receiver: str
    incident: str
    status: str
    revision: int
    at: float
    faces: tuple[Face, ...]
    acknowledged_at: float = field(default=0.0, name="taken_on")
    episode: str = ""
    reminders: int = 0

    @property
    def firing(self) -> bool:
        return self.status == "firing"

    def covers(self, incident: Incident) -> bool:
        """Whether the incident is still in the episode of this notification. A receiver without resolutions is left at
        "firing": an incident that began after its notification is in a new episode."""
        return self.firing and not (incident.status == "firing" and incident.since > self.at)

    @property
    def rank(self) -> int:
        """The highest severity notified in the episode."""
        return max((face.severity.rank for face in self.faces), default=-1)


def face_of(incident: Incident) -> Face:
    return Face(incident.kind, incident.component, incident.severity)


def last_notifications(notification: Notification) -> list[LastNotification]:
    """The entries of a notification once it is accepted, one an incident."""
    made = []
    for incident in notification.incidents:
        seen = dict.fromkeys(notification.before.get(incident.id, ()))
        seen.pop(face_of(incident), None)
        seen[face_of(incident)] = None
        faces = tuple(seen)[-MAX_FACES:]
        ack, state = acknowledgement_in(incident), notification.states.get(incident.id, NO_STATE)
        made.append(
            LastNotification(
                notification.receiver,
                incident.id,
                incident.status,
                incident.revision,
                max(notification.created, incident.since),
                faces,
                ack.at if ack is not None else 0.0,
                state.episode,
                state.reminders,
            )
        )
    return made


def sort_of(kind: str, component: str) -> str:
    """What a reader takes for one sort of news: a kind on components of one word, "fault_domain leaf"."""
    return f"{kind} {component.partition('(')[0]}"


class LastNotifications:
    """The newest LastNotification by receiver and incident."""

    def __init__(self, known: Iterable[LastNotification] = ()) -> None:
        self._last: dict[tuple[str, str], LastNotification] = {(t.receiver, t.incident): t for t in known}
        self._digested: dict[str, float] = {}
        self._listed: dict[str, dict[str, set[float]]] = {}
        for last in self._last.values():
            self._note(last)

    def get(self, receiver: str, incident: str) -> LastNotification | None:
        return self._last.get((receiver, incident))

    def digested(self, receiver: str) -> float | None:
        """Wall time of this receiver's last notification of an incident that is not critical, None without one."""
        return self._digested.get(receiver)

    def recent(self, receiver: str, since: float, now: float) -> dict[str, int]:
        """In how many messages each sort was, as firing, that this receiver was notified of after wall time `since`;
        under CRITICAL those of critical ones. What a clock that was set back made later than `now` is forgotten."""
        listed = self._listed.get(receiver, {})
        for what, times in list(listed.items()):
            listed[what] = {at for at in times if since < at <= now}
            if not listed[what]:
                del listed[what]
        return {what: len(times) for what, times in listed.items()}

    def _note(self, last: LastNotification) -> None:
        if not last.faces:
            return
        face, critical = last.faces[-1], last.faces[-1].severity is Severity.CRITICAL
        if not critical:
            self._digested[last.receiver] = max(last.at, self._digested.get(last.receiver, last.at))
        listed = self._listed.setdefault(last.receiver, {})
        for what in [sort_of(face.kind, face.component), *([CRITICAL] if critical else [])] if last.firing else []:
            listed.setdefault(what, set()).add(last.at)

    def add(self, notification: Notification) -> None:
        """Call it when the notification was committed, not before."""
        for last in last_notifications(notification):
            self._last[last.receiver, last.incident] = last
            self._note(last)
        if len(self._last) > MAX_REMEMBERED:
            ended = sorted((t.at, key) for key, t in self._last.items() if not t.firing)
            for _, key in ended[: MAX_REMEMBERED // 10]:
                del self._last[key]

    def firing(self, receivers: Container[str]) -> set[str]:
        """Incidents notified to one of these receivers as firing, and not as ended."""
        return {t.incident for t in self._last.values() if t.firing and t.receiver in receivers}

    def __iter__(self) -> Iterator[LastNotification]:
        return iter(self._last.values())

    def __len__(self) -> int:
        return len(self._last)
