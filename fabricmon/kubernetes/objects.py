"""What of the API's objects counts here: nodes, and pods in which agents run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

NODES = "/api/v1/nodes"


class Condition(Struct, frozen=True, rename="camel"):
    """One of a node's conditions. `status` is "True", "False" or "Unknown"; times in RFC 3339, None where nobody said
    one."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class Taint(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One of a node's taints. `time_added` is the API server's business and is given back as it came."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Node(Struct, frozen=True):
    """A node.

    version   resourceVersion: a change is refused when the node is another one by then
    address   InternalIP, "" where it has none
    ready     whether its kubelet says so; a node that nobody speaks for is not ready
    """

    name: str
    uid: str
    version: str
    labels: dict[str, str] = {}
    address: str = ""
    ready: bool = False
    conditions: tuple[Condition, ...] = ()
    taints: tuple[Taint, ...] = ()

    def condition(self, type: str) -> Condition | None:
        """Its condition of that type."""
        return next((c for c in self.conditions if c.type == type), None)


class AgentPod(Struct, frozen=True):
    """A pod in which an agent runs, or is to run.

    node     the node it is bound to
    address  its IP, "" as long as the kubelet has not said it
    on_host  it has the node's own network, and so the node's address
    """

    name: str
    node: str
    address: str = ""
    on_host: bool = False


class _Meta(Struct, frozen=True):
    name: str
    uid: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] | None = None


class _Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class _NodeSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] | None = None


class _NodeStatus(Struct, frozen=True):
    addresses: tuple[_Address, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class _Node(Struct, frozen=True):
    metadata: _Meta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _PodSpec(Struct, frozen=True):
    nodeName: str = ""
    hostNetwork: bool = False


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    podIP: str = ""


class _Pod(Struct, frozen=True):
    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def node(raw: Any) -> Node:
    """A node out of its JSON. ValueError for one that cannot be understood."""
    found = msgspec.json.decode(raw, type=_Node)
    conditions = found.status.conditions or ()
    return Node(
        name=found.metadata.name,
        uid=found.metadata.uid,
        version=found.metadata.resourceVersion,
        labels=found.metadata.labels or {},
        address=next((a.address for a in found.status.addresses or () if a.type == "InternalIP"), ""),
        ready=any(c.type == "Ready" and c.status == "True" for c in conditions),
        conditions=conditions,
        taints=found.spec.taints or (),
    )


def agent_pod(raw: Any) -> AgentPod | None:
    """An agent's pod out of its JSON; None where it is on no node (yet), or has ended there."""
    found = msgspec.json.decode(raw, type=_Pod)
    if not found.spec.nodeName or found.status.phase in ("Succeeded", "Failed"):
        return None
    return AgentPod(found.metadata.name, found.spec.nodeName, found.status.podIP, found.spec.hostNetwork)


def rfc3339(wall: float) -> str:
    """A time as the API writes it, in whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str | None) -> float | None:
    """A time of the API as wall time; None where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None
