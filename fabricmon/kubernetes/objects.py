"""Nodes and agent pods of the API, with the used fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from fabricmon.forms.decoding import json_value

NODES = "/api/v1/nodes"


class Condition(Struct, frozen=True, rename="camel"):
    """One of a node's conditions. `status` is "True", "False" or "Unknown"; times in RFC 3339, None without
    one."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class Taint(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One of a node's taints. `time_added` is returned to the API server unchanged."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class KubernetesNode(Struct, frozen=True):
    """A node.

    version   resourceVersion: the API server refuses a change of a newer version
    address   InternalIP, "" where it has none
    ready     condition Ready is "True"
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
    """A pod of an agent, running or scheduled.

    node     the node it is bound to
    address  its IP, "" if not known yet
    on_host  it uses the host network, and so the address of the node
    """

    name: str
    node: str
    address: str = ""
    on_host: bool = False


class _NamedMeta(Struct, frozen=True):
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
    metadata: _NamedMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _PodSpec(Struct, frozen=True):
    nodeName: str = ""
    hostNetwork: bool = False


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    podIP: str = ""


class _Pod(Struct, frozen=True):
    metadata: _NamedMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def parse_node(raw: Any) -> KubernetesNode:
    """A node from JSON. ValueError for an invalid one."""
    found = json_value(raw, _Node)
    conditions = found.status.conditions or ()
    return KubernetesNode(
        name=found.metadata.name,
        uid=found.metadata.uid,
        version=found.metadata.resourceVersion,
        labels=found.metadata.labels or {},
        address=next((a.address for a in found.status.addresses or () if a.type == "InternalIP"), ""),
        ready=any(c.type == "Ready" and c.status == "True" for c in conditions),
        conditions=conditions,
        taints=found.spec.taints or (),
    )


def parse_agent_pod(raw: Any) -> AgentPod | None:
    """An agent pod from JSON; None where it is not scheduled or has ended."""
    found = json_value(raw, _Pod)
    if not found.spec.nodeName or found.status.phase in ("Succeeded", "Failed"):
        return None
    return AgentPod(found.metadata.name, found.spec.nodeName, found.status.podIP, found.spec.hostNetwork)


def api_time(wall: float) -> str:
    """A time as the API writes it, in whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
