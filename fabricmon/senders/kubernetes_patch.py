"""Patches of a node: its condition by strategic merge, its taints as a whole for the version that was read.

Conditions are merged by type, so a patch does not change those of the kubelet. Taints are one value for the API: a
patch with the node's resource version is rejected if the node has changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fabricmon.forms.times import wall_time
from fabricmon.kubernetes.objects import Condition, KubernetesNode, Taint, api_time
from fabricmon.notify.node_condition import NodeCondition

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

NEWS, WORDS, HEARTBEAT = 0, 1, 2
WORDS_AFTER = 60.0  # seconds until a change of the message only is written


def due(before: Condition | None, verdict: NodeCondition, now: float, heartbeat: float) -> tuple[int, float] | None:
    """Sort key of the urgency to write a condition; None: it is current.

    heartbeat  seconds after which an unchanged condition is written again
    """
    beat = wall_time(before.last_heartbeat_time) if before is not None else None
    if before is None or (before.status, before.reason) != (verdict.status, verdict.reason):
        return NEWS, beat or 0.0
    if beat is None or now - beat >= heartbeat:
        return HEARTBEAT, beat or 0.0
    if before.message != verdict.message and now - beat >= WORDS_AFTER:
        return WORDS, beat
    return None


def condition(type: str, before: Condition | None, verdict: NodeCondition, now: float) -> Condition:
    """The condition to write; the transition time is kept while the status is the same."""
    since = before.last_transition_time if before is not None and before.status == verdict.status else None
    return Condition(type, verdict.status, verdict.reason, verdict.message, api_time(now), since or api_time(now))


def condition_patch(made: Condition) -> bytes:
    """A strategic merge patch of a node's status."""
    return msgspec.json.encode({"status": {"conditions": [made]}})


def tainted(taints: Iterable[Taint], mine: Taint) -> list[Taint]:
    """The taints with `mine`, which replaces one with the same key."""
    return [*untainted(taints, mine.key), mine]


def untainted(taints: Iterable[Taint], key: str) -> list[Taint]:
    """The taints without those with this key."""
    return [taint for taint in taints if taint.key != key]


def taints_patch(node: KubernetesNode, taints: Iterable[Taint]) -> bytes:
    """A merge patch of all taints of a node; rejected with 409 Conflict if the node has changed since."""
    spec = {"taints": list(taints) or None}
    return msgspec.json.encode({"metadata": {"resourceVersion": node.version, "uid": node.uid}, "spec": spec})
