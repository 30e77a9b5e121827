"""Paths of packets: one of the shortest between two switches, chosen by a hash as in ECMP. Pure.

A path is the switches in order and the cables between them. Routes go around dead switches and cables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.sim.layout import Layout
from fabricmon.topology.graph import End
from fabricmon.topology.infer import is_nvlink

_FAR = np.iinfo(np.int32).max
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Path:
    """switches: numbers as in Layout.switches; cables: numbers as in graph.cables, one fewer."""

    switches: tuple[int, ...]
    cables: tuple[int, ...]


def mix(*numbers: int) -> int:
    """A hash of some numbers, the same on every machine (splitmix64's finaliser)."""
    found = 0x9E3779B97F4A7C15
    for number in numbers:
        found = (found ^ (number + 0x9E3779B97F4A7C15)) & _MASK
        found = ((found ^ (found >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        found = ((found ^ (found >> 27)) * 0x94D049BB133111EB) & _MASK
        found ^= found >> 31
    return found


class Paths:
    """Shortest paths between the switches of a layout, without dead ones."""

    def __init__(self, layout: Layout, dead_switches: Collection[int] = (), dead_cables: Collection[int] = ()) -> None:
        self._layout = layout
        self._gone = frozenset(dead_switches)
        number = {switch: at for at, switch in enumerate(layout.switches)}
        chips = {at for at, id in enumerate(layout.switches) if is_nvlink(layout.graph.switches[id])}
        self._out: dict[int, list[tuple[int, int]]] = defaultdict(list)
        between: dict[tuple[int, int], int] = defaultdict(int)
        for at, cable in enumerate(layout.graph.cables):
            a, b = number.get(cable.a.node, -1), number.get(cable.b.node, -1)
            if a < 0 or b < 0 or a == b or a in chips or b in chips:
                continue
            between[min(a, b), max(a, b)] += 1
            if at not in dead_cables and a not in self._gone and b not in self._gone:
                self._out[a].append((b, at))
                self._out[b].append((a, at))
        self._parallel = {pair for pair, count in between.items() if count > 1}
        pairs = [(a, b) for a, others in self._out.items() for b, _ in others]
        self._from: NDArray[np.intp] = np.array([a for a, _ in pairs], np.intp)
        self._to: NDArray[np.intp] = np.array([b for _, b in pairs], np.intp)
        self._distances: dict[int, NDArray[np.int32]] = {}
        self._next: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def distance(self, target: int) -> NDArray[np.int32]:
        """Hops from every switch to one; the largest int32 where no path leads there."""
        known = self._distances.get(target)
        if known is None:
            known = np.full(len(self._layout.switches), _FAR, np.int32)
            known[target] = 0
            hops, front = 0, np.zeros(len(known), np.bool_)
            front[target] = target not in self._gone
            while front.any():
                hops += 1
                reached = self._from[front[self._to]]
                front = np.zeros(len(known), np.bool_)
                front[reached[known[reached] == _FAR]] = True
                known[front] = hops
            self._distances[target] = known
        return known

    def path(self, source: int, target: int, key: int) -> Path | None:
        """The path of the flow that hashes to `key`; None where there is none."""
        distance = self.distance(target)
        if distance[source] == _FAR or source in self._gone:
            return None
        switches, cables, at = [source], [], source
        while at != target:
            ways = self._next.get((at, target))
            if ways is None:
                near = int(distance[at]) - 1
                ways = self._next[at, target] = [way for way in self._out[at] if distance[way[0]] == near]
            at, cable = ways[mix(key, at) % len(ways)]
            switches.append(at)
            cables.append(cable)
        return Path(tuple(switches), tuple(cables))

    def words(self, path: Path) -> str:
        """A flow's path label: names of the switches; "a:33" leaves by its port 33, where cables are parallel."""
        graph, words = self._layout.graph, []
        for at, switch in enumerate(path.switches):
            name = graph.name(self._layout.switches[switch])
            if at < len(path.cables):
                other = path.switches[at + 1]
                if (min(switch, other), max(switch, other)) in self._parallel:
                    name = f"{name}:{self._near(path.cables[at], switch).port}"
            words.append(name)
        return " ".join(words)

    def _near(self, cable: int, switch: int) -> End:
        found = self._layout.graph.cables[cable]
        return found.a if found.a.node == self._layout.switches[switch] else found.b
