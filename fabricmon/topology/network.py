"""The switches of a graph as separate networks: compute and storage are two, the planes of one are one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fabricmon.topology.connect import connected, joined
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import adapter_ends, hosts_below, is_nvlink, neighbours
from fabricmon.topology.local_groups import Division, divide

SHARED_HOSTS = 0.25
"""Share of the smaller part's hosts that two parts must have in common ..."""
ALIKE = 0.1
"""... and most difference of their numbers of switches and adapters, to be planes of one network."""


@dataclass(frozen=True)
class Network:
    """The switches of one network. Every mapping has all of `switches` as keys.

    apart    switches that belong to it but to no level (`tiers.py`); not among `switches`
    planes   its connected parts, each a set of switches
    joined   switch -> switch at the other end -> cables between them
    carried  adapters (or hosts, where no port is known) of a switch
    hosts    of a switch
    counted  cables are known, not only proximity
    """

    switches: frozenset[str]
    apart: frozenset[str]
    planes: tuple[frozenset[str], ...]
    joined: Mapping[str, Mapping[str, int]]
    carried: Mapping[str, int]
    hosts: Mapping[str, frozenset[str]]
    level: Mapping[str, int]
    counted: bool

    @cached_property
    def pairs(self) -> list[tuple[str, str, int]]:
        """Each two joined switches once, with their cables."""
        return [(a, b, n) for a, around in self.joined.items() for b, n in around.items() if a < b]

    @cached_property
    def division(self) -> Division | None:
        """Its groups of switches that are joined all to all; None where it has several planes or no such groups."""
        return divide(self.joined, self.pairs) if len(self.planes) == 1 and len(self.switches) > 2 else None

    def at(self, level: int) -> list[str]:
        return sorted(switch for switch in self.switches if self.level[switch] == level)

    @property
    def top(self) -> int:
        """The highest level."""
        return max((self.level[switch] for switch in self.switches), default=-1)


def networks(graph: Graph) -> list[Network]:
    """All networks that carry adapters' cables, the one with most adapters first. NVLink chips are in none."""
    switches = [switch.id for switch in graph.switches.values() if not is_nvlink(switch)]
    around = {switch: Counter(others) for switch, others in neighbours(graph).items()}
    ends, hosts = adapter_ends(graph), hosts_below(graph, switches)
    own = {switch: {graph.adapters[far.node].host for _, far in ends[switch]} for switch in switches}
    carried = {switch: len(ends[switch]) + len(hosts[switch] - own[switch]) for switch in switches}
    apart = {switch for switch in switches if graph.switches[switch].labels.get("apart")}
    parts = [frozenset(part) for part in connected({s: around[s] for s in switches})]
    bulk = [part for part in parts if not part <= apart]
    found = []
    for planes in _beside(bulk, carried, hosts):
        whole = frozenset().union(*planes)
        members = whole - apart
        found.append(
            Network(
                members, whole & apart, tuple(sorted((part - apart for part in planes), key=min)),
                {switch: Counter({o: n for o, n in around[switch].items() if o not in apart}) for switch in members},
                {switch: carried[switch] for switch in members},
                {switch: frozenset(hosts[switch]) for switch in members},
                {switch: graph.switches[switch].level for switch in members},
                bool(graph.cables),
            )
        )
    return sorted(found, key=lambda net: (-sum(net.carried.values()), -len(net.switches), min(net.switches)))


def _beside(
    parts: list[frozenset[str]], carried: Mapping[str, int], hosts: Mapping[str, set[str]]
) -> list[list[frozenset[str]]]:
    """Parts of one network together."""
    reach = {at: set().union(*(hosts[switch] for switch in part)) for at, part in enumerate(parts)}
    size = [(len(part), sum(carried[switch] for switch in part)) for part in parts]

    def planes(a: int, b: int, shared: int) -> bool:
        alike = all(abs(x - y) <= ALIKE * max(x, y) for x, y in zip(size[a], size[b], strict=True))
        return alike and shared >= SHARED_HOSTS * min(len(reach[a]), len(reach[b]))

    return [[parts[at] for at in group] for group in joined(reach, planes)]
