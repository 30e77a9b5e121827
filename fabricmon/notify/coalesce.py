"""Coalescing: waiting notifications that a later one supersedes (docs/design/outbox.md). Pure.

A receiver that was away for a night gets the present state and every resolution, not each step between.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabricmon.model import Notification


def superseded(waiting: Sequence[Notification]) -> set[str]:
    """Keys of the notifications, of one receiver's `waiting` in order, that need not be sent.

    Each incident of such a notification fires in it and in a later one, within the same episode. A resolution is
    always sent, and so is the last notification before it.
    """
    gone: set[str] = set()
    # incident -> whether the next notification continues a firing episode
    continued: dict[str, bool] = {}
    for note in reversed(waiting):
        if all(i.status == "firing" and continued.get(i.id, False) for i in note.incidents):
            gone.add(note.key)
        for incident in note.incidents:
            continued[incident.id] = incident.status == "firing" and incident.id in note.before
    return gone
