"""What is sent to change a node: its condition by strategic merge, its taints as a whole in the version that was read.

Decides only. Conditions of a node are merged by their type, so a patch of ours leaves those of the kubelet alone. Its
taints are one value to the API: a patch with the node's resource version is refused when somebody changed the node
since.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fabricmon.kubernetes.objects import Condition, Node, Taint, rfc3339, seconds
from fabricmon.notify.node_condition import Verdict

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

NEWS, WORDS, HEARTBEAT = 0, 1, 2
WORDS_AFTER = 60.0  # seconds until other words alone, of a condition that stays, are written


def due(before: Condition | None, verdict: Verdict, now: float, heartbeat: float) -> tuple[int, float] | None:
    """How urgently a condition is to be written, the most urgent first; None: it stands as it should.

    heartbeat  seconds after which one that stays is written again
    """
    beat = seconds(before.last_heartbeat_time) if before is not None else None
    if before is None or (before.status, before.reason) != (verdict.status, verdict.reason):
        return NEWS, beat or 0.0
    if beat is None or now - beat >= heartbeat:
        return HEARTBEAT, beat or 0.0
    if before.message != verdict.message and now - beat >= WORDS_AFTER:
        return WORDS, beat
    return None


def condition(type: str, before: Condition | None, verdict: Verdict, now: float) -> Condition:
    """The condition to write; the time of its last transition stays while its status does."""
    since = before.last_transition_time if before is not None and before.status == verdict.status else None
    return Condition(type, verdict.status, verdict.reason, verdict.message, rfc3339(now), since or rfc3339(now))


def condition_patch(made: Condition) -> bytes:
    """A strategic merge patch of a node's status."""
    return msgspec.json.encode({"status": {"conditions": [made]}})


def tainted(taints: Iterable[Taint], mine: Taint) -> list[Taint]:
    """The taints with mine, instead of what has its key."""
    return [*untainted(taints, mine.key), mine]


def untainted(taints: Iterable[Taint], key: str) -> list[Taint]:
    """The taints without those of that key."""
    return [taint for taint in taints if taint.key != key]


def taints_patch(node: Node, taints: Iterable[Taint]) -> bytes:
    """A merge patch of all of a node's taints; refused with 409 Conflict where the node is no longer what was read."""
    spec = {"taints": list(taints) or None}
    return msgspec.json.encode({"metadata": {"resourceVersion": node.version, "uid": node.uid}, "spec": spec})
