"""What each receiver was last told of each incident, so that a restart neither forgets nor repeats. Pure.

The store writes a Telling in the same transaction as the notification that tells it, so `Told` can always be
derived again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from msgspec import Struct

from fabricmon.model import Face, Incident, Notification
from fabricmon.notify.acknowledge import said

MAX_TELLINGS = 100_000  # that are remembered; of more, resolved ones are forgotten, oldest first
MAX_FACES = 16  # faces of one episode that are remembered, newest kept


class Telling(Struct, frozen=True):
    """The last telling of one incident to one receiver.

    An episode is the time from one telling of `firing` after another state to the telling of `resolved`.
    status    "firing" or "resolved"
    revision  Incident.revision then
    at        wall time at which it was decided, not delivered
    faces     every face told in this episode, oldest first; the last is the newest
    taken_on  wall time of the acknowledgement that was told in it, 0.0: none
    """

    receiver: str
    incident: str
    status: str
    revision: int
    at: float
    faces: tuple[Face, ...]
    taken_on: float = 0.0

    @property
    def firing(self) -> bool:
        return self.status == "firing"

    @property
    def rank(self) -> int:
        """The highest severity told in the episode."""
        return max((face.severity.rank for face in self.faces), default=-1)


def face(incident: Incident) -> Face:
    return Face(incident.kind, incident.component, incident.severity)


def tellings(notification: Notification) -> list[Telling]:
    """What the receiver will have been told when this notification is accepted."""
    made = []
    for incident in notification.incidents:
        seen = dict.fromkeys(notification.before.get(incident.id, ()))
        seen.pop(face(incident), None)
        seen[face(incident)] = None
        faces = tuple(seen)[-MAX_FACES:]
        told = said(incident)
        made.append(
            Telling(
                notification.receiver,
                incident.id,
                incident.status,
                incident.revision,
                notification.created,
                faces,
                told.at if told is not None else 0.0,
            )
        )
    return made


class Told:
    """The newest Telling by receiver and incident."""

    def __init__(self, tellings: Iterable[Telling] = ()) -> None:
        self._last: dict[tuple[str, str], Telling] = {(t.receiver, t.incident): t for t in tellings}
        self._newest: dict[str, float] = {}
        for telling in self._last.values():
            self._note(telling)

    def get(self, receiver: str, incident: str) -> Telling | None:
        return self._last.get((receiver, incident))

    def newest(self, receiver: str) -> float | None:
        """Wall time at which this receiver was told of anything last; None: never."""
        return self._newest.get(receiver)

    def _note(self, telling: Telling) -> None:
        self._newest[telling.receiver] = max(telling.at, self._newest.get(telling.receiver, telling.at))

    def add(self, notification: Notification) -> None:
        """Call it when the notification was committed, not before."""
        for telling in tellings(notification):
            self._last[telling.receiver, telling.incident] = telling
            self._note(telling)
        if len(self._last) > MAX_TELLINGS:
            ended = sorted((t.at, key) for key, t in self._last.items() if not t.firing)
            for _, key in ended[: MAX_TELLINGS // 10]:
                del self._last[key]

    def firing(self, receivers: Container[str]) -> set[str]:
        """Incidents of which one of these receivers was told that they fire, and not that they ended."""
        return {t.incident for t in self._last.values() if t.firing and t.receiver in receivers}

    def __iter__(self) -> Iterator[Telling]:
        return iter(self._last.values())

    def __len__(self) -> int:
        return len(self._last)
