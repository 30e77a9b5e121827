"""Incidents and notifications as tests need them."""

from __future__ import annotations

from typing import Any

from fabricmon.model import Evidence, HistoryEntry, Incident, Members, Notification, Severity
from fabricmon.notify.due import plan_notifications

T0 = 1_800_000_000.0


def incident(id: str = "i-1", **changes: Any) -> Incident:
    fields: dict[str, Any] = {
        "id": id,
        "status": "firing",
        "severity": Severity.WARNING,
        "kind": "link_flapping",
        "component": f"link(host-007/mlx5_3/{id})",
        "since": T0,
        "confidence": 0.93,
        "title": "Link flaps",
        "why": "3 downs in 150 s",
        "action": "Reseat the cable",
        "evidence": (
            Evidence("host-007/mlx5_3/1", "3 downs, weighted by age 2.9", "P = 1000/down", 2.941, 2.0),
            Evidence("host-007/mlx5_3/1", "not enough bits yet", value=float("nan")),
        ),
        "members": Members(1, 1),
        "labels": {"rack": "r7"},
        "updated": T0,
        "parts": (f"host-007/mlx5_3/{id}",),
        "history": (HistoryEntry(T0, "opened", "third down"),),
        "revision": 1,
    }
    return Incident(**{**fields, **changes})


def note(key: str, *incidents: Incident, receiver: str = "ops", **changes: Any) -> Notification:
    fields: dict[str, Any] = {
        "key": key,
        "receiver": receiver,
        "incidents": incidents,
        "created": T0,
        "reason": "new incident",
    }
    return Notification(**{**fields, **changes})


def due_notifications(*arguments: Any, **more: Any) -> list[Notification]:
    """The notifications of a plan for receivers without budget and digest."""
    return plan_notifications(*arguments, **more).notifications
