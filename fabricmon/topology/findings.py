"""Faults of a fabric's cabling as it was discovered or planned. Pure.

Each check is a function of the annotated graph (`infer.annotate`); CHECKS lists them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from fabricmon.forms.natural import natural
from fabricmon.topology import healthy, shape
from fabricmon.topology.graph import Finding, Graph
from fabricmon.topology.infer import (
    RAIL_PURITY,
    adapter_ends,
    by_name,
    is_nvlink,
    neighbours,
    rail_positions,
    rails,
)
from fabricmon.topology.missing import MissingSwitch, empty_uplinks, missing_switches
from fabricmon.topology.network import networks
from fabricmon.topology.peers import peer_sets
from fabricmon.topology.slow import slow_links

PEERS_LEAST = 4  # peers; fewer are not compared
SHORT_NAMED = 6  # neighbours with too few cables that a finding names


def duplicate_names(graph: Graph) -> Iterator[Finding]:
    """Adapters with the same host and device name: cloned images or a duplicate host name."""
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for adapter in graph.adapters.values():
        if adapter.host and adapter.name:
            same[adapter.host, adapter.name].append(adapter.id)
    for (host, device), ids in sorted(same.items()):
        if len(ids) > 1:
            yield Finding(
                "duplicate_adapter",
                tuple(sorted(ids)),
                f"{len(ids)} adapters are described as {host} {device}: duplicate host name",
            )


def unnamed_adapters(graph: Graph) -> Iterator[Finding]:
    """Adapters whose description does not contain a host; they can only be joined to a host by GUID."""
    unnamed = sorted(adapter.id for adapter in graph.adapters.values() if not adapter.host)
    if unnamed:
        yield Finding(
            "unnamed_adapter",
            tuple(unnamed),
            f"{len(unnamed)} of {len(graph.adapters)} adapters have no host name in their node description; "
            "set it (with rdma-ndd) or pass a node name map",
        )


def swapped_rails(graph: Graph) -> Iterator[Finding]:
    """Hosts with two adapters of which each is on the leaf where all peers have the other one."""
    swaps = _swaps(graph)
    ends = {adapter: leaf for leaf, adapter in _plugged(graph)} if swaps else {}
    for host, first, second in swaps:
        words = [f"{graph.adapters[a].name} is on {graph.name(ends[a])}" for a in (first, second)]
        yield Finding(
            "swapped_rails",
            tuple(graph.name(a) for a in (first, second)),
            f"{host}: {words[0]} and {words[1]}, where all peers have the other: the two cables are swapped",
        )


def impure_rails(graph: Graph) -> Iterator[Finding]:
    """Leaves of one rail that also carry adapters of another index (except swapped pairs)."""
    swapped = {adapter for _, *pair in _swaps(graph) for adapter in pair}
    ends, positions = adapter_ends(graph), rail_positions(graph)
    for leaf, (index, purity) in sorted(_rails(graph).items(), key=lambda item: natural(graph.name(item[0]))):
        if not RAIL_PURITY <= purity < 1:
            continue
        odd = [
            graph.name(far.node)
            for _, far in ends[leaf]
            if far.node not in swapped and positions.get(far.node, index) != index
        ]
        if odd:
            yield Finding(
                "impure_rail",
                (graph.name(leaf), *sorted(odd, key=natural)),
                f"{graph.name(leaf)} carries adapter {index} of its hosts ({purity:.0%}), but also {len(odd)} of "
                "another rail",
            )


def lost_uplinks(graph: Graph) -> Iterator[Finding]:
    """Switches with fewer uplinks than most of their peers: lost redundancy although no port failed."""
    around = neighbours(msgspec.structs.replace(graph, trunks=()))
    for compared in peer_sets(graph):
        if len(compared) < PEERS_LEAST:
            continue
        level = {switch: graph.switches[switch].level for switch in compared}
        counts = {s: sum(graph.switches[other].level > level[s] for other in around[s]) for s in compared}
        expected, peers = max(Counter(counts.values()).items(), key=lambda item: (item[1], item[0]))
        if not expected or peers * 2 <= len(counts):
            continue
        usual = _usual(Counter(each) for each in (around[switch] for switch, n in counts.items() if n == expected))
        short = {switch for switch, count in counts.items() if count < expected}
        for dead in missing_switches(graph, short):
            short -= set(dead.below)
            yield missing_switch(graph, dead)
        for other, lacking in _by_neighbour({s: Counter(around[s]) for s in short}, usual).items():
            short -= set(lacking)
            names = [graph.name(switch) for switch in by_name(graph, lacking)]
            ports = [f"{graph.name(s)}/{p}" for s in by_name(graph, lacking) for p in empty_uplinks(graph, s, counts)]
            yield Finding(
                "lost_uplinks", (graph.name(other), *(ports or names)),
                f"{graph.name(other)} lacks its links to {len(names)} of {len(counts)} switches: "
                f"{', '.join(names[:SHORT_NAMED])}{_more(names)}",
            )  # fmt: skip
        for switch_id in by_name(graph, short):
            name = graph.name(switch_id)
            yield Finding(
                "lost_uplinks", (name, *(f"{name}/{port}" for port in empty_uplinks(graph, switch_id, counts))),
                f"{name} has {counts[switch_id]} uplinks, {peers} of {len(counts)} peers have {expected}"
                f"{_missed(graph, Counter(around[switch_id]), usual)}",
            )  # fmt: skip


def _by_neighbour(short: Mapping[str, Counter[str]], usual: Mapping[str, int]) -> dict[str, list[str]]:
    """Neighbour -> switches that lack links to it alone; only neighbours that PEERS_LEAST lack."""
    found: dict[str, list[str]] = defaultdict(list)
    for switch, own in short.items():
        lacking = [other for other, cables in usual.items() if own[other] < cables]
        if len(lacking) == 1:
            found[lacking[0]].append(switch)
    return {other: switches for other, switches in found.items() if len(switches) >= PEERS_LEAST}


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - SHORT_NAMED} more" if len(names) > SHORT_NAMED else ""


def missing_switch(graph: Graph, dead: MissingSwitch, ports: Iterable[str] = ()) -> Finding:
    """The finding of one dead switch. `ports`: the ports below it that are down, where they are known."""
    names = [graph.name(switch) for switch in dead.below]
    which = f"{dead.name} by the gap in the names" if dead.name else "its name is not known"
    return Finding(
        "missing_switch", (*([dead.name] if dead.name else []), *(ports or names)),
        f"a switch above {', '.join(names[:SHORT_NAMED])}{_more(names)} is missing or down ({which}): {len(names)} of "
        f"the {dead.peers} switches with the same neighbours have lost an uplink",
    )  # fmt: skip


def _usual(peers: Iterable[Counter[str]]) -> dict[str, int]:
    """Neighbour -> cables that most peers have to it."""
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    count = 0
    for each in peers:
        count += 1
        for other, cables in each.items():
            seen[other][cables] += 1
    return {other: found.most_common(1)[0][0] for other, found in seen.items() if 5 * found.total() >= 4 * count}


def _missed(graph: Graph, own: Counter[str], usual: dict[str, int]) -> str:
    """Text of the neighbours it has too few cables to, where all peers have the same neighbours."""
    short = [
        f"{graph.name(other)} {own[other]} of {usual[other]}"
        for other in by_name(graph, usual)
        if own[other] < usual[other]
    ]
    if not short:
        return ""
    rest = len(short) - SHORT_NAMED
    return ": " + ", ".join(short[:SHORT_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def loopbacks(graph: Graph) -> Iterator[Finding]:
    """Cables of which both ends are on one switch: loopback plugs and cables of a test that stayed."""
    found = [graph.title(link) for link in graph.cables if link.a.node == link.b.node]
    if found:
        why = f"{len(found)} cables or plugs join a switch with itself: left from a test, or misplaced"
        yield Finding("loopback", tuple(sorted(found, key=natural)), why)


def odd_switches(graph: Graph) -> Iterator[Finding]:
    """Switches that are exceptions from the fabric's levels: apart from them, with adapters above the leaves, or leaves
    without any."""
    carried = {switch: len(ends) for switch, ends in adapter_ends(graph).items()}
    attached = {switch for below in graph.attached.values() for switch in below}
    sorts: dict[str, list[str]] = defaultdict(list)
    for switch_id in by_name(graph, graph.switches):
        switch, name = graph.switches[switch_id], graph.name(switch_id)
        if why := switch.labels.get("apart"):
            sorts["in no level of the fabric"].append(f"{name} ({why})")
        elif switch.level > 0 and carried[switch_id]:
            sorts["above the leaves with adapters plugged in"].append(f"{name} ({carried[switch_id]})")
        elif switch.level == 0 and not carried[switch_id] and switch_id not in attached and not is_nvlink(switch):
            sorts["leaves without any adapter"].append(name)
    for sort, found in sorts.items():
        rest = f" and {len(found) - SHORT_NAMED} more" if len(found) > SHORT_NAMED else ""
        yield Finding(
            "odd_switch",
            tuple(text.partition(" (")[0] for text in found),
            f"{len(found)} of {len(graph.switches)} switches are {sort}: {', '.join(found[:SHORT_NAMED])}{rest}",
        )


CHECKS: tuple[Callable[[Graph], Iterable[Finding]], ...] = (
    swapped_rails,
    lost_uplinks,
    odd_switches,
    impure_rails,
    duplicate_names,
    slow_links,
    loopbacks,
    unnamed_adapters,
)


def check(graph: Graph) -> Graph:
    """The graph with its shapes, and with the findings of all checks after those of its sources."""
    found = [finding for test in CHECKS for finding in test(graph)]
    parts = networks(graph)
    shapes = shape.shapes(graph, parts)
    for network, seen in zip(parts, shapes, strict=False):
        found += healthy.check(graph, network, seen)
    found += healthy.whole(graph, shapes)
    return msgspec.structs.replace(graph, findings=graph.findings + tuple(found), shapes=shapes)


def _rails(graph: Graph) -> dict[str, tuple[int, float]]:
    return rails(graph, [switch.id for switch in graph.switches.values() if switch.level == 0])


def _plugged(graph: Graph) -> Iterator[tuple[str, str]]:
    for leaf, ends in adapter_ends(graph).items():
        for _, far in ends:
            yield leaf, far.node


def _swaps(graph: Graph) -> list[tuple[str, str, str]]:
    """(host, adapter, adapter) where each is on the rail of the other, on leaves that are otherwise one rail's."""
    rail = {leaf: index for leaf, (index, purity) in _rails(graph).items() if purity >= RAIL_PURITY}
    wrong: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    positions = rail_positions(graph)
    for leaf, adapter in _plugged(graph):
        index = positions.get(adapter)
        if leaf in rail and index is not None and index != rail[leaf]:
            wrong[graph.adapters[adapter].host].append((index, rail[leaf], adapter))
    found = []
    for host, misfits in sorted(wrong.items()):
        for at, (index, on, adapter) in enumerate(misfits):
            for other_index, other_on, other in misfits[at + 1 :]:
                if index == other_on and on == other_index:
                    first, second = sorted((adapter, other), key=lambda a: natural(graph.adapters[a].name))
                    found.append((host, first, second))
    return found
