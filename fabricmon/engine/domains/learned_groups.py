"""Fault domains learned from common failures, for ports without a known leaf. Pure.

Method: docs/methods.md#learned-groups. Kept in memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId

LEAST = 4  # ports
HOSTS = 2  # least number of hosts
TOGETHER = 10.0  # seconds within which links go down together: a poll (docs/methods.md#learned-groups)
ALIKE = 0.6  # Jaccard index
SIGHTINGS = 2
CLOSED = 30.0  # seconds after its first member a sighting is complete: a poll, a slow read, the hold of link_down
APART = 300.0  # seconds between two sightings of one group: a switch that restarts is seen down twice
MOST = 512  # groups remembered; the longest unseen goes first
WIDEST = 4096  # ports of one sighting


@dataclass(slots=True)
class LearnedGroup:
    """number  in "learned group N", unique."""

    number: int
    members: frozenset[ComponentId]
    seen: int
    last: float


class LearnedGroups:
    """groups  all that were seen, used or not"""

    def __init__(self) -> None:
        self.groups: list[LearnedGroup] = []
        self._fallen: dict[ComponentId, float] = {}
        self._numbers = 0

    def add_falls(self, fallen: Iterable[tuple[ComponentId, float]]) -> None:
        """Ports without a known leaf that went down, and when."""
        for component, since in fallen:
            if len(self._fallen) < WIDEST:
                self._fallen.setdefault(component, since)

    def forget(self, node: str) -> None:
        """The node left: its ports are in no group any more, and a group of too few ports is none."""
        self._fallen = {component: since for component, since in self._fallen.items() if component.node != node}
        for group in self.groups:
            if any(component.node == node for component in group.members):
                group.members = frozenset(component for component in group.members if component.node != node)
        self.groups = [group for group in self.groups if len(group.members) >= LEAST]

    def group_falls(self, now: float) -> bool:
        """Take complete sightings over; whether the groups in use changed."""
        changed = False
        while self._fallen:
            first = min(self._fallen.values())
            if now - first < CLOSED:
                break
            sighting = frozenset(c for c, since in self._fallen.items() if since - first <= TOGETHER)
            for component in sighting:
                del self._fallen[component]
            if len(sighting) >= LEAST and len({component.node for component in sighting}) >= HOSTS:
                changed |= self._sight(sighting, first)
        return changed

    def _sight(self, sighting: frozenset[ComponentId], at: float) -> bool:
        best = max(self.groups, key=lambda group: _alike(group.members, sighting), default=None)
        if best is None or _alike(best.members, sighting) < ALIKE:
            self._numbers += 1
            self.groups.append(LearnedGroup(self._numbers, sighting, 1, at))
            if len(self.groups) > MOST:
                self.groups.remove(min(self.groups, key=lambda group: (group.seen >= SIGHTINGS, group.last)))
            return False
        if at - best.last >= APART:
            best.seen += 1
        best.members |= sighting
        best.last = at
        return best.seen >= SIGHTINGS

    def ids(self, row_of: Callable[[ComponentId], int | None], n: int) -> tuple[NDArray[np.int32], list[str]]:
        """Group of each of n rows, -1 none, and the names of the groups: those in use only."""
        found = np.full(n, -1, np.int32)
        names: list[str] = []
        for group in self.groups:
            if group.seen >= SIGHTINGS:
                rows = [row for row in map(row_of, group.members) if row is not None and row < n]
                found[rows] = len(names)
                names.append(f"learned group {group.number}")
        return found, names


def _alike(one: frozenset[ComponentId], other: frozenset[ComponentId]) -> float:
    return len(one & other) / len(one | other)
