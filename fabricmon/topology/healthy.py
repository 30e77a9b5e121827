"""Missing parts of a fabric of a known shape (docs/methods.md#fabric-shapes). Pure.

A part is missing only where most peers have it: what most lack is the design.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fabricmon.forms.natural import natural
from fabricmon.topology import nvlink
from fabricmon.topology.graph import Finding, Graph
from fabricmon.topology.infer import adapter_ends, by_name, legs
from fabricmon.topology.network import Network
from fabricmon.topology.shape_tests import leaf_spine_groups
from fabricmon.topology.signs import Shape

MOST = 0.8  # share of the peers that must have what one lacks


def check(graph: Graph, network: Network, shape: Shape) -> list[Finding]:
    """Findings of one network, by its shape."""
    return [finding for test in CHECKS.get(shape.kind, ()) for finding in test(graph, network, shape)]


def whole(graph: Graph, shapes: Sequence[Shape]) -> list[Finding]:
    """Findings of NVLink domains, of blocks, and where a source states another shape."""
    return [*_nvlinks(graph), *_domain_sizes(graph), *_blocks(graph), *_stated(graph, shapes)]


def _missing_rails(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    """Hosts without an adapter on a rail that nearly all hosts of their unit have."""
    units: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    leaves: dict[tuple[str, str], list[str]] = defaultdict(list)
    ends = adapter_ends(graph)
    for leaf in network.at(0):
        labels = graph.switches[leaf].labels
        unit, rail = labels.get("unit", ""), labels.get("rail", "")
        if rail:
            leaves[unit, rail].append(leaf)
            for host in network.hosts[leaf]:
                units[unit][host].add(rail)
    for unit, hosts in sorted(units.items(), key=lambda item: natural(item[0])):
        count = Counter(rail for rails in hosts.values() for rail in rails)
        usual = {rail for rail, having in count.items() if having >= MOST * len(hosts)}
        for host, rails in sorted(hosts.items(), key=lambda item: natural(item[0])):
            if 2 * len(rails) < len(usual):
                continue  # a management or storage host has an adapter or two in the unit
            lost = [
                leaf
                for rail in sorted(usual - rails, key=natural)
                for leaf in leaves[unit, rail]
                if all(graph.adapters[far.node].host for _, far in ends[leaf])  # a nameless one may be the host's
            ]
            if lost:
                yield Finding(
                    "missing_rail", (host, *map(graph.name, lost)),
                    f"{host} has no adapter on {', '.join(map(graph.name, lost))}; its peers of {unit} have: "
                    "link down, adapter failed or connected elsewhere",
                )  # fmt: skip


def _twice_on_leaf(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    ends = adapter_ends(graph)
    for leaf in network.at(0):
        of: dict[str, set[str]] = defaultdict(set)
        for _, far in ends[leaf]:
            adapter = graph.adapters[far.node]
            if adapter.host:
                of[adapter.host].add(adapter.id)
        crowd = {host: ids for host, ids in of.items() if len(ids) > 1}
        if crowd and len(crowd) <= (1 - MOST) * len(of):
            for host, ids in sorted(crowd.items(), key=lambda item: natural(item[0])):
                names = tuple(sorted(map(graph.name, ids), key=natural))
                yield Finding(
                    "twice_on_leaf", (graph.name(leaf), *names),
                    f"{host} has {len(ids)} adapters on {graph.name(leaf)}; its peers have each on a leaf of its own",
                )  # fmt: skip


def _lost_legs(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    tors = int(shape.details.get("tors", "1"))
    if tors < 2:
        return
    found = legs(graph, network.at(0))
    short = by_name(graph, (adapter for adapter, leaves in found.items() if len(leaves) < tors))
    if short:
        yield Finding(
            "lost_leg", tuple(map(graph.name, short)),
            f"{len(short)} of {len(found)} adapters are on fewer than {tors} leaves: one more failure disconnects them",
        )  # fmt: skip


def _cross_links(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    odd = [
        graph.title(link)
        for link in graph.cables
        if link.a.node in network.switches and link.b.node in network.switches and link.a.node != link.b.node
        and network.level[link.a.node] == network.level[link.b.node] >= 0
    ]  # fmt: skip
    if odd:
        yield Finding(
            "cross_link", tuple(sorted(odd, key=natural)),
            f"{len(odd)} links join switches of one level, which a {shape.name.rsplit(',')[0]} does not have",
        )  # fmt: skip


def _uneven_uplinks(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    """Leaves of a two-level tree with all their uplinks, but not the same number to every spine."""
    if shape.details.get("levels") != "2" or not network.counted or not network.at(0):
        return
    pairs = Counter(n for a, b, n in network.pairs if network.level[a] != network.level[b])
    usual, count = pairs.most_common(1)[0] if pairs else (0, 0)
    if not count or count < MOST * pairs.total():
        return
    ups = {
        leaf: [n for other, n in network.joined[leaf].items() if network.level[other] == 1] for leaf in network.at(0)
    }
    whole = Counter(map(sum, ups.values())).most_common(1)[0][0]
    for leaf in by_name(graph, ups):
        if sum(ups[leaf]) == whole and any(n != usual for n in ups[leaf]):
            odd = [
                f"{graph.name(other)} {network.joined[leaf][other]}"
                for other in by_name(graph, network.joined[leaf])
                if network.joined[leaf][other] != usual and network.level[other] == 1
            ]
            yield Finding(
                "uneven_uplinks", (graph.name(leaf),),
                f"{graph.name(leaf)} has {whole} uplinks like its peers, but not {usual} to every spine: "
                f"{', '.join(odd)}",
            )  # fmt: skip


def _uneven_planes(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    if len(network.planes) < 2:
        return
    sizes = [
        (len(plane), sum(network.carried[s] for s in plane),
         sum(n for s in plane for n in network.joined[s].values()) // 2)
        for plane in network.planes
    ]  # fmt: skip
    usual, count = Counter(sizes).most_common(1)[0]
    if 2 * count <= len(sizes):
        return
    for plane, size in zip(network.planes, sizes, strict=True):
        if size != usual:
            name = graph.name(by_name(graph, plane)[0])
            nouns = ("switches", "adapters", "links between switches")
            words = [f"{mine} of {most} {noun}" for mine, most, noun in zip(size, usual, nouns, strict=True)]
            yield Finding("uneven_planes", (name,), f"the plane of {name} has {', '.join(words)} that most planes have")


def _groups_uneven(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    """Groups joined by fewer global links than most, and members of a group that are not joined."""
    plus = shape.kind == "dragonfly+"
    groups = (leaf_spine_groups(network) or []) if plus else network.division.groups if network.division else []
    of = {switch: number for number, group in enumerate(groups) for switch in group}
    names = [graph.name(by_name(graph, group)[0]) for group in groups]
    between: Counter[tuple[int, int]] = Counter()
    for a, b, n in network.pairs:
        if a in of and b in of and of[a] != of[b]:
            low, high = sorted((of[a], of[b]))
            between[low, high] += n
    every = [(i, j) for i in range(len(groups)) for j in range(i + 1, len(groups))]
    if every:
        usual, count = Counter(between[pair] for pair in every).most_common(1)[0]
        short = [pair for pair in every if between[pair] < usual]
        # more than a pair for each group is the design: ports that cannot be divided evenly among the other groups
        for i, j in short if count >= MOST * len(every) and len(short) <= len(groups) else ():
            yield Finding(
                "lost_global_links", (names[i], names[j]),
                f"the groups of {names[i]} and {names[j]} are joined by {between[i, j]} links, most by {usual}",
            )  # fmt: skip
    apart: list[str] = []
    for group in groups:
        pairs = [
            (a, b) for at, a in enumerate(group) for b in group[at + 1 :]
            if not plus or network.level[a] != network.level[b]
        ]  # fmt: skip
        missing = [f"{graph.name(a)} - {graph.name(b)}" for a, b in pairs if b not in network.joined[a]]
        if len(missing) <= (1.0 - MOST) * len(pairs):  # else it is no group: two that many cables join
            apart += missing
    if apart:
        yield Finding(
            "lost_local_link", tuple(sorted(apart, key=natural)),
            f"{len(apart)} pairs of switches of one group are not connected, all other pairs are",
        )  # fmt: skip


def _missing_neighbours(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    if shape.kind == "mesh":
        return
    usual = Counter(len(around) for around in network.joined.values()).most_common(1)[0][0]
    short = by_name(graph, (s for s, around in network.joined.items() if len(around) < usual))
    if short:
        example = f"{graph.name(short[0])} has {len(network.joined[short[0]])} of {usual}"
        yield Finding(
            "missing_neighbour", tuple(map(graph.name, short)),
            f"{len(short)} of {len(network.switches)} switches lack a neighbour, e.g. {example}",
        )  # fmt: skip


def _thin_trunks(graph: Graph, network: Network, shape: Shape) -> Iterator[Finding]:
    if not network.counted or not network.pairs:
        return
    usual, count = Counter(n for _, _, n in network.pairs).most_common(1)[0]
    thin = [(a, b, n) for a, b, n in network.pairs if n < usual]
    if thin and count >= MOST * len(network.pairs):
        yield Finding(
            "thin_trunk", tuple(sorted((f"{graph.name(a)} - {graph.name(b)}" for a, b, _ in thin), key=natural)),
            f"{len(thin)} of {len(network.pairs)} neighbours are joined by fewer than the {usual} cables of the rest",
        )  # fmt: skip


Check = Callable[[Graph, Network, Shape], Iterable[Finding]]

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "fat-tree": (_cross_links, _uneven_uplinks, _uneven_planes),
    "rail-optimised": (_missing_rails, _twice_on_leaf, _lost_legs, _cross_links, _uneven_uplinks, _uneven_planes),
    "rail-only": (_missing_rails, _uneven_planes),
    "dragonfly": (_groups_uneven,),
    "dragonfly+": (_groups_uneven,),
    "torus": (_missing_neighbours, _thin_trunks),
    "ring": (_missing_neighbours, _thin_trunks),
    "mesh": (_thin_trunks,),
}


def _nvlinks(graph: Graph) -> Iterator[Finding]:
    """GPUs with fewer NVLinks than most, and domains with fewer GPUs than most."""
    found = nvlink.domains(graph)
    counts = {gpu: reached.total() for domain in found for gpu, reached in domain.links.items()}
    if not counts:
        return
    usual = Counter(counts.values()).most_common(1)[0][0]
    short = by_name(graph, (gpu for gpu, count in counts.items() if count < usual))
    if short:
        yield Finding(
            "missing_nvlink", tuple(map(graph.name, short)),
            f"{len(short)} of {len(counts)} GPUs have fewer than {usual} NVLinks, e.g. {graph.name(short[0])} "
            f"with {counts[short[0]]}",
        )  # fmt: skip
    sizes = Counter(len(domain.links) for domain in found)
    for domain in found:
        if len(domain.links) < (most := sizes.most_common(1)[0][0]):
            chips = sorted(map(graph.name, domain.chips), key=natural)
            why = f"the domain of {chips[0]} has {len(domain.links)} GPUs, most have {most}"
            yield Finding("small_nvlink_domain", (chips[0],), why)


def _domain_sizes(graph: Graph) -> Iterator[Finding]:
    """NVLink domains, by the labels of hosts, that lack hosts."""
    for label in ("nvlink", "nmx_domain"):
        sizes = Counter(labels[label] for labels in graph.hosts.values() if label in labels)
        if len(sizes) < 2:
            continue
        usual, count = Counter(sizes.values()).most_common(1)[0]
        for domain, size in sorted(sizes.items(), key=lambda item: natural(item[0])):
            if size < usual and 2 * count > len(sizes):
                yield Finding(
                    "small_nvlink_domain", (domain,), f"{domain} has {size} hosts, most NVLink domains have {usual}"
                )


def _blocks(graph: Graph) -> Iterator[Finding]:
    stated = graph.stated.get("block_sizes", "").split(",")[0]
    if not stated.isdecimal():
        return
    sizes = Counter(labels["block"] for labels in graph.hosts.values() if "block" in labels)
    small = sorted((block for block, size in sizes.items() if size < int(stated)), key=natural)
    if small:
        words = ", ".join(f"{block} {sizes[block]}" for block in small[:8])
        yield Finding(
            "small_block", tuple(small), f"{len(small)} blocks have fewer hosts than the block size {stated}: {words}"
        )


def _stated(graph: Graph, shapes: Sequence[Shape]) -> Iterator[Finding]:
    """The shape that a source states against that of the cables."""
    kind, _, sizes = graph.stated.get("shape", "").rpartition(" ")
    if not kind or not graph.cables or not shapes:
        return
    wanted = sorted((int(size) for size in sizes.split("x") if size.isdecimal() and size != "1"), reverse=True)
    found = shapes[0]
    if found.kind != kind or found.details.get("sizes") != "x".join(map(str, wanted)):
        yield Finding(
            "unlike_stated", (graph.stated["shape"],),
            f"a source states {graph.stated['shape']}; the cables form {found.name} ({found.confidence:.0%})",
        )  # fmt: skip
