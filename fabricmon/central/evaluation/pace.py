"""When the next tick is due: every period, and soon after an event. Decides only."""

from __future__ import annotations

import math

LOAD = 5.0  # ticks take at most 1/LOAD of the time
USUAL = 20.0  # and without events at most 1/USUAL: what they find was read within ten seconds
CREDIT = 1.0  # seconds of which ticks after events may use that share in advance: 0.2 s of work
GATHER = 0.02  # seconds from an event to its tick, so that what one fault does to several nodes lands in one tick
RETRY = 1.0  # seconds until the next tick after one that failed


class TickPace:
    """Times are of one clock that does not go back, in seconds. `ask` for a tick, `begin` one, then `end` or `fail` it.

    What holds for every tick, with the work of the one before it:
    - it begins no sooner than that one has ended and as much time as it worked is over, so that others have their turn;
    - a tick that was asked for begins at the latest GATHER after that, or when the line above permits it, or LOAD times
      the work after that one began;
    - ticks work at most 1/LOAD of the time, beyond it CREDIT/LOAD seconds and the work of one tick;
    - one that no event asked for begins no sooner than USUAL times the work after that one began.
    """

    def __init__(self) -> None:
        self._begun = self._free = self._paid = self._fair = self._usual = -math.inf
        self._asked: float | None = None

    def ask(self, now: float) -> bool:
        """An event: a tick should come soon. Whether it is the first since the last tick began."""
        first = self._asked is None
        if first:
            self._asked = now
        return first

    def begin(self, now: float) -> None:
        """A tick begins; it evaluates all events so far."""
        self._begun, self._asked = now, None

    def end(self, now: float, work: float) -> None:
        """The tick has ended. `work`: its seconds of processor time that the next ones will need, too."""
        self._free, self._fair, self._usual = now + work, self._begun + LOAD * work, self._begun + USUAL * work
        self._paid = max(self._paid, self._begun) + LOAD * work

    def fail(self, now: float) -> None:
        """The tick has failed; events do not bring the next one forward."""
        self._free = now + RETRY

    def due(self, period: float) -> float:
        """When the next tick is due, as of now."""
        if self._asked is None:
            return max(self._begun + period, self._usual, self._free)
        fair = max(self._begun + period, self._fair)
        return max(min(fair, max(self._asked + GATHER, self._paid - CREDIT)), self._free)
