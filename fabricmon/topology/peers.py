"""Switches that are compared with each other: of one level and of one network, or of networks alike. Pure.

A storage network beside the compute network has its own number of uplinks, and a switch that is cabled to no other has
none by design (docs/topology.md#findings-of-topology-show).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from fabricmon.topology.connect import connected
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import adapter_ends, is_nvlink, neighbours

ALIKE = 0.1
"""Most difference of their numbers of leaves and of adapters, as of the planes of one network (network.py)."""


def peer_sets(graph: Graph) -> list[list[str]]:
    """The sets of peers, in the order of the switches. None of a switch without a cable to another one: it is a network
    of its own (a discovery that reads switches through their cables does not even see one that lost all of them)."""
    around = neighbours(graph)
    level = {
        switch.id: switch.level
        for switch in graph.switches.values()
        if switch.level >= 0 and not is_nvlink(switch) and not switch.labels.get("apart")
    }
    parts = [part for part in connected(around) if len(part) > 1]
    return [
        [switch for switch in kin if level.get(switch) == at]
        for kin in _alike(parts, level, graph)
        for at in sorted({level[switch] for switch in kin if switch in level})
    ]


def _alike(parts: Iterable[Sequence[str]], level: Mapping[str, int], graph: Graph) -> list[list[str]]:
    """Connected parts with about as many leaves and adapters, together."""
    carried = adapter_ends(graph)
    groups: list[tuple[tuple[int, int], list[str]]] = []
    for part in parts:
        size = sum(level.get(switch) == 0 for switch in part), sum(len(carried[switch]) for switch in part)
        same = next((switches for other, switches in groups if _near(size, other)), None)
        if same is None:
            groups.append((size, list(part)))
        else:
            same += part
    return [switches for _, switches in groups]


def _near(one: Collection[int], other: Collection[int]) -> bool:
    return all(abs(a - b) <= ALIKE * max(a, b) for a, b in zip(one, other, strict=True))
