"""Connected parts of any graph: reachable nodes, components, sets that share members. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from itertools import chain
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

MOST_OWNERS = 256
"""Different sets that a member may be in. One of more does not count as shared.
A host has up to some ten adapters; leaves below one spine differ by the few cables that are missing."""


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
    """Sets joined, transitively, where `fit(one, other, number of shared members)`, in the order of the keys.

    Equal sets are compared with the first of them only. Time is at most MOST_OWNERS steps for each member of each set,
    memory that of the sets, whatever they share.
    """
    root = {key: key for key in members}
    first: dict[frozenset[str], Key] = {}
    different = []
    for key, names in members.items():
        one = first.setdefault(frozenset(names), key)
        if names and one is not key and fit(one, key, len(names)):
            root[key] = one
        else:
            different.append(key)
    often = Counter(chain.from_iterable(members[key] for key in different))
    owners: dict[str, list[Key]] = defaultdict(list)
    for key in different:
        counted = [name for name in members[key] if often[name] <= MOST_OWNERS]
        for other, shared in Counter(chain.from_iterable(owners[name] for name in counted)).items():
            if (a := _top(root, other)) != (b := _top(root, key)) and fit(other, key, shared):
                root[b] = a
        for name in counted:
            owners[name].append(key)
    parts: dict[Key, list[Key]] = defaultdict(list)
    for key in members:
        parts[_top(root, key)].append(key)
    return list(parts.values())


def _top(root: dict[Key, Key], key: Key) -> Key:
    """The first key of a part; shortens the way to it."""
    while (above := root[key]) != key:
        root[key] = key = root[above]
    return key
