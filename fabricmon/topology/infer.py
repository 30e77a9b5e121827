"""Infers levels, scalable units and rails from the cables (docs/methods.md#inferring-structure). Pure.

What a source states (labels "unit" and "rail", a level) is kept; only what is missing is inferred.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from fabricmon.forms.natural import natural
from fabricmon.topology.connect import connected, joined
from fabricmon.topology.graph import Cable, End, Graph, Switch, once
from fabricmon.topology.tiers import Tiers, tiers

UNIT_SHARE = 4
"""Two leaves are of one scalable unit when at least a quarter of the smaller one's hosts are on both."""

_NUMBER = re.compile(r"(?<!\d)(\d{1,9})$")
_GPU = re.compile(r"^gpu\d+$", re.IGNORECASE)
_FROM_ONE = re.compile(r"^HCA-\d+$", re.IGNORECASE)
_BY_ADDRESS = re.compile(r"^[a-z]+(?:P(\d{1,5}))?p(\d{1,3})s(\d{1,3})(?:f(\d))?(?:n?p?\d+|d\d+)*$")
"""Names that systemd and rdma-core make of a PCI address: "ibp11s0f0", "rocep33s0", "enP2p1s0f1np1"."""


def by_name(graph: Graph, nodes: Iterable[str]) -> list[str]:
    """Nodes in the natural order of their names."""
    return sorted(nodes, key=lambda node: natural(graph.name(node)))


def rail_index(device: str) -> int | None:
    """Index of an adapter by its name, from 0: "mlx5_4" and "HCA-5" are both 4; None where the name has no number.

    Drivers count from 0, the description that firmware and old scripts write ("HCA-5") counts from 1. A name made of a
    PCI address gives the address as a number: only its order among those of the host is a rail (`rail_positions`). A
    GPU has its NVLinks on every switch chip: its number is no rail.
    """
    if (address := pci_order(device)) is not None:
        return address
    match = _NUMBER.search(device)
    if match is None or _GPU.match(device):
        return None
    return int(match[1]) - 1 if _FROM_ONE.match(device) else int(match[1])


def pci_order(device: str) -> int | None:
    """A number that orders the devices of a host by the PCI address in their names; None where the name has none."""
    match = _BY_ADDRESS.match(device)
    if match is None:
        return None
    domain, bus, slot, function = (int(part or 0) for part in match.groups())
    return ((domain * 1000 + bus) * 1000 + slot) * 10 + function


def same_family(one: str, other: str) -> bool:
    """Whether equal numbers of two device names mean one device: "mlx5_0" and "HCA-1", but not "mlx5_0" and "cxi0"."""
    if _FROM_ONE.match(one) or _FROM_ONE.match(other):
        return True
    return _NUMBER.sub("", one) == _NUMBER.sub("", other)


PATTERN_SHARE = 0.125
"""Share of the hosts of a network whose adapters have the same names (two hosts at least), from which these names are
those of a kind of host; the order of other hosts' adapters is compared with the leaves that they reach."""
PATTERNS_MOST = 16


@once
def rail_positions(graph: Graph) -> Mapping[str, int]:
    """Adapter -> its rail: its place in the order, by PCI address or else by number, of the adapters that its kind of
    host has in this network. Adapters without host or number are left out.

    A host that lacks an adapter keeps the places of its kind. A host of no kind (other names, more adapters) has the
    rails of the leaves that it reaches where these are in the order of its adapters.
    """
    found: dict[str, int] = {}
    others: list[dict[int, list[str]]] = []
    for hosts in _orders(graph):
        kinds = Counter(tuple(sorted(of)) for of in hosts.values())
        common = [names for names, n in kinds.most_common(PATTERNS_MOST) if n >= max(2, PATTERN_SHARE * len(hosts))]
        for of in hosts.values():
            own = tuple(sorted(of))
            wider = (names for names in common if set(own) <= set(names))
            known = own if own in common and len(own) > 1 else next(wider, ())
            if not known:
                others.append(of)
            places = {number: place for place, number in enumerate(known or own)}
            found.update((adapter, places[number]) for number, same in of.items() for adapter in same)
    return found | _by_leaf(graph, found, others) if others else found


