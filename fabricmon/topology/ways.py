"""The shortest ways between switches, and which cables are on them. Pure, NumPy.

Where hosts hang on switches that carry the packets of others, too (dragonfly, torus), a cable between two of these is
on the ways of few pairs of leaves: where packets are lost shows which (docs/methods.md#cables-of-direct-networks)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabricmon.topology.graph import Graph, once
from fabricmon.topology.groups import Ints

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_SWITCHES = 2500
"""Switches up to which ways are known: they take 10 bytes a pair, 62 MB of so many (design choice)."""
CHUNK = 64
"""Switches whose ways are searched at once."""
NO_WAY = 10_000
"""Hops between switches that nothing joins."""


@dataclass(frozen=True)
class Ways:
    """place   switch id -> its number here
    titles  of the cables between switches
    near, far  int[cables]: numbers of the switches at the ends of each

    The ways are searched when they are first asked for: it takes some seconds in the largest network.
    """

    place: dict[str, int]
    titles: tuple[str, ...]
    near: Ints
    far: Ints

    @cached_property
    def _found(self) -> tuple[NDArray[np.int16], Floats]:
        return _shortest(self.near, self.far, len(self.place))

    @property
    def hops(self) -> NDArray[np.int16]:
        """int16[switches, switches]: cables on the shortest way, NO_WAY where there is none."""
        return self._found[0]

    @property
    def many(self) -> Floats:
        """float[switches, switches]: number of shortest ways."""
        return self._found[1]

    def through(self, sources: Ints, targets: Ints) -> tuple[Mask, Mask]:
        """bool[switches, sources], bool[switches, targets]: whether a switch is on a shortest way from each source to
        any of the targets, and to each target from any of the sources; both ends of a way are on it."""
        return self._on_ways(np.arange(len(self.hops)), np.arange(len(self.hops)), 0, sources, targets)

    def passed(self, cables: Ints, sources: Ints, targets: Ints) -> tuple[Mask, Mask]:
        """The same of some cables: bool[cables, sources], bool[cables, targets]."""
        near, far = self.near[cables], self.far[cables]
        there, back = (self._on_ways(*ends, 1, sources, targets) for ends in ((near, far), (far, near)))
        return there[0] | back[0], there[1] | back[1]

    def _on_ways(self, first: Ints, last: Ints, between: int, sources: Ints, targets: Ints) -> tuple[Mask, Mask]:
        """Of parts that a way enters at one switch and leaves at another, so many hops later."""
        out = np.zeros((len(first), len(sources)), np.bool_)
        into = np.zeros((len(first), len(targets)), np.bool_)
        rest = self.hops[last][:, targets] + between
        for at, source in enumerate(sources.tolist()):
            direct = self.hops[source, targets]
            found = (self.hops[source, first][:, None] + rest == direct) & (direct < NO_WAY)
            out[:, at] = found.any(axis=1)
            into |= found
        return out, into

    def share(self, cable: int, ends: Ints) -> Floats:
        """float[ends, ends]: the share of the shortest ways from switch to switch that go through a cable from its near
        end to its far one; the other way they are those of the transposed."""
        near, far = int(self.near[cable]), int(self.far[cable])
        direct, many = self.hops[np.ix_(ends, ends)], self.many[np.ix_(ends, ends)]
        length = self.hops[ends, near][:, None] + 1 + self.hops[far, ends][None, :]
        ways = self.many[ends, near][:, None] * self.many[far, ends][None, :]
        return np.where((length == direct) & (direct < NO_WAY), ways / np.maximum(many, 1.0), 0.0)

    def share_through(self, switch: int, ends: Ints) -> Floats:
        """The same of a switch on them, that at either end included; both ways alike."""
        direct, many = self.hops[np.ix_(ends, ends)], self.many[np.ix_(ends, ends)]
        hops, ways = self.hops[ends, switch], self.many[ends, switch]
        found = (hops[:, None] + hops[None, :] == direct) & (direct < NO_WAY)
        return np.where(found, np.outer(ways, ways) / np.maximum(many, 1.0), 0.0)


@once
def ways_of(graph: Graph) -> Ways | None:
    """None where no cable joins two switches, or they are more than MOST_SWITCHES."""
    every = [c for c in graph.cables if c.a.node in graph.switches and c.b.node in graph.switches]
    every = [c for c in every if c.a.node != c.b.node]
    place = {switch: at for at, switch in enumerate(sorted({end.node for c in every for end in (c.a, c.b)}))}
    if not place or len(place) > MOST_SWITCHES:
        return None
    near, far = np.array([(place[c.a.node], place[c.b.node]) for c in every], np.int64).T
    return Ways(place, tuple(graph.title(c) for c in every), near, far)


def _shortest(near: Ints, far: Ints, size: int) -> tuple[NDArray[np.int16], Floats]:
    """Length and number of the shortest ways between all switches: breadth first, from CHUNK switches at a time."""
    start, end = np.concatenate([near, far]), np.concatenate([far, near])
    order = np.argsort(end, kind="stable")
    start, ends, first = start[order], *np.unique(end[order], return_index=True)
    hops, many = np.full((size, size), NO_WAY, np.int16), np.eye(size)
    np.fill_diagonal(hops, 0)
    for chunk in range(0, size, CHUNK):
        mine, front = slice(chunk, chunk + CHUNK), many[chunk : chunk + CHUNK].copy()
        length = 0
        while front.any():
            length += 1
            reached = np.zeros_like(front)
            reached[:, ends] = np.add.reduceat(front[:, start], first, axis=1)
            front = np.where((reached > 0) & (hops[mine] == NO_WAY), reached, 0.0)
            hops[mine][front > 0] = length
            many[mine] += front
    return hops, many
