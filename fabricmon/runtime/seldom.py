"""Log lines of a frequent event, at most one a minute."""

from __future__ import annotations

LOG_INTERVAL = 60.0
"""Seconds between two log lines about one topic; all events are counted."""


class Seldom:
    """Limits log lines of one topic to one in LOG_INTERVAL seconds, with the number of events since."""

    def __init__(self) -> None:
        self._logged: dict[str, tuple[float, int]] = {}

    def due(self, topic: str, now: float) -> int:
        """The number of events since the last line, if a line is due; else 0. Topics are few and fixed."""
        at, times = self._logged.get(topic, (now - LOG_INTERVAL, 0))
        due = now - at >= LOG_INTERVAL
        self._logged[topic] = (now, 0) if due else (at, times + 1)
        return times + 1 if due else 0
