"""Which agents a cluster should have, by its pods and nodes. Decides only.

The pod of an agent goes away for several reasons: it was replaced, somebody decided so, or its node died and was taken
out of the cluster. The last must not look like the second. So an agent stays expected for a while after its pod went,
and for as long as its node is there without being ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.central.targets import Target
from fabricmon.kubernetes.objects import AgentPod, Node


class Expected(NamedTuple):
    """One agent to follow. `gone`: since when no pod stands for it, None while one does."""

    target: Target
    gone: float | None = None

    @property
    def node(self) -> str:
        return self.target.expected_node


def expected(
    pods: Iterable[AgentPod],
    nodes: Mapping[str, Node] | None,
    before: Iterable[Expected],
    port: int,
    keep: float,
    now: float,
    source: str,
) -> dict[str, Expected]:
    """By address, the agents there should be.

    nodes   by name; None where nodes are not read
    before  what was expected the last time
    now     seconds of any clock that never goes back
    """
    found: dict[str, Expected] = {}
    covered: set[str] = set()
    for pod in pods:
        covered.add(pod.node)
        host = pod.address
        if not host and pod.on_host and nodes is not None and pod.node in nodes:
            host = nodes[pod.node].address
        if host:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            found[address] = Expected(Target(address, {"node": pod.node}, source))
    told = {one.node for one in found.values()}
    for one in before:
        if one.target.address in found or one.node in told:
            continue
        # A pod that has no address yet replaces the one before, whose address is the best that is known.
        gone = None if one.node in covered else one.gone if one.gone is not None else now
        node = nodes.get(one.node) if nodes is not None else None
        dead = node is not None and not node.ready
        if gone is None or dead or now - gone <= keep:
            found[one.target.address] = Expected(one.target, gone)
    return found
