"""An incident of which nothing is true, by which a receiver is tried out. Pure."""

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
from fabricmon.notify.told import face

MARK = "TEST, nothing is broken: "
NODE = "test-node"


def trial(kind: str, title: str, why: str, action: str, severity: Severity, token: str, now: float) -> Incident:
    """An incident of a kind with the words of its rule; `token` makes its id one of its own."""
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
        action=f"Nothing: this is a test. Of a real one it would say: {action}",
        evidence=(
            Evidence(port, "a reading that speaks for it", "formula (its source)", 3.0, 2.0),
            Evidence(port, "a reading that speaks against it", for_it=False),
        ),
        members=Members(1, 1),
        labels={"node": NODE, "test": "true"},
        updated=now,
        candidates=("nic(test-node/mlx5_0)",),
        parts=(port,),
        history=(HistoryEntry(now - 60.0, "opened", "tried out by hand"),),
        revision=1,
        impact=Impact(
            "known", "test", now,
            (JobImpact("0", "no-real-job", "nobody", "test", JobVerdict.STALL, "it would wait at each interruption",
                       (NODE,), 1, 8, now - 90.0),), 1,
        ),
    )  # fmt: skip


def ended(incident: Incident, now: float) -> Incident:
    """The same when it is over."""
    over = HistoryEntry(now, "resolved", "the test is over")
    return replace(incident, status="resolved", resolved=now, updated=now, history=(*incident.history, over),
                   revision=incident.revision + 1)  # fmt: skip


def telling(receiver: str, incidents: tuple[Incident, ...], reason: str, now: float, told: bool) -> Notification:
    """The notification of it; `told`: the receiver was told before."""
    text = "\0".join([receiver, reason, repr(now), *(i.id for i in incidents)])
    before: dict[str, tuple[Face, ...]] = {i.id: (face(i),) for i in incidents} if told else {}
    return Notification(hashlib.sha256(text.encode()).hexdigest()[:32], receiver, incidents, now, reason, before)
