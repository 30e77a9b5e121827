"""Recognises a torus or an open mesh of switches and its size. Pure.

A cable has no known direction, so a size is tested by the number of switches that are one, two, three ... steps from a
switch. That of a product of rings is the product of theirs; some missing cables change it little.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

LEAST = 8
"""Switches; fewer are any shape."""
ODD_SHARE = 0.01
"""Share of switches, one at least, that may be missing from the full grid or be too many for it ..."""
LOST_SHARE = 0.02
"""... and of neighbour pairs that may be lost besides: what every shape tolerates
(docs/methods.md#inferring-structure). An odd switch touches six others and six pairs at most, as many as a switch of
three directions has."""
MOST_NEAR = 6
STARTS = 4
"""Switches from which the distances are counted."""


class Grid(NamedTuple):
    sizes: tuple[int, ...]  # directions of one are left out, the longest first
    closed: bool
    share: float  # of what such a grid has, 0..1

    @property
    def extent(self) -> str:
        return "x".join(map(str, self.sizes))


def recognise(neighbours: Mapping[str, Collection[str]]) -> Grid | None:
    """The torus or mesh that explains the neighbours best; None where none comes near."""
    joined = _without_odd(neighbours)
    count = len(joined)
    if count < LEAST:
        return None
    edges = sum(len(around) for around in joined.values()) // 2
    degrees = Counter(len(around) for around in joined.values())
    usual = degrees.most_common(1)[0][0]
    odd = _odd(count)
    if sum(number for degree, number in degrees.items() if degree > MOST_NEAR) > MOST_NEAR * odd or usual > MOST_NEAR:
        return None
    even = (degrees[usual] + degrees[usual - 1]) / count  # a torus has one degree, less where a cable is lost
    full = sorted(joined, key=lambda switch: (len(joined[switch]) != usual, switch))
    full = full[:: max(1, count // STARTS)][:STARTS]
    full = [switch for switch in full if len(joined[switch]) == usual] or full[:1]
    corners = sorted(switch for switch in joined if len(joined[switch]) == min(degrees))[:STARTS]
    seen = {True: [_distances(joined, s) for s in full], False: [_distances(joined, s) for s in corners]}
    best: Grid | None = None
    for sizes in _sizes(count):
        for closed in (True, False):
            if closed and max(sizes) <= 2:
                continue
            expected = _edges(sizes, closed)
            share = min(edges, expected) / max(edges, expected)
            if share < 1 - LOST_SHARE - MOST_NEAR * odd / expected or (closed and usual != _degree(sizes)):
                continue
            profile = _profile(sizes, closed)
            alike = [sum(min(a, b) for a, b in zip(profile, one, strict=False)) / sum(profile) for one in seen[closed]]
            # a switch too many or too few counts as the three cables that are its own in a grid of three directions
            share *= (even if closed else 1.0) * max(0.0, 1 - 3 * abs(math.prod(sizes) - count) / count)
            grid = Grid(tuple(s for s in sizes if s > 1), closed, share * sum(alike) / len(alike))
            if best is None or grid.share > best.share + 1e-9:
                best = grid
    return best


def _without_odd(joined: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """The neighbours without switches that are no part of a grid: with one neighbour where most have more than two, or,
    where two thirds have the same number as in a torus, mostly joined to switches that have more."""
    near = {switch: set(around) for switch, around in joined.items()}
    usual, alike = Counter(map(len, near.values())).most_common(1)[0] if near else (0, 0)
    most = usual if 3 * alike >= 2 * len(near) else 6
    for _ in range(_odd(len(near))):
        odd = [
            (len(around), switch) for switch, around in near.items()
            if (len(around) == 1 and usual > 2)
            or (len(around) <= most and 2 * sum(len(near[other]) > most for other in around) > len(around))
        ]  # fmt: skip
        if not odd:
            return near
        _, gone = min(odd)
        for other in near.pop(gone):
            near[other].discard(gone)
    return near


def _odd(count: int) -> int:
    """Odd switches that are tolerated."""
    return max(1, math.ceil(ODD_SHARE * count))


def _sizes(count: int) -> list[tuple[int, int, int]]:
    """x >= y >= z whose product is near the count, by distance from it, the most even ones first."""
    found = []
    lowest, highest = count - _odd(count), count + _odd(count)
    z = 1
    while z**3 <= highest:
        y = z
        while z * y * y <= highest:
            found += [(x, y, z) for x in range(max(y, -(-lowest // (y * z))), highest // (y * z) + 1)]
            y += 1
        z += 1
    return sorted(found, key=lambda sizes: (abs(math.prod(sizes) - count), sizes[0] - sizes[2]))


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


def _distances(joined: Mapping[str, Collection[str]], start: str) -> list[int]:
    done = {start}
    ring, counts = [start], []
    while ring:
        counts.append(len(ring))
        ring = list({other for switch in ring for other in joined[switch] if other not in done})
        done.update(ring)
    return counts
