"""Keys of what is sent, made of content and not of the time of sending. Pure.

Servers that see one fault give its state one key, whenever each of them was started (docs/webhook.md#two-servers). An
incident may come back with the same content, so the key of a notification also has the episode: the minute in which the
incident began, and a number where it began more than once in that minute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from fabricmon.model import Incident, JobVerdict, NotifiedState
from fabricmon.notify.last_notification import LastNotification

MINUTE = 60.0
"""Seconds. Long against the difference of the onsets that servers see of one fault: 0.3 s at most, measured with three
servers on one machine."""


def incident_key(incident: Incident, detail: str = "") -> str:
    """The key of an incident's state: id, status, kind, component, severity, bad members and crashed jobs.

    detail  what a notification has besides the state, such as the number of a reminder
    """
    impact = incident.impact
    crashed = sorted(job.id for job in impact.jobs if job.verdict is JobVerdict.CRASH) if impact is not None else []
    state = (incident.id, incident.status, incident.kind, incident.component, incident.severity.value)
    return _digest((*state, sorted(incident.parts), incident.members.bad, crashed, detail))


def notified_state(
    incident: Incident, last: LastNotification | None, *, reminder: bool = False, acknowledged_at: float | None = None
) -> NotifiedState:
    """The state that a notification has of an incident.

    last             the last notification of it to this receiver
    acknowledged_at  wall time of the acknowledgement that is the reason of the notification
    """
    continued = last is not None and last.covers(incident)
    reminders = (last.reminders if last is not None and continued else 0) + reminder
    details = [f"reminder {reminders}"] if reminder else []
    details += [f"acknowledged {acknowledged_at!r}"] if acknowledged_at is not None else []
    return NotifiedState(incident_key(incident, " ".join(details)), _episode(incident, last), reminders)


def notification_key(receiver: str, states: Iterable[NotifiedState]) -> str:
    """The key of a notification to a receiver."""
    return _digest((receiver, sorted((state.key, state.episode) for state in states)))


def _episode(incident: Incident, last: LastNotification | None) -> str:
    """ "29666670", the minute of the onset; "29666670.2" for the second episode of this incident in that minute, or for
    one with an onset before it: no later episode has the name of an earlier one."""
    minute = str(int(incident.since // MINUTE)) if math.isfinite(incident.since) else "0"
    if last is None:
        return minute
    if last.covers(incident):
        return last.episode or minute
    before, _, number = last.episode.partition(".")
    # an onset before that of the last episode: an older symptom is part of it, or a clock was set back
    return f"{before}.{int(number or 1) + 1}" if before and int(before) >= int(minute) else minute


def _digest(content: object) -> str:
    return hashlib.sha256(ascii(content).encode()).hexdigest()[:32]
