"""What receivers were sent lately and what waits for them: the memory of the message budget. Pure.

The store has all of it: a message in the outbox, `Withheld` in its own table. `LastNotifications` has what was sent of
each incident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from fabricmon.model import Notification

PERIOD = 300.0
"""Seconds in which a receiver gets at most `Receiver.budget` messages."""

MAX_WITHHELD = 10_000  # entries; an incident beyond them is sent too, unless it has ended by then


class Withheld(Struct, frozen=True):
    """A notification of an incident that is due since wall time `at` and waits.

    It is sent even if the incident has ended by then.
    """

    receiver: str
    incident: str
    at: float


class SentNotification(Struct, frozen=True):
    """A notification in the outbox.

    at        wall time at which the receiver answered, None while it is not delivered
    messages  that the receiver makes of it
    """

    key: str
    receiver: str
    messages: int
    at: float | None


class Pacing:
    """The newest sent notifications, and what waits."""

    def __init__(self, sent: Iterable[SentNotification] = (), withheld: Iterable[Withheld] = ()) -> None:
        self._sent: dict[str, dict[str, SentNotification]] = {}
        self._withheld: dict[str, dict[str, Withheld]] = {}
        for item in sent:
            self._put(item)
        for entry in withheld:
            self._withheld.setdefault(entry.receiver, {})[entry.incident] = entry

    # ---------------------------------------------------------------- what was sent

    def add(self, notification: Notification) -> None:
        """The notification was committed; perhaps it is answered or superseded already."""
        known = self._sent.setdefault(notification.receiver, {})
        if notification.key not in known:
            self._put(_sent(notification, None))
        waiting = self._withheld.get(notification.receiver, {})
        for incident in notification.incidents:
            waiting.pop(incident.id, None)

    def answered(self, notification: Notification, at: float) -> None:
        """The receiver accepted or refused it at wall time `at`."""
        self._put(_sent(notification, at))

    def superseded(self, notification: Notification, at: float) -> None:
        """It is not sent, by a decision at wall time `at`."""
        self._put(SentNotification(notification.key, notification.receiver, 0, at))

    def undelivered(self, receiver: str, keys: Collection[str]) -> None:
        """Only these are still to be delivered: any other is lost, as its row in the store cannot be read."""
        known = self._sent.get(receiver, {})
        for key in [key for key, item in known.items() if item.at is None and key not in keys]:
            del known[key]

    def used(self, receiver: str, now: float) -> int:
        """Messages that count against the budget: not delivered, or answered within PERIOD. One answered later than
        `now`, as the clock was set back, counts as answered now."""
        known = self._sent.get(receiver, {})
        for key, item in list(known.items()):
            if item.at is not None and now - item.at >= PERIOD:
                del known[key]
            elif item.at is not None and item.at > now:
                known[key] = replace(item, at=now)
        return sum(item.messages for item in known.values())

    def _put(self, item: SentNotification) -> None:
        self._sent.setdefault(item.receiver, {})[item.key] = item

    # ---------------------------------------------------------------- what waits

    def withhold(self, entries: Iterable[Withheld], released: Iterable[Withheld]) -> None:
        """Call it when these were committed."""
        for entry in entries:
            self._withheld.setdefault(entry.receiver, {})[entry.incident] = entry
        for entry in released:
            self._withheld.get(entry.receiver, {}).pop(entry.incident, None)

    def withheld(self, receiver: str) -> dict[str, Withheld]:
        """What waits for a receiver, by incident."""
        return self._withheld.get(receiver, {})

    def room(self) -> int:
        """How many more entries are kept."""
        return max(0, MAX_WITHHELD - sum(map(len, self._withheld.values())))

    def incidents(self, receivers: Collection[str]) -> set[str]:
        """Ids of the incidents that wait for one of these receivers."""
        return {id for name in receivers for id in self._withheld.get(name, {})}


def _sent(notification: Notification, at: float | None) -> SentNotification:
    return SentNotification(notification.key, notification.receiver, notification.messages, at)
