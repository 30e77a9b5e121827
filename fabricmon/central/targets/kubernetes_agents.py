"""Expected agents of a Kubernetes cluster, from its pods and nodes. No I/O.

A pod disappears because it was replaced or removed, or because its node died. To report the latter, an agent stays
expected for a while after its pod has gone, and as long as its node is listed but not ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.central.targets.discovery import Target
from fabricmon.kubernetes.objects import AgentPod, KubernetesNode


class ExpectedAgent(NamedTuple):
    """One expected agent. `gone`: since when it has no pod, None while it has one."""

    target: Target
    gone: float | None = None

    @property
    def node(self) -> str:
        return self.target.expected_node


def expected(
    pods: Iterable[AgentPod],
    nodes: Mapping[str, KubernetesNode] | None,
    before: Iterable[ExpectedAgent],
    port: int,
    keep: float,
    now: float,
    source: str,
) -> dict[str, ExpectedAgent]:
    """Address -> expected agent.

    nodes   by name; None where nodes are not read
    before  the previous result
    now     monotonic seconds
    """
    found: dict[str, ExpectedAgent] = {}
    covered: set[str] = set()
    for pod in pods:
        covered.add(pod.node)
        host = pod.address
        if not host and pod.on_host and nodes is not None and pod.node in nodes:
            host = nodes[pod.node].address
        if host:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            found[address] = ExpectedAgent(Target(address, {"node": pod.node}, source))
    with_pod = {one.node for one in found.values()}
    for one in before:
        if one.target.address in found or one.node in with_pod:
            continue
        # A new pod without an address yet: the address of the previous one is used.
        gone = None if one.node in covered else one.gone if one.gone is not None else now
        node = nodes.get(one.node) if nodes is not None else None
        dead = node is not None and not node.ready
        if gone is None or dead or now - gone <= keep:
            found[one.target.address] = ExpectedAgent(one.target, gone)
    return found
