"""Groups what is due for one receiver into notifications, within its budget of messages. Pure.

What fits is sent at once, one notification for each reason. Of what does not fit the budget, the last free message
lists everything in one digest; without a free message it waits. A message is kept for a critical incident. The others
are shared between sorts of incidents: one that was in many messages waits before one that was in few. Most of the
budget is for incidents that fire: what has ended joins the next message that lists several, or waits until none is in
use, or of what was critical less than half. So nothing that fires waits longer than `pacing.PERIOD` for each MAX_DIGEST
incidents before it, and what ended waits one period more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from fabricmon.model import Incident, Severity
from fabricmon.notify.acting import absorbed_into
from fabricmon.notify.last_notification import CRITICAL, sort_of
from fabricmon.notify.pacing import PERIOD
from fabricmon.notify.route import Receiver

DIGEST = "digest"
"""Reason of a notification about incidents with different reasons."""

MAX_DIGEST = 100  # incidents in one digest; what is left waits for the next
RESERVE = 1  # messages of a budget that are kept for the first critical incident of a period
EACH = 2  # messages that each sort of incidents may have while any is left
ENDED, ENDED_CRITICAL = 6, 2  # of so many messages of a budget one is also for incidents that ended


class DueIncident(NamedTuple):
    """An incident that a receiver is to be notified of, and why. `since` when it is due (wall); `reminder`: again."""

    incident: Incident
    reason: str
    since: float
    reminder: bool = False

    @property
    def critical(self) -> bool:
        return self.incident.severity is Severity.CRITICAL

    def calm(self, now: float) -> bool:
        """Whether it leaves most of the budget to others: it ended, and has not waited for a period."""
        return self.incident.status != "firing" and now - self.since < PERIOD

    @property
    def urgent(self) -> bool:
        """Whether it may use the reserve."""
        return self.critical and not self.reminder


class Batch(NamedTuple):
    """What one notification has."""

    reason: str
    due: Sequence[DueIncident]


def batches(
    receiver: Receiver,
    due: Sequence[DueIncident],
    used: int,
    now: float,
    recent: Mapping[str, int] = MappingProxyType({}),
) -> list[Batch]:
    """The notifications to make at wall time `now` of what is due, `used` messages of the budget being in use.

    due     in the order of importance; what is in no notification waits
    recent  in how many messages of the period each sort was that fires, and CRITICAL ones
    """
    if not receiver.budget:
        return _whole(receiver, due)
    calm, pressing = _calm_and_pressing(receiver, due, now)
    free = _free(receiver, pressing, used, recent)
    made = _within(receiver, pressing, [*pressing, *calm], free) if pressing else []
    taken = {item.incident.id for batch in made for item in batch.due}
    if not calm or any(item.incident.id in taken for item in calm):
        return made
    share = ENDED_CRITICAL if any(item.critical for item in calm) else ENDED
    free = max(1, receiver.budget // share) - used - sum(messages(receiver, batch) for batch in made)
    rest = _within(receiver, calm, calm, free)
    if not rest and made and (len(made[-1].due) > 1 or made[-1].due[0].incident.status != "firing"):
        return [*made[:-1], Batch(DIGEST, [*made[-1].due, *calm][:MAX_DIGEST])]
    return made + rest


def _free(receiver: Receiver, pressing: Sequence[DueIncident], used: int, recent: Mapping[str, int]) -> int:
    """Messages that may be used now. The last one is for a sort that was in fewer than EACH; what a sort may have at
    once is half of what is left beyond those that it was in: the other half is for sorts that had as many."""
    left = receiver.budget - used
    if any(item.urgent for item in pressing):
        return left
    left -= 0 if CRITICAL in recent else min(RESERVE, receiver.budget // 2)
    new = [item.incident for item in pressing if item.incident.status == "firing" and not item.reminder]
    each = min(EACH, receiver.budget // 2)
    had = min((recent.get(sort_of(i.kind, i.component), 0) for i in new), default=each)
    left -= had >= EACH
    return max(0, min(left, max(1, (left - had + 1) // 2)))


def _calm_and_pressing(
    receiver: Receiver, due: Sequence[DueIncident], now: float
) -> tuple[list[DueIncident], list[DueIncident]]:
    """What may wait for its part of the budget, and the rest: what fires, and what is now part of that."""
    if receiver.digest:
        return [], list(due)
    fires = {item.incident.id for item in due if not item.calm(now)}
    waits = [item.calm(now) and absorbed_into(item.incident) not in fires for item in due]
    calm = [item for item, may in zip(due, waits, strict=True) if may]
    return calm, [item for item, may in zip(due, waits, strict=True) if not may]


def _within(receiver: Receiver, some: Sequence[DueIncident], every: Sequence[DueIncident], free: int) -> list[Batch]:
    """Notifications of `some`, in `free` messages; the last is a digest of what is left of `every` if they are more."""
    whole = _whole(receiver, some)
    if sum(messages(receiver, batch) for batch in whole) <= free:
        return whole
    if free <= 0:
        return []
    made = _fitting(receiver, whole, free - 1)
    taken = {item.incident.id for batch in made for item in batch.due}
    left = [item for item in every if item.incident.id not in taken][:MAX_DIGEST]
    return [*made, Batch(left[0].reason if len(left) == 1 else DIGEST, left)]


def messages(receiver: Receiver, batch: Batch) -> int:
    """How many messages the receiver makes of a notification."""
    count = len(batch.due)
    return count if batch.reason != DIGEST and count <= receiver.each else 1


def _whole(receiver: Receiver, due: Sequence[DueIncident]) -> list[Batch]:
    """A notification for each reason; one for all that waited for a digest of `Receiver.digest`."""
    groups: dict[str, list[DueIncident]] = {}
    reasons = {item.incident.id: item.reason for item in due}
    for item in due:
        # one that is now part of another goes with the message about that
        reason = reasons.get(absorbed_into(item.incident), item.reason)
        groups.setdefault(DIGEST if receiver.digest and not item.critical else reason, []).append(item)
    made = []
    for reason, group in groups.items():
        most = MAX_DIGEST if reason == DIGEST else receiver.batch
        for start in range(0, len(group), most):
            some = group[start : start + most]
            made.append(Batch(some[0].reason if len(some) == 1 else reason, some))
    return made


def _fitting(receiver: Receiver, whole: Sequence[Batch], room: int) -> list[Batch]:
    """The first notifications, of `room` messages at most."""
    made = []
    for batch in whole:
        if messages(receiver, batch) > room:
            if room and batch.reason != DIGEST:
                made.append(Batch(batch.reason, batch.due[:room]))
            break
        made.append(batch)
        room -= messages(receiver, batch)
    return made
