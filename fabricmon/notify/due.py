"""The plan: notifications that are due, and those that wait for a free message or a digest. Pure.

A plan counts once it was committed with its incidents (the store does all in one transaction); until then the same call
gives the same result. docs/design/outbox.md has the rules.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fabricmon.model import Face, Incident, Notification, NotifiedState, Severity
from fabricmon.notify.acknowledge import Acknowledgements, with_acknowledgement
from fabricmon.notify.batch import Batch, DueIncident, batches, messages
from fabricmon.notify.identity import notification_key, notified_state
from fabricmon.notify.inhibit import larger_first
from fabricmon.notify.last_notification import LastNotifications
from fabricmon.notify.pacing import PERIOD, Pacing, Withheld
from fabricmon.notify.reason import ACKNOWLEDGED, RISES, Reasons, reminder
from fabricmon.notify.route import Receiver
from fabricmon.notify.silence import Silence, SilenceMatches

MAX_AT_ONCE = 2000  # incidents in one call, all receivers together; the next call finds what is left


class NotificationPlan(NamedTuple):
    """What to commit.

    withheld  entries for what is due now and waits from now on
    released  entries of incidents that are not sent: they ended while silenced or as part of a notified one, or they
              fire and the receiver knows
    """

    notifications: list[Notification]
    withheld: list[Withheld]
    released: list[Withheld]

    @property
    def full(self) -> bool:
        """Whether there may be more to plan at once."""
        return sum(len(note.incidents) for note in self.notifications) >= MAX_AT_ONCE


def plan_notifications(
    incidents: Iterable[Incident],
    notified: LastNotifications,
    receivers: Sequence[Receiver],
    silences: Sequence[Silence],
    now: float,
    full: Container[str] = (),
    acknowledgements: Acknowledgements = MappingProxyType({}),
    pacing: Pacing | None = None,
    matches: SilenceMatches | None = None,
) -> NotificationPlan:
    """The plan at wall time `now`: the most severe first, then what waits longest, then the oldest.

    incidents         all that fire, and every resolved one that a receiver may not yet know of (see `owed_resolutions`)
    full              names of receivers whose outbox is full; they are notified later of the state then
    acknowledgements  those that no longer cover their incident have no effect
    pacing            None: nothing was sent lately, and nothing waits
    matches           of the plan before; None: every silence is tried on every incident
    """
    pacing, matches = pacing or Pacing(), matches or SilenceMatches()
    everything = sorted(incidents, key=lambda i: (-i.severity.rank, i.since, i.id))
    larger, plan, room = larger_first(everything), NotificationPlan([], [], []), pacing.room()
    matches.know(silences, everything)
    for receiver in receivers:
        if receiver.name in full:
            continue
        reasons = Reasons(receiver, notified, matches, acknowledgements, now)
        reasons.know_larger(larger)
        waiting = pacing.withheld(receiver.name)
        due = _due(reasons, everything, waiting, plan.released)
        left = MAX_AT_ONCE - sum(len(note.incidents) for note in plan.notifications)
        sendable = [item for item in due if not _waits(item, reasons)][:left]
        recent = notified.recent(receiver.name, now - PERIOD, now)
        made = batches(receiver, sendable, pacing.used(receiver.name, now), now, recent)
        sent = {item.incident.id for batch in made for item in batch.due}
        plan.notifications.extend(_notification(reasons, batch, len(due) - len(sent)) for batch in made)
        held = [item for item in due if item.incident.id not in sent and item.incident.id not in waiting]
        plan.withheld.extend(Withheld(receiver.name, item.incident.id, item.since) for item in held[:room])
        room -= len(held[:room])
    return plan


def owed_resolutions(
    notified: LastNotifications,
    incidents: Iterable[Incident],
    receivers: Iterable[Receiver],
    pacing: Pacing | None = None,
) -> set[str]:
    """Ids notified as firing or waiting that are not among `incidents`, to be read from the store and added.

    The engine drops a resolved incident after a while; a receiver whose outbox was full for that long lacks its end.
    """
    receivers = list(receivers)
    waiting = pacing.incidents({r.name for r in receivers}) if pacing is not None else set()
    known = {incident.id for incident in incidents}
    return (notified.firing({r.name for r in receivers if r.send_resolved}) | waiting) - known


def _due(
    reasons: Reasons, everything: Sequence[Incident], waiting: dict[str, Withheld], released: list[Withheld]
) -> list[DueIncident]:
    """What is due, in the order of importance. Adds to `released`."""
    due, repeated = [], reminder(reasons.receiver.repeat)
    gone = dict(waiting)
    for incident in everything:
        entry = gone.pop(incident.id, None)
        reason = reasons.of(incident)
        if not reason and entry is not None:
            reason = "" if incident.status == "firing" else reasons.of_withheld(incident)
            last = reasons.last(incident)
            # one that ended and fires again as the receiver knows it, or as it does not take, has nothing to wait for
            known = last is not None and last.covers(incident)
            if not reason and (incident.status != "firing" or known or not reasons.receiver.takes(incident)):
                released.append(entry)
        if reason:
            since = entry.at if entry is not None else reasons.now
            due.append(DueIncident(incident, reason, since, reason == repeated))
    released += gone.values()
    return sorted(due, key=lambda item: (-item.incident.severity.rank, item.since))


def _waits(item: DueIncident, reasons: Reasons) -> bool:
    """Whether a due notification waits without regard to the budget: for the digest, or for further rises."""
    receiver, now = reasons.receiver, reasons.now
    digested = reasons.notified.digested(receiver.name)
    if not item.critical and digested is not None and 0 <= now - digested < receiver.digest:
        return True
    last = reasons.last(item.incident)
    if last is None or item.reason not in RISES or (item.critical and last.rank < Severity.CRITICAL.rank):
        return False
    return 0 <= now - last.at < receiver.join


def _notification(reasons: Reasons, batch: Batch, waiting: int) -> Notification:
    receiver = reasons.receiver
    before: dict[str, tuple[Face, ...]] = {}
    states: dict[str, NotifiedState] = {}
    shown = []
    for incident, reason, _, again in batch.due:
        last, ack = reasons.last(incident), reasons.acknowledgement(incident)
        acknowledged_at = ack.at if ack is not None and reason == ACKNOWLEDGED else None
        states[incident.id] = notified_state(incident, last, reminder=again, acknowledged_at=acknowledged_at)
        if last is not None and last.covers(incident):
            before[incident.id] = last.faces
        shown.append(with_acknowledgement(incident, ack))
    return Notification(
        notification_key(receiver.name, states.values()), receiver.name, tuple(shown), reasons.now, batch.reason,
        before, states, waiting, messages(receiver, batch),
    )  # fmt: skip
