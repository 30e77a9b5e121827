"""Records of the store, besides those of `model.py` and `notify/`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from fabricmon.fleet.daylong import StoredDay
from fabricmon.model import Incident, Maintenance, Notification
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.last_notification import LastNotification
from fabricmon.notify.pacing import SentNotification, Withheld
from fabricmon.notify.silence import Silence

# States of a notification in the outbox.
PENDING, SENT, FAILED, SUPERSEDED = "pending", "sent", "failed", "superseded"


class ExpectedNode(Struct, frozen=True):
    """A node that was seen and is expected; `target` is the address of its agent."""

    name: str
    target: str = ""
    agent: str = ""
    first_seen: float = 0.0
    last_seen: float = 0.0
    labels: dict[str, str] = {}


class PendingNotification(Struct, frozen=True):
    """An undelivered notification; `seq` is the order per receiver."""

    seq: int
    notification: Notification


class Ack(Struct, frozen=True):
    """Outcome of a notification.

    state     "sent", "failed" (rejected permanently) or "superseded"; "pending": only the receipts are stored
    receipts  incident id -> answer of the receiver that follow-ups on that incident need
    """

    key: str
    state: str
    at: float
    attempts: int = 1
    error: str = ""
    receiver: str = ""
    receipts: Mapping[str, str] = {}


class Backlog(Struct, frozen=True):
    """Undelivered notifications of one receiver, and wall time of the oldest."""

    depth: int
    oldest: float


class StoredState(Struct):
    """State after a restart.

    incidents  open ones and those resolved within an hour
    notified   the newest notification of each receiver and incident
    sent       notifications that count against the message budget of their receiver
    withheld   what waits for a free message or a digest
    days       readings of the last 24 hours, for the charts
    past       all stored ones as resolved, with the openings of their episodes as history, for repeat offenders
    """

    incidents: list[Incident]
    notified: list[LastNotification]
    silences: list[Silence]
    maintenance: list[Maintenance]
    nodes: list[ExpectedNode]
    backlog: dict[str, Backlog]
    past: list[Incident] = []
    acknowledgements: list[Acknowledgement] = []
    sent: list[SentNotification] = []
    withheld: list[Withheld] = []
    days: list[StoredDay] = []