def _orders(graph: Graph) -> list[dict[str, dict[int, list[str]]]]:
    """Per network its hosts with their adapters by number. A connected part is a network where most hosts have several
    adapters in it (compute, storage); all others are one (rails that are not joined, adapters without leaf)."""
    part = {s: number for number, switches in enumerate(connected(neighbours(graph))) for s in switches}
    on = {far.node: part[leaf] for leaf, ends in adapter_ends(graph).items() for _, far in ends}
    found: dict[int, dict[str, dict[int, list[str]]]] = {}
    for adapter in graph.adapters.values():
        number = rail_index(adapter.name) if adapter.host else None
        if number is not None:
            hosts = found.setdefault(on.get(adapter.id, -1), {})
            hosts.setdefault(adapter.host, {}).setdefault(number, []).append(adapter.id)
    single = [number for number, hosts in found.items() if 2 * sum(len(of) > 1 for of in hosts.values()) < len(hosts)]
    rest: dict[str, dict[int, list[str]]] = {}
    for number in single:
        for host, of in found.pop(number).items():
            for at, same in of.items():
                rest.setdefault(host, {}).setdefault(at, []).extend(same)
    networks = [*found.values(), rest]
    return [{host: _one_scheme(graph, of) for host, of in hosts.items()} for hosts in networks]


def _one_scheme(graph: Graph, of: dict[int, list[str]]) -> dict[int, list[str]]:
    """Only the adapters with a PCI address in their names where a host has such: other numbers are no address."""
    by_address = {n: same for n, same in of.items() if pci_order(graph.adapters[same[0]].name) is not None}
    return by_address or of


def _by_leaf(graph: Graph, found: Mapping[str, int], others: Iterable[dict[int, list[str]]]) -> dict[str, int]:
    """Places of the adapters of hosts of no kind whose leaves are in the order of their adapters."""
    own = {adapter for of in others for same in of.values() for adapter in same}
    kinds = {adapter: place for adapter, place in found.items() if adapter not in own}
    votes = {leaf: rail_counts(kinds, ends) for leaf, ends in adapter_ends(graph).items()}
    rail = {leaf: counted.most_common(1)[0][0] for leaf, counted in votes.items() if counted}
    reached = {adapter: {rail[leaf] for leaf in on if leaf in rail} for adapter, on in legs(graph, rail).items()}
    placed: dict[str, int] = {}
    for of in others:
        rails = [reached.get(adapter, set()) for _, same in sorted(of.items()) for adapter in same]
        order = [next(iter(one)) for one in rails if len(one) == 1]
        if len(order) > 1 and all(a < b for a, b in pairwise(order)):
            placed |= {a: next(iter(reached[a])) for same in of.values() for a in same if len(reached.get(a, ())) == 1}
    return placed


@once
def adapter_ends(graph: Graph) -> Mapping[str, Sequence[tuple[End, End]]]:
    """Per switch its cables to adapters, as (end at the switch, end at the adapter)."""
    found: dict[str, list[tuple[End, End]]] = {switch: [] for switch in graph.switches}
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in graph.switches and far.node in graph.adapters:
                found[near.node].append((near, far))
    return found


def hosts_below(graph: Graph, switches: Iterable[str]) -> dict[str, set[str]]:
    """Per switch the hosts whose adapters are plugged into it, or that a source without ports attaches to it."""
    ends = adapter_ends(graph)
    found = {switch: {h for _, far in ends[switch] if (h := graph.adapters[far.node].host)} for switch in switches}
    for host, below in graph.attached.items():
        for switch in below:
            if switch in found:
                found[switch].add(host)
    return found


