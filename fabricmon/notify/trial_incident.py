"""A made-up incident for tests of a receiver. Pure."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from fabricmon.model import (
    Evidence,
    Face,
    HistoryEntry,
    Impact,
    Incident,
    JobImpact,
    JobVerdict,
    Members,
    Notification,
    Severity,
)
from fabricmon.notify.last_notification import face_of

MARK = "TEST, nothing is broken: "
NODE = "test-node"


def trial_incident(
    kind: str, title: str, why: str, action: str, severity: Severity, token: str, now: float
) -> Incident:
    """An incident of a kind with the texts of its rule; `token` makes its id unique."""
    port = f"{NODE}/mlx5_0/1"
    return Incident(
        id=f"test-{token}",
        status="firing",
        severity=severity,
        kind=kind,
        component=f"link({port}, test-leaf/12)",
        since=now - 90.0,
        confidence=0.97,
        title=f"{MARK}{title}: {port}",
        why=why,
        action=f"Nothing: this is a test. A real one would have: {action}",
        evidence=(
            Evidence(port, "a reading for it", "formula (its source)", 3.0, 2.0),
            Evidence(port, "a reading against it", for_it=False),
        ),
        members=Members(1, 1),
        labels={"node": NODE, "test": "true"},
        updated=now,
        candidates=("nic(test-node/mlx5_0)",),
        parts=(port,),
        history=(HistoryEntry(now - 60.0, "opened", "test by hand"),),
        revision=1,
        impact=Impact(
            "known", "test", now,
            (JobImpact("0", "no-real-job", "test-user", "test", JobVerdict.STALL, "it would wait at each interruption",
                       (NODE,), 1, 8, now - 90.0),), 1,
        ),
    )  # fmt: skip


def resolved_trial(incident: Incident, now: float) -> Incident:
    """The same when it is over."""
    over = HistoryEntry(now, "resolved", "the test is over")
    return replace(incident, status="resolved", resolved=now, updated=now, history=(*incident.history, over),
                   revision=incident.revision + 1)  # fmt: skip


def trial_notification(
    receiver: str, incidents: tuple[Incident, ...], reason: str, now: float, notified: bool
) -> Notification:
    """The notification of it; `notified`: the receiver was notified before."""
    text = "\0".join([receiver, reason, repr(now), *(i.id for i in incidents)])
    before: dict[str, tuple[Face, ...]] = {i.id: (face_of(i),) for i in incidents} if notified else {}
    return Notification(hashlib.sha256(text.encode()).hexdigest()[:32], receiver, incidents, now, reason, before)
