"""Tests of a network against the shapes of docs/methods.md#fabric-shapes; SHAPE_TESTS lists them. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from statistics import median

from msgspec.structs import replace

from fabricmon.topology import grid
from fabricmon.topology.connect import connected
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import RAIL_PURITY, legs, rails
from fabricmon.topology.network import Network
from fabricmon.topology.signs import UNCOUNTED, Shape, ratio

RAILS_LEAST = 0.8
"""Share of leaves with one adapter index and of hosts on no leaf twice, together, from which a tree has rails."""


def _star(graph: Graph, network: Network) -> Shape | None:
    if network.pairs or any(len(plane) > 1 for plane in network.planes):
        return None
    adapters = sum(network.carried.values())
    if len(network.switches) == 1:
        why = f"one switch carries all {adapters} adapters"
        return Shape("star", "star: one switch", 1.0 if adapters else 0.0, why)
    purity = _purity(graph, network.switches)
    return Shape(
        "rail-only", f"rail-only, {len(network.switches)} separate rails", purity,
        f"{len(network.switches)} switches that share their hosts and are not joined; each carries one adapter index",
        {"levels": "1", "leaves": str(len(network.switches)), "planes": str(len(network.planes))},
    )  # fmt: skip


def _tree(graph: Graph, network: Network) -> Shape | None:
    top = network.top
    leaves = network.at(0)
    if top < 1 or not leaves:
        return None
    cables = [
        (abs(network.level[a] - network.level[b]) == 1, count)
        for a, b, count in network.pairs
        if 0 <= network.level[a] <= top and 0 <= network.level[b] <= top
    ]
    straight = ratio(sum(count for up, count in cables if up), sum(count for _, count in cables))
    shares = [_uplinks(network, level) for level in range(top)]
    signs = straight
    for share, _ in shares:
        signs *= share
    words = [f"{straight:.0%} of the cables between switches go one level up"]
    if top == 1:
        complete = _complete(network)
        signs *= complete
        words.append(f"{complete:.0%} of the pairs of leaf and spine are joined")
    words += [
        f"{share:.0%} of the uplinks of level {level} are there ({usual} a switch)"
        for level, (share, usual) in enumerate(shares)
    ]
    levels = {1: "two", 2: "three"}.get(top, str(top + 1))
    details = {
        "levels": str(top + 1), "leaves": str(len(leaves)), "spines": str(len(network.at(1))),
        "planes": str(len(network.planes)),
    }  # fmt: skip
    if top > 1:
        details["cores"] = str(len(network.at(top)))
    return _railed(graph, leaves, Shape("fat-tree", f"{levels}-level fat tree", signs, "; ".join(words), details))


def _railed(graph: Graph, leaves: Collection[str], tree: Shape) -> Shape:
    """The tree, or rail-optimised where its leaves carry one adapter index each."""
    plugged = legs(graph, leaves)
    own: dict[str, list[str]] = defaultdict(list)
    for adapter, found in plugged.items():
        own[graph.adapters[adapter].host] += found
    own.pop("", None)
    index = {leaf: rail for leaf, (rail, purity) in rails(graph, leaves).items() if purity >= RAIL_PURITY}
    if len(set(index.values())) < 2 or not own or median(len(set(found)) for found in own.values()) < 2:
        return tree
    apart = ratio(sum(len(set(found)) == len(found) for found in own.values()), len(own))
    purity = _purity(graph, leaves)
    if purity * apart < RAILS_LEAST:
        return replace(tree, why=f"{tree.why}; {purity:.0%} of the leaves carry one adapter index: mixed by design")
    tors = Counter(len(found) for found in plugged.values()).most_common(1)[0][0]
    same = ratio(sum(len(found) == tors for found in plugged.values()), len(plugged))
    word = {1: "single ToR", 2: "dual ToR"}.get(tors, f"{tors} ToRs")
    return Shape(
        "rail-optimised", f"rail-optimised {tree.name}, {word}", tree.confidence * purity * apart * same,
        f"{purity:.0%} of the leaves carry one adapter index; {apart:.0%} of the hosts are on no leaf twice; "
        f"{same:.0%} of the adapters are on {tors} {'leaf' if tors == 1 else 'leaves'}; {tree.why}",
        {**tree.details, "rails": str(len(set(index.values()))), "tors": str(tors)},
    )  # fmt: skip


def _dragonfly(graph: Graph, network: Network) -> Shape | None:
    found = network.division
    if found is None:
        return None
    carried, groups = _carried(network), len(found.groups)
    if groups == 1:
        return Shape(
            "full-mesh", "full mesh", carried * found.fit,
            f"{found.inside:.0%} of all pairs of switches are joined; {carried:.0%} of the switches carry hosts",
            {"switches": str(len(network.switches))},
        )  # fmt: skip
    return Shape(
        "dragonfly", "dragonfly", carried * found.fit,
        f"{groups} groups of {found.usual} switches; inside them {found.inside:.0%} of the pairs are joined, of the "
        f"pairs of groups {found.between:.0%}; {carried:.0%} of the switches carry hosts",
        {"groups": str(groups), "group_size": str(found.usual)},
    )  # fmt: skip


def _dragonfly_plus(graph: Graph, network: Network) -> Shape | None:
    groups = leaf_spine_groups(network)
    if groups is None:
        return None
    of = {switch: number for number, group in enumerate(groups) for switch in group}
    good = sum(
        n for a, b, n in network.pairs
        if {network.level[a], network.level[b]} == {0, 1}
        or (network.level[a] == network.level[b] == 1 and of.get(a) != of.get(b))
    )  # fmt: skip
    straight = ratio(good, sum(n for _, _, n in network.pairs))
    wanted = sum(sum(network.level[s] == 0 for s in g) * sum(network.level[s] == 1 for s in g) for g in groups)
    inside = ratio(sum({network.level[a], network.level[b]} == {0, 1} for a, b, _ in network.pairs), wanted)
    joined = {
        frozenset((of[a], of[b])) for a, b, _ in network.pairs if a in of and b in of and of[a] != of[b]
    }
    between = ratio(len(joined), len(groups) * (len(groups) - 1) // 2)
    return Shape(
        "dragonfly+", "dragonfly+", straight * inside * between,
        f"{len(groups)} groups, each a leaf-spine with {inside:.0%} of its pairs joined; {between:.0%} of the pairs of "
        f"groups are joined by their spines; {straight:.0%} of the cables fit",
        {"groups": str(len(groups)), "leaves": str(len(network.at(0))), "spines": str(len(network.at(1)))},
    )  # fmt: skip


def leaf_spine_groups(network: Network) -> list[list[str]] | None:
    """Leaves and spines that are connected without the cables between spines, several of each in a group; None for a
    plain tree."""
    across = [(a, b) for a, b, _ in network.pairs if network.level[a] == network.level[b] == 1]
    if not across or len(network.planes) != 1:
        return None
    level = network.level
    near = {
        switch: [other for other in network.joined[switch] if {level[switch], level[other]} == {0, 1}]
        for switch in sorted(network.switches)
        if level[switch] in (0, 1)
    }
    groups = connected(near)
    full = all(min(Counter(level[switch] for switch in group)[at] for at in (0, 1)) > 1 for group in groups)
    return groups if len(groups) > 1 and full else None


def _grid(graph: Graph, network: Network) -> Shape | None:
    if len(network.planes) != 1:
        return None
    found = grid.recognise(network.joined)
    if found is None:
        return None
    carried = _carried(network) if any(network.carried.values()) else 1.0
    if len(found.sizes) == 1:
        kind, name = ("ring", f"ring of {found.extent}") if found.closed else ("mesh", f"chain of {found.extent}")
    else:
        kind = "torus" if found.closed else "mesh"
        name = f"{len(found.sizes)}D {kind} {found.extent}"
    return Shape(
        kind, name, carried * found.share,
        f"neighbours and distances are {found.share:.0%} those of {found.extent} switches "
        f"{'with' if found.closed else 'without'} wrap-around; {carried:.0%} of the switches carry hosts",
        {"sizes": found.extent},
    )  # fmt: skip


def _bipartite(graph: Graph, network: Network) -> Shape | None:
    """Leaf-spine by a plan of the cables between switches alone: two sides that are joined all to all."""
    if any(network.carried.values()) or not network.pairs:
        return None
    side: dict[str, bool] = {}
    for plane in network.planes:
        queue = [min(plane)]
        side[queue[0]] = True
        for switch in queue:
            for other in network.joined[switch]:
                if other not in side:
                    side[other] = not side[switch]
                    queue.append(other)
    sizes = Counter(side.values())
    across = sum(side[a] != side[b] for a, b, _ in network.pairs)
    share = ratio(across, sizes[True] * sizes[False]) * ratio(across, len(network.pairs))
    return Shape(
        "fat-tree", "two-level fat tree", share * UNCOUNTED,
        f"{sizes[True]} and {sizes[False]} switches, {share:.0%} of the pairs between them joined; no host is known, "
        "so the leaves are unknown",
        {"levels": "2"},
    )  # fmt: skip


SHAPE_TESTS: tuple[Callable[[Graph, Network], Shape | None], ...] = (
    _star, _tree, _bipartite, _dragonfly_plus, _dragonfly, _grid,
)  # fmt: skip


def _uplinks(network: Network, level: int) -> tuple[float, int]:
    """Share of the uplinks that all switches of a level would have if each had as many as most, and that number."""
    counts = [
        sum(n for other, n in network.joined[switch].items() if network.level[other] == level + 1)
        for switch in network.at(level)
    ]
    usual = max(Counter(counts).items(), key=lambda item: (item[1], item[0]))[0] if counts else 0
    return ratio(sum(min(count, usual) for count in counts), usual * len(counts)), usual


def _complete(network: Network) -> float:
    wanted = there = 0
    for plane in network.planes:
        leaves = [s for s in plane if network.level[s] == 0]
        spines = [s for s in plane if network.level[s] == 1]
        wanted += len(leaves) * len(spines)
        there += sum(network.level[other] == 1 for leaf in leaves for other in network.joined[leaf])
    return ratio(there, wanted)


def _purity(graph: Graph, leaves: Collection[str]) -> float:
    """Share of the leaves with named adapters that carry one index."""
    found = rails(graph, leaves)
    return ratio(sum(purity >= RAIL_PURITY for _, purity in found.values()), len(found))


def _carried(network: Network) -> float:
    return ratio(sum(count > 0 for count in network.carried.values()), len(network.switches))
