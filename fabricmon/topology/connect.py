"""Connected parts of any graph: reachable nodes, components, sets that share members. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import combinations
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def reached(near: Mapping[Key, Collection[Key]], starts: Iterable[Key]) -> list[Key]:
    """The nodes reachable from some nodes, these included, in the order in which they are met."""
    queue = list(dict.fromkeys(starts))
    done = set(queue)
    for node in queue:
        fresh = [other for other in dict.fromkeys(near[node]) if other not in done]
        done.update(fresh)
        queue += fresh
    return queue


def connected(near: Mapping[Key, Collection[Key]]) -> list[list[Key]]:
    """The connected parts of a graph, in the order of their first node."""
    done: set[Key] = set()
    parts = []
    for first in near:
        if first not in done:
            parts.append(reached(near, [first]))
            done.update(parts[-1])
    return parts


def joined(members: Mapping[Key, Collection[str]], fit: Callable[[Key, Key, int], bool]) -> list[list[Key]]:
    """Sets joined, transitively, where `fit(one, other, number of shared members)`."""
    owners: dict[str, list[Key]] = defaultdict(list)
    for key, names in members.items():
        for name in names:
            owners[name].append(key)
    near: dict[Key, list[Key]] = {key: [] for key in members}
    for (a, b), count in Counter(pair for keys in owners.values() for pair in combinations(keys, 2)).items():
        if fit(a, b, count):
            near[a].append(b)
            near[b].append(a)
    return connected(near)
