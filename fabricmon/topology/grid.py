"""Is a graph of switches a torus or an open mesh, and of which size? Pure.

A cable says nothing of its direction, so the size is found by what a torus of that size must look like from one of its
switches: how many others are one, two, three ... steps away. That of a product of rings is the product of theirs, so
it costs little, and some missing cables change it little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEAST = 8
"""Switches; fewer are any shape."""
MOST_MISSING = 0.05
"""Share of switches that may be missing from the full grid."""
EDGES_LEAST = 0.85
"""Share of the grid's neighbour pairs that must be there (or, of those there, be explained) to look closer."""
LOOKS = 4
"""Switches from which the distances are counted."""


class Grid(NamedTuple):
    sizes: tuple[int, ...]  # directions of one are left out, the longest first
    closed: bool
    share: float  # of what such a grid has, 0..1

    @property
    def words(self) -> str:
        return "x".join(map(str, self.sizes))


def recognise(joined: Mapping[str, Mapping[str, int]]) -> Grid | None:
    """The torus or mesh that explains the neighbours best; None where none comes near."""
    count = len(joined)
    if count < LEAST:
        return None
    edges = sum(len(around) for around in joined.values()) // 2
    degrees = Counter(len(around) for around in joined.values())
    usual, most = degrees.most_common(1)[0][0], max(degrees)
    if most > 6:
        return None
    full = sorted(joined, key=lambda switch: (len(joined[switch]) != usual, switch))[:: max(1, count // LOOKS)][:LOOKS]
    full = [switch for switch in full if len(joined[switch]) == usual] or full[:1]
    corners = sorted(switch for switch in joined if len(joined[switch]) == min(degrees))[:LOOKS]
    seen = {True: [_distances(joined, s) for s in full], False: [_distances(joined, s) for s in corners]}
    best: Grid | None = None
    for sizes in _sizes(count):
        for closed in (True, False):
            if closed and max(sizes) <= 2:
                continue
            expected = _edges(sizes, closed)
            share = min(edges, expected) / max(edges, expected)
            if share < EDGES_LEAST or (closed and usual != _degree(sizes)):
                continue
            profile = _profile(sizes, closed)
            alike = [sum(min(a, b) for a, b in zip(profile, one, strict=False)) / sum(profile) for one in seen[closed]]
            grid = Grid(tuple(s for s in sizes if s > 1), closed, share * sum(alike) / len(alike))
            if best is None or grid.share > best.share + 1e-9:
                best = grid
    return best


def _sizes(count: int) -> list[tuple[int, int, int]]:
    """x >= y >= z whose product is the count or a little above, the most even ones first."""
    found = []
    highest = int(count * (1 + MOST_MISSING))
    z = 1
    while z**3 <= highest:
        y = z
        while z * y * y <= highest:
            found += [(x, y, z) for x in range(max(y, -(-count // (y * z))), highest // (y * z) + 1)]
            y += 1
        z += 1
    return sorted(found, key=lambda sizes: (sizes[0] * sizes[1] * sizes[2], sizes[0] - sizes[2]))


def _degree(sizes: Sequence[int]) -> int:
    return sum(min(size - 1, 2) for size in sizes)


def _edges(sizes: Sequence[int], closed: bool) -> int:
    count = sizes[0] * sizes[1] * sizes[2]
    return sum(count if closed and size > 2 else count // size * (size - 1) for size in sizes)


def _profile(sizes: Sequence[int], closed: bool) -> list[int]:
    """How many switches are 0, 1, 2, ... steps from any switch of a torus, from a corner of a mesh."""
    found = [1]
    for size in sizes:
        line = [1] * size
        if closed and size > 2:
            line = [1] + [2] * ((size - 1) // 2) + [1] * (size % 2 == 0)
        longer = [0] * (len(found) + len(line) - 1)
        for i, a in enumerate(found):
            for j, b in enumerate(line):
                longer[i + j] += a * b
        found = longer
    return found


def _distances(joined: Mapping[str, Mapping[str, int]], start: str) -> list[int]:
    done = {start}
    ring, counts = [start], []
    while ring:
        counts.append(len(ring))
        ring = list({other for switch in ring for other in joined[switch] if other not in done})
        done.update(ring)
    return counts
