"""What one receiver's lane holds in memory of its queue in the store, so that it delivers while the disk hangs.

No I/O: the oldest undelivered notifications, in order, and the outcomes that the store has not recorded yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fabricmon.central.store.records import Ack
from fabricmon.model import Notification

PAGE = 64  # notifications in memory


class LaneQueue:
    """The queue of one receiver. Only one page is read, and only one set of outcomes recorded, at a time.

    complete  whether the memory holds everything that is queued; otherwise a page has to be read
    outcomes  by key, to be recorded; at most one for each notification in memory
    """

    def __init__(self, limit: int = PAGE) -> None:
        self._limit = limit
        self._notes: dict[str, Notification] = {}
        self._since: dict[str, Notification] | None = None  # accepted while a page is read; None: no page is read
        self.complete = False
        self.outcomes: dict[str, Ack] = {}

    def waiting(self) -> list[Notification]:
        """Those to deliver, in order."""
        return list(self._notes.values())

    def accept(self, notes: Iterable[Notification]) -> None:
        """These were queued in the store after all others."""
        for note in notes:
            if self._since is not None:
                self._since[note.key] = note
            if self.complete and len(self._notes) < self._limit:
                self._notes[note.key] = note
            else:
                self.complete = False

    def finish(self, outcome: Ack) -> None:
        """A notification needs no more delivery."""
        self._notes.pop(outcome.key, None)
        self.outcomes[outcome.key] = outcome

    def recorded(self, outcomes: Collection[Ack]) -> None:
        """The store has these outcomes."""
        for outcome in outcomes:
            self.outcomes.pop(outcome.key, None)

    def reading(self) -> None:
        """A page is read from now on, after all outcomes so far were recorded."""
        self._since = {}

    def filled(self, page: Sequence[Notification], depth: int) -> None:
        """The page, and the number of queued ones in the store when it was read or later."""
        since, self._since = self._since or {}, None
        self.complete = depth <= len(page)
        self._notes = {note.key: note for note in page}
        if self.complete:
            self._notes |= since
        if len(self._notes) > self._limit:
            self.complete = False
            self._notes = dict(list(self._notes.items())[: self._limit])
        for key in self.outcomes:
            self._notes.pop(key, None)
