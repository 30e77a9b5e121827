"""What goes into the store and comes out of it, besides the words of `model.py` and `notify/`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from fabricmon.model import Incident, Maintenance, Notification
from fabricmon.notify.acknowledge import Acknowledgement
from fabricmon.notify.silence import Silence
from fabricmon.notify.told import Telling

# States of a notification in the outbox.
PENDING, SENT, FAILED, SUPERSEDED = "pending", "sent", "failed", "superseded"


class ExpectedNode(Struct, frozen=True):
    """A node that was seen once and is missed when it is not there; `target` is where its agent was reached."""

    name: str
    target: str = ""
    agent: str = ""
    first_seen: float = 0.0
    last_seen: float = 0.0
    labels: dict[str, str] = {}


class Pending(Struct, frozen=True):
    """A notification that is not delivered yet; `seq` orders those of one receiver."""

    seq: int
    notification: Notification


class Ack(Struct, frozen=True):
    """What became of a notification: state is "sent", "failed" (refused for good) or "superseded"; "pending" where it
    still waits and only the receipts are to be kept.

    receipts  incident id -> what the receiver answered that further words on that incident need
    """

    key: str
    state: str
    at: float
    attempts: int = 1
    error: str = ""
    receiver: str = ""
    receipts: Mapping[str, str] = {}


class Backlog(Struct, frozen=True):
    """Undelivered notifications of one receiver and when the oldest was made (wall)."""

    depth: int
    oldest: float


class State(Struct):
    """What a restarted centre goes on from.

    incidents  all that fire and those resolved within an hour; told: the newest telling of each receiver and incident.
    past       all that are kept, as ended, with the openings of their episodes as history: who breaks again and again.
    """

    incidents: list[Incident]
    told: list[Telling]
    silences: list[Silence]
    maintenance: list[Maintenance]
    nodes: list[ExpectedNode]
    backlog: dict[str, Backlog]
    past: list[Incident] = []
    acknowledgements: list[Acknowledgement] = []
