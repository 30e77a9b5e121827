"""What a fabric's shape says of itself: levels, scalable units, rails. Pure.

No discovery names a leaf or a rail; they follow from who is plugged where (topologies.md section 10). What a
source states (labels "unit" and "rail", a level) is kept; only what is missing is inferred.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from fabricmon.topology.graph import Cable, End, Graph, Switch

FEW_MOST = 3
"""A switch with this many adapters is a leaf in any fabric; fewer are enough where all leaves are small."""
FEW_SHARE = 8
"""... namely more than one eighth of the adapters of the switch that has most: a spine may carry a management host."""
UNIT_SHARE = 4
"""Two leaves are of one scalable unit when at least a quarter of the smaller one's hosts are on both."""

_NUMBER = re.compile(r"(\d+)$")
_GPU = re.compile(r"^gpu\d+$", re.IGNORECASE)
_FROM_ONE = re.compile(r"^HCA-\d+$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts leaf-2 before leaf-10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.findall(r"\d+|\D+", text))


def rail_index(device: str) -> int | None:
    """Index of an adapter by its name, from 0: "mlx5_4" and "HCA-5" are both 4; None where the name has no number.

    Drivers count from 0, the description that firmware and old scripts write ("HCA-5") counts from 1. A GPU has its
    NVLinks on every switch chip: its number is no rail.
    """
    match = _NUMBER.search(device)
    if match is None or _GPU.match(device):
        return None
    return int(match[1]) - 1 if _FROM_ONE.match(device) else int(match[1])


def adapter_ends(graph: Graph) -> dict[str, list[tuple[End, End]]]:
    """Per switch its cables to adapters, as (end at the switch, end at the adapter)."""
    found: dict[str, list[tuple[End, End]]] = {switch: [] for switch in graph.switches}
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in graph.switches and far.node in graph.adapters:
                found[near.node].append((near, far))
    return found


def neighbours(graph: Graph) -> dict[str, list[str]]:
    """Per switch the switches at the far ends of its cables, one entry a cable; a cable to itself counts for none.

    A trunk, whose cables nobody counted, counts for one.
    """
    found: dict[str, list[str]] = {switch: [] for switch in graph.switches}
    for link in graph.cables:
        a, b = link.a.node, link.b.node
        if a != b and a in found and b in found:
            found[a].append(b)
            found[b].append(a)
    for a, b in graph.trunks:
        if a in found and b in found and a != b:
            found[a].append(b)
            found[b].append(a)
    return found


def is_nvlink(switch: Switch) -> bool:
    """A chip that carries NVLinks between GPUs, not the cables of adapters."""
    return switch.labels.get("network") == "nvlink"


def levels(graph: Graph) -> dict[str, int]:
    """Level per switch: 0 carries adapters, else the distance to the nearest leaf, -1 where no path leads to one."""
    carried = {switch: len(ends) for switch, ends in adapter_ends(graph).items()}
    for switches in graph.attached.values():
        for switch in switches:
            if switch in carried:
                carried[switch] += 1
    chips = {switch.id for switch in graph.switches.values() if is_nvlink(switch)}
    most = max((count for switch, count in carried.items() if switch not in chips), default=0)
    few = min(FEW_MOST, most // FEW_SHARE + 1)
    level = {switch: 0 if count >= few or switch in chips else -1 for switch, count in carried.items()}
    around = neighbours(graph)
    queue = deque(switch for switch, found in level.items() if found == 0)
    while queue:
        switch = queue.popleft()
        for other in around[switch]:
            if level[other] < 0:
                level[other] = level[switch] + 1
                queue.append(other)
    return level


def units(graph: Graph, leaves: Iterable[str]) -> dict[str, int]:
    """Scalable unit per leaf: leaves that share hosts. Numbered from 0 in the natural order of the leaves' names."""
    ends = adapter_ends(graph)
    hosts = {leaf: {h for _, far in ends[leaf] if (h := graph.adapters[far.node].host)} for leaf in leaves}
    for host, switches in graph.attached.items():
        for switch in switches:
            if switch in hosts:
                hosts[switch].add(host)
    leaves_of: dict[str, set[str]] = defaultdict(set)
    for leaf, names in hosts.items():
        for host in names:
            leaves_of[host].add(leaf)
    root = {leaf: leaf for leaf in hosts}

    def find(leaf: str) -> str:
        while root[leaf] != leaf:
            root[leaf] = root[root[leaf]]
            leaf = root[leaf]
        return leaf

    shared: Counter[tuple[str, str]] = Counter()
    for together in leaves_of.values():
        ordered = sorted(together)
        shared.update((a, b) for i, a in enumerate(ordered) for b in ordered[i + 1 :])
    for (a, b), count in shared.items():
        if count * UNIT_SHARE >= min(len(hosts[a]), len(hosts[b])):
            root[find(a)] = find(b)
    number: dict[str, int] = {}
    for leaf in sorted(hosts, key=lambda switch: natural(graph.name(switch))):
        number.setdefault(find(leaf), len(number))
    return {leaf: number[find(leaf)] for leaf in hosts}


def rail_counts(graph: Graph, leaf_ends: Iterable[tuple[End, End]]) -> Counter[int]:
    """How often each adapter index is plugged into one leaf; adapters without host or index do not vote."""
    votes: Counter[int] = Counter()
    for _, far in leaf_ends:
        adapter = graph.adapters[far.node]
        index = rail_index(adapter.name) if adapter.host else None
        if index is not None:
            votes[index] += 1
    return votes


def rails(graph: Graph, leaves: Iterable[str]) -> dict[str, tuple[int, float]]:
    """Rail of a leaf: the most common adapter index and its share of the votes (purity, 0..1).

    Leaves whose adapters all lack a name are left out.
    """
    ends = adapter_ends(graph)
    found: dict[str, tuple[int, float]] = {}
    for leaf in leaves:
        votes = rail_counts(graph, ends[leaf])
        if votes:
            index, count = max(votes.items(), key=lambda item: (item[1], -item[0]))
            found[leaf] = (index, count / votes.total())
    return found


def tier(graph: Graph, link: Cable) -> str:
    """Where a cable runs: "adapter-0" an adapter's link, "0-1" leaf to next level, "loopback", "adapter-adapter"."""
    if link.a.node == link.b.node:
        return "loopback"
    ends = [graph.switches.get(end.node) for end in (link.a, link.b)]
    known = sorted(switch.level for switch in ends if switch is not None)
    words = [str(level) if level >= 0 else "?" for level in known]
    return "-".join(["adapter"] * (2 - len(known)) + words)


RAIL_PURITY = 0.8
"""Share of one index from which a leaf counts as a rail leaf; leaves below are mixed by design."""


def annotate(graph: Graph) -> Graph:
    """The graph with every switch's level and the labels "unit" and "rail" of leaves filled in where missing."""
    stated = {switch.id: switch.level for switch in graph.switches.values() if switch.level >= 0}
    level = {**levels(graph), **stated}
    leaves = [switch for switch, found in level.items() if found == 0 and not is_nvlink(graph.switches[switch])]
    unit, rail = units(graph, leaves), rails(graph, leaves)
    switches: dict[str, Switch] = {}
    for name, switch in graph.switches.items():
        labels = dict(switch.labels)
        if name in unit:
            labels.setdefault("unit", f"su{unit[name]}")
        if name in rail and rail[name][1] >= RAIL_PURITY:
            labels.setdefault("rail", str(rail[name][0]))
        switches[name] = msgspec.structs.replace(switch, level=level.get(name, -1), labels=labels)
    return msgspec.structs.replace(graph, switches=switches, hosts=_hosts(graph, switches))


def _hosts(graph: Graph, switches: Mapping[str, Switch]) -> dict[str, dict[str, str]]:
    """Hosts with the unit that most of their adapters are in, unless a source states it."""
    votes: dict[str, Counter[str]] = {}
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            adapter, switch = graph.adapters.get(near.node), switches.get(far.node)
            if adapter and adapter.host and switch and (unit := switch.labels.get("unit")):
                votes.setdefault(adapter.host, Counter())[unit] += 1
    for host, below in graph.attached.items():
        for name in below:
            if (switch := switches.get(name)) and (unit := switch.labels.get("unit")):
                votes.setdefault(host, Counter())[unit] += 1
    hosts: dict[str, dict[str, str]] = {a.host: {} for a in graph.adapters.values() if a.host}
    hosts |= {host: dict(labels) for host, labels in graph.hosts.items()}
    hosts |= {host: {} for host in graph.attached if host not in hosts}
    for host, counted in votes.items():
        hosts[host].setdefault("unit", counted.most_common(1)[0][0])
    return hosts
