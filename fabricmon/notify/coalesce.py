"""Coalescing: which waiting notifications say nothing that a later waiting one does not say better. Pure.

A receiver that was away for a night should hear what is true, and every end of what it was told, not each step
between. See docs/design/outbox.md for why exactly this much may go.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabricmon.model import Notification


def superseded(waiting: Sequence[Notification]) -> set[str]:
    """Keys of those, of one receiver's `waiting` in order, that need not be sent.

    One may go if each of its incidents fires in it and is told once more later, still firing and in the same
    episode. A resolution never goes, nor does the last word before one: who is told that something ended was told
    that it began.
    """
    gone: set[str] = set()
    # Of each incident the next telling that follows, seen from the end: whether it continues a firing episode.
    continued: dict[str, bool] = {}
    for note in reversed(waiting):
        if all(i.status == "firing" and continued.get(i.id, False) for i in note.incidents):
            gone.add(note.key)
        for incident in note.incidents:
            continued[incident.id] = incident.status == "firing" and incident.id in note.before
    return gone
