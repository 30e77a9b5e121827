"""The switches of a graph as separate networks: compute and storage are two, the planes of one are one. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import adapter_ends, is_nvlink, neighbours

SHARED_HOSTS = 0.25
"""Parts that share at least this part of the smaller one's hosts stand beside each other ..."""
ALIKE = 0.1
"""... and are planes of one network where the numbers of their switches and adapters differ by no more than this."""


@dataclass(frozen=True)
class Network:
    """Switches that belong together. Every mapping has all of `switches` as keys.

    planes   its connected parts, each a set of switches
    joined   switch -> switch at the other end -> cables between them
    carried  adapters (or hosts, where no port is known) of a switch
    hosts    of a switch
    counted  cables are known, not only who is near whom
    """

    switches: frozenset[str]
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

    def at(self, level: int) -> list[str]:
        return sorted(switch for switch in self.switches if self.level[switch] == level)

    @property
    def top(self) -> int:
        """The highest level; switches that hang on the fabric like a host (management) make none."""
        top = max((self.level[switch] for switch in self.switches), default=-1)
        while top > 1:
            below = len(self.at(top - 1))
            reach = {other for switch in self.at(top) for other in self.joined[switch] if self.level[other] == top - 1}
            if 4 * len(reach) >= below:
                break
            top -= 1
        return top


def networks(graph: Graph) -> list[Network]:
    """All networks that carry adapters' cables, the one with most adapters first. NVLink chips are in none."""
    switches = [switch.id for switch in graph.switches.values() if not is_nvlink(switch)]
    around = {switch: Counter(others) for switch, others in neighbours(graph).items()}
    ends = adapter_ends(graph)
    carried = {switch: len(ends[switch]) for switch in switches}
    hosts = {switch: {h for _, far in ends[switch] if (h := graph.adapters[far.node].host)} for switch in switches}
    for host, below in graph.attached.items():
        for switch in below:
            if switch in hosts and host not in hosts[switch]:
                hosts[switch].add(host)
                carried[switch] += 1
    planes = _beside([frozenset(part) for part in connected({s: around[s] for s in switches})], carried, hosts)
    found = []
    for parts in planes:
        members = frozenset().union(*parts)
        found.append(
            Network(
                members, tuple(sorted(parts, key=min)),
                {switch: around[switch] for switch in members},
                {switch: carried[switch] for switch in members},
                {switch: frozenset(hosts[switch]) for switch in members},
                {switch: graph.switches[switch].level for switch in members},
                bool(graph.cables),
            )
        )
    return sorted(found, key=lambda net: (-sum(net.carried.values()), -len(net.switches), min(net.switches)))


def connected(near: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The connected parts of a graph, in the order of their first node."""
    done: set[str] = set()
    parts = []
    for first in near:
        if first in done:
            continue
        done.add(first)
        queue = [first]
        for node in queue:
            fresh = [other for other in near[node] if other not in done]
            done.update(fresh)
            queue += fresh
        parts.append(queue)
    return parts


def _beside(
    parts: list[frozenset[str]], carried: Mapping[str, int], hosts: Mapping[str, set[str]]
) -> list[list[frozenset[str]]]:
    """Parts of one network together."""
    reach = [set().union(*(hosts[switch] for switch in part)) for part in parts]
    size = [(len(part), sum(carried[switch] for switch in part)) for part in parts]
    parts_of: dict[str, list[int]] = defaultdict(list)
    for at, names in enumerate(reach):
        for host in names:
            parts_of[host].append(at)
    shared: Counter[tuple[int, int]] = Counter()
    for together in parts_of.values():
        shared.update((a, b) for i, a in enumerate(together) for b in together[i + 1 :])
    root = list(range(len(parts)))
    for (a, b), count in shared.items():
        alike = all(abs(x - y) <= ALIKE * max(x, y) for x, y in zip(size[a], size[b], strict=True))
        if alike and count >= SHARED_HOSTS * min(len(reach[a]), len(reach[b])):
            low, high = sorted((_root(root, a), _root(root, b)))
            root[high] = low
    groups: dict[int, list[frozenset[str]]] = defaultdict(list)
    for at, part in enumerate(parts):
        groups[_root(root, at)].append(part)
    return list(groups.values())


def _root(root: list[int], at: int) -> int:
    while root[at] != at:
        root[at] = root[root[at]]
        at = root[at]
    return at
