"""The level of every switch from the cables alone (docs/methods.md#inferring-structure). Pure.

Real fabrics hold a few odd things: a management host on a spine, a row of management switches, a leaf for gateways, a
leaf whose hosts are not there yet. Levels follow from the bulk: a switch is compared with the switches around it, and
what does not fit is set apart instead of changing the levels of others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import NamedTuple

from fabricmon.topology.connect import connected

ALIKE = 0.8
"""Switches without hosts are leaves whose hosts are not there when this share of their neighbours is that of one leaf,
both ways ..."""
EMPTY_MOST = 4
"""... and there are less than a quarter as many of them as leaves with hosts, or more. Else they are cores: those of a
tree without over-subscription are half as many as its leaves, with 2:1 a quarter, and never more than the leaves."""
TOP_LEAST = 4
"""A level exists when at least a quarter of the switches of the level below are joined to it."""


class Tiers(NamedTuple):
    """level  switch -> 0 carries adapters, else the distance to the nearest leaf, -1 where no path leads to one
    apart  switch -> why it is in no level of the fabric: its level is 0 with adapters and -1 without
    """

    level: dict[str, int]
    apart: dict[str, str]


def tiers(carried: Mapping[str, int], around: Mapping[str, Collection[str]]) -> Tiers:
    """Levels of all switches.

    carried  switch -> adapters plugged into it
    around   switch -> switches at the far ends of its cables
    """
    near = {switch: frozenset(others) for switch, others in around.items()}
    level: dict[str, int] = {}
    apart: dict[str, str] = {}
    for part in connected(near):
        _Part(carried, near, part).place(level, apart)
    return Tiers(level, apart)


class _Part:
    """One connected part.

    usual    adapters of the switch that carries the median adapter
    hanging  switches below another that are no part of the fabric, and why
    inner    the others -> their neighbours among them
    sure     those that are leaves by their adapters alone
    """

    def __init__(
        self, carried: Mapping[str, int], near: Mapping[str, frozenset[str]], switches: Collection[str]
    ) -> None:
        self.carried, self.near, self.switches = carried, near, switches
        self.usual = _usual(carried[switch] for switch in switches)
        self.hanging = self._hanging()
        self.inner = {switch: near[switch] - self.hanging.keys() for switch in switches if switch not in self.hanging}
        self.sure = self._sure()

    def place(self, level: dict[str, int], apart: dict[str, str]) -> None:
        found = self._levels()
        top = self._top(found)
        high = {switch for switch, at in found.items() if at > top}
        why = self.hanging | {switch: f"joined to few of the switches of level {found[switch] - 1}" for switch in high}
        for switch in self.switches:
            outside = 0 if self.carried[switch] else -1
            level[switch] = outside if switch in why else found[switch]
        apart.update(why)

    def _sure(self) -> set[str]:
        """Switches with more than half of the adapters of any switch within two steps."""
        near = {s: max((self.carried[other] for other in others), default=0) for s, others in self.inner.items()}
        most = {s: max((max(near[o], self.carried[o]) for o in others), default=0) for s, others in self.inner.items()}
        return {switch for switch in self.inner if 2 * self.carried[switch] > most[switch]}

    def _hanging(self) -> dict[str, str]:
        """Switches with few adapters that are cabled to one other, or to one other and further such switches, where
        most have more neighbours."""
        few = {switch for switch in self.switches if 2 * self.carried[switch] <= self.usual}
        if median([len(self.near[switch]) for switch in self.switches if switch not in few] or [0]) < 2:
            return {}
        left = {switch: set(self.near[switch]) for switch in self.switches}
        queue = deque(switch for switch in self.switches if len(left[switch]) == 1 and switch in few)
        found: dict[str, str] = {}
        while queue:
            switch = queue.popleft()
            if len(left[switch]) != 1:
                continue
            (other,) = left[switch]
            found[switch] = "cabled to one other switch"
            left[other].discard(switch)
            if len(left[other]) == 1 and other in few:
                queue.append(other)
        return found

    def _levels(self) -> dict[str, int]:
        level = self._distances(self.sure)
        if self._direct():
            return level | {switch: 0 for switch in self.inner if self.carried[switch]}
        far = [switch for switch in self.inner if level[switch] > 1 and not self.carried[switch]]
        empty = {switch for switch in far if self._like_a_leaf(switch)}
        if EMPTY_MOST * len(empty) >= len(self.sure) >= len(empty):
            empty = set()
        few = [switch for switch in self.inner if level[switch] > 0 and self.carried[switch]]
        hosted = {switch for switch in few if self._as_a_leaf(switch, set(far) - empty)}
        return level | dict.fromkeys(hosted | empty, 0)

    def _distances(self, leaves: Iterable[str]) -> dict[str, int]:
        level = dict.fromkeys(self.inner, -1) | {switch: 0 for switch in leaves if switch in self.inner}
        queue = deque(switch for switch, at in level.items() if at == 0)
        while queue:
            switch = queue.popleft()
            for other in self.inner[switch]:
                if level[other] < 0:
                    level[other] = level[switch] + 1
                    queue.append(other)
        return level

    def _direct(self) -> bool:
        """Whether switches with hosts are mostly joined to each other, as in a dragonfly or a torus."""
        hosted = {switch for switch in self.inner if 2 * self.carried[switch] >= max(1, self.usual)}
        straight = sum(len(self.inner[switch] & hosted) for switch in hosted)
        return 2 * straight > sum(len(self.inner[switch]) for switch in hosted)

    def _as_a_leaf(self, switch: str, cores: Collection[str]) -> bool:
        """Whether a switch with few adapters is a leaf, not a spine or core that carries a management host: it has the
        neighbours of one leaf, or most of its neighbours are those of one leaf, and not of as many cores."""
        mine = self.inner[switch]
        if 2 * len(mine & self.sure) >= len(mine):
            return False
        if self._like_a_leaf(switch):
            return True
        shared = Counter(far for other in mine for far in self.inner[other] if far != switch)
        alongside = [far for far, count in shared.items() if 2 * count > len(mine)]
        leaves = sum(far in self.sure for far in alongside)
        return leaves > sum(far in cores for far in alongside)

    def _like_a_leaf(self, switch: str) -> bool:
        """Whether it and one leaf have the same neighbours."""
        mine = self.inner[switch]
        shared = Counter(far for other in mine for far in self.inner[other] if far in self.sure)
        return any(count >= ALIKE * max(len(mine), len(self.inner[far])) for far, count in shared.items())

    def _top(self, level: Mapping[str, int]) -> int:
        """The highest level, each joined to enough of the switches of the one below."""
        top = 0
        while True:
            above = {switch for switch, at in level.items() if at == top + 1}
            below = [switch for switch, at in level.items() if at == top]
            joined = sum(bool(self.inner[switch] & above) for switch in below)
            if not above or TOP_LEAST * joined < len(below):
                return top
            top += 1


def _usual(carried: Iterable[int]) -> int:
    """Adapters of the switch that carries the median adapter; 0 without adapters."""
    counts = sorted(carried)
    left = sum(counts) / 2
    for count in counts:
        left -= count
        if left <= 0:
            return count
    return 0