def legs(graph: Graph, leaves: Iterable[str]) -> dict[str, list[str]]:
    """Per adapter the leaves that it is plugged into, each once."""
    ends = adapter_ends(graph)
    found: dict[str, dict[str, None]] = {}
    for leaf in leaves:
        for _, far in ends[leaf]:
            found.setdefault(far.node, {})[leaf] = None
    return {adapter: list(on) for adapter, on in found.items()}


@once
def neighbours(graph: Graph) -> Mapping[str, Sequence[str]]:
    """Per switch the switches at the far ends of its cables, one entry a cable, none for a loopback; a trunk counts for
    one."""
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
    """Whether a switch is a chip that carries NVLinks between GPUs."""
    return switch.labels.get("network") == "nvlink"


def tiers_of(graph: Graph) -> Tiers:
    """Levels of the switches and those that are apart; a chip that carries NVLinks is of level 0."""
    carried = {switch: len(ends) for switch, ends in adapter_ends(graph).items()}
    for switches in graph.attached.values():
        for switch in switches:
            if switch in carried:
                carried[switch] += 1
    chips = {switch.id for switch in graph.switches.values() if is_nvlink(switch)}
    around = {switch: others for switch, others in neighbours(graph).items() if switch not in chips}
    found = tiers(carried, {switch: [o for o in others if o not in chips] for switch, others in around.items()})
    return Tiers(found.level | dict.fromkeys(chips, 0), found.apart)


def units(graph: Graph, leaves: Iterable[str]) -> dict[str, int]:
    """Scalable unit per leaf: leaves that share hosts. Numbered from 0 in the natural order of the leaves' names."""
    hosts = hosts_below(graph, leaves)
    ordered = {leaf: hosts[leaf] for leaf in by_name(graph, hosts)}
    found = joined(ordered, lambda a, b, shared: shared * UNIT_SHARE >= min(len(hosts[a]), len(hosts[b])))
    return {leaf: number for number, unit in enumerate(found) for leaf in unit}


def rail_counts(positions: Mapping[str, int], leaf_ends: Iterable[tuple[End, End]]) -> Counter[int]:
    """How often each adapter index is plugged into one leaf; adapters without host or index do not vote."""
    return Counter(positions[far.node] for _, far in leaf_ends if far.node in positions)


def rails(graph: Graph, leaves: Iterable[str]) -> dict[str, tuple[int, float]]:
    """Rail of a leaf: the most common adapter index and its share of the votes (purity, 0..1).

    Leaves whose adapters all lack a name are left out.
    """
    voted = _voted(graph)
    return {leaf: voted[leaf] for leaf in leaves if leaf in voted}


@once
def _voted(graph: Graph) -> Mapping[str, tuple[int, float]]:
    """`rails` of all switches."""
    positions = rail_positions(graph)
    found: dict[str, tuple[int, float]] = {}
    for switch, ends in adapter_ends(graph).items():
        votes = rail_counts(positions, ends)
        if votes:
            index, count = max(votes.items(), key=lambda item: (item[1], -item[0]))
            found[switch] = (index, count / votes.total())
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
    """The graph with every switch's level and the labels "unit" and "rail" of leaves filled in where missing; the label
    "apart" of a switch that is in no level gives the reason."""
    stated = {switch.id: switch.level for switch in graph.switches.values() if switch.level >= 0}
    found = tiers_of(graph)
    level, apart = {**found.level, **stated}, {s: why for s, why in found.apart.items() if s not in stated}
    leaves = [switch for switch, at in level.items() if at == 0 and not is_nvlink(graph.switches[switch])]
    unit, rail = units(graph, leaves), rails(graph, leaves)
    switches: dict[str, Switch] = {}
    for name, switch in graph.switches.items():
        labels = dict(switch.labels)
        if name in unit:
            labels.setdefault("unit", f"su{unit[name]}")
        if name in rail and rail[name][1] >= RAIL_PURITY:
            labels.setdefault("rail", str(rail[name][0]))
        if name in apart:
            labels["apart"] = apart[name]
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
