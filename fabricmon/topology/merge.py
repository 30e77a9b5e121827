"""Merges several sources of one fabric, with the origin of each node and cable and the contradictions. Pure.

Live sources weigh most, then the operator's plan, then a scheduler's or cloud's placement; of two of one role the newer
(docs/methods.md#wrong-topology). What contradicts a source that weighs more becomes a finding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime

from msgspec.structs import replace

from fabricmon.forms.natural import natural
from fabricmon.topology import compare
from fabricmon.topology.connect import reached
from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Origin, Role, Switch, cable, trunk
from fabricmon.topology.identity import KnownNodes, switch_key

LEAF_SHARE = 0.5
"""A leaf is one of a placement's group when at least half of the group's hosts are on it."""
GROUP_LEAST = 3
"""Hosts of a group whose leaves must be known before one of them can be misplaced."""


def merge(graphs: Sequence[Graph]) -> Graph:
    """One graph of all, with the ids of the source that weighs most and the findings of all sources.

    A single graph is returned unchanged. `origins` are ordered by weight and the label "sources" counts in that order.
    """
    if len(graphs) == 1:
        return graphs[0]
    ordered = sorted(graphs, key=lambda graph: (_role(graph).rank, -(_taken(graph) or 0.0)))
    merged = _Merge()
    for number, graph in enumerate(ordered):
        merged.add(graph, str(number))
    return merged.graph(ordered)


def describe(graph: Graph) -> str:
    """Display name of a source: "ibnetdiscover:fabric.txt (2025-08-14)"."""
    taken = _taken(graph)
    day = f" ({datetime.fromtimestamp(taken, UTC):%Y-%m-%d})" if taken is not None else ""
    return f"{graph.source or 'a source without a name'}{day}"


def _role(graph: Graph) -> Role:
    return graph.origins[0].role if graph.origins else Role.LIVE


def _taken(graph: Graph) -> float | None:
    return graph.origins[0].taken if graph.origins else None


def _union(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    return {**second, **first}


def _also(labels: Mapping[str, str], number: str) -> dict[str, str]:
    before = labels.get("sources")
    return {**labels, "sources": f"{before},{number}" if before else number}


class _Merge:
    """Sources are added in the order of their weight."""

    def __init__(self) -> None:
        self._nodes_known = KnownNodes()
        self._switches: dict[str, Switch] = {}
        self._adapters: dict[str, Adapter] = {}
        self._hosts: dict[str, dict[str, str]] = {}
        self._cables: dict[tuple[End, End], Cable] = {}
        self._at: dict[End, Cable] = {}
        self._live: list[Cable] = []
        self._known: set[str] = set()  # nodes of live sources
        self._seen: set[str] = set()  # those of which they show every cable
        self._asked: set[str] = set()  # hosts that reported their own cables
        self._attached: dict[str, tuple[str, ...]] = {}
        self._trunks: dict[tuple[str, str], None] = {}
        self._aggregation: dict[str, str] = {}
        self._stated: dict[str, str] = {}
        self._findings: list[Finding] = []

    def add(self, graph: Graph, number: str) -> None:
        role = _role(graph)
        nodes = self._nodes(graph, number, role)
        self._places(graph)
        for aggregation, switch in graph.aggregation.items():
            self._aggregation.setdefault(aggregation, nodes.get(switch, switch))
        for key, value in graph.stated.items():
            if key != "view" and self._stated.setdefault(key, value) != value:
                self._contradict(graph, key, [f"{key}: {value}"], f"{self._stated[key]} before")
        cables = [_renamed(link, nodes) for link in graph.cables]
        if role is Role.LIVE:
            self._live_cables(graph, cables, number)
            self._known |= {nodes[key] for key in (*graph.switches, *graph.adapters)}
            if graph.stated.get("view") == "hosts":
                self._asked |= {self._nodes_known.host(host) for host in graph.hosts}
            else:
                self._seen |= {nodes[key] for key in (*graph.switches, *graph.adapters)}
        elif cables:
            self._planned_cables(graph, cables, number)
        if graph.attached or graph.trunks:
            self._placement(graph, nodes, number)
        self._findings += graph.findings

    def graph(self, ordered: Sequence[Graph]) -> Graph:
        hosts = {adapter.host for adapter in self._adapters.values() if adapter.host}
        origins: tuple[Origin, ...] = tuple(origin for graph in ordered for origin in graph.origins)
        return Graph(
            self._switches, self._adapters, tuple(self._cables.values()),
            {**{host: {} for host in sorted(hosts)}, **self._hosts}, " + ".join(graph.source for graph in ordered),
            tuple(dict.fromkeys(self._findings)), self._aggregation, self._attached, tuple(self._trunks), origins,
            self._stated,
        )  # fmt: skip

    # nodes

    def _nodes(self, graph: Graph, number: str, role: Role) -> dict[str, str]:
        """Add a source's nodes; returns its ids -> ours."""
        twice = Counter(switch_key(switch.name) for switch in graph.switches.values())
        nodes: dict[str, str] = {}
        for key, switch in graph.switches.items():
            nodes[key] = self._switch(graph, key, switch, twice[switch_key(switch.name)] > 1, number, role)
        for key, adapter in graph.adapters.items():
            nodes[key] = self._adapter(key, adapter, number)
        self._nodes_known.add(
            [self._switches[n] for n in nodes.values() if n in self._switches],
            [self._adapters[n] for n in nodes.values() if n in self._adapters],
            [*graph.hosts, *graph.attached],
        )
        return nodes

    def _switch(self, graph: Graph, key: str, switch: Switch, twice: bool, number: str, role: Role) -> str:
        """Our id of a switch. `twice`: the source has another one of that name, so the name identifies neither."""
        placed = role is Role.PLACEMENT
        found = self._nodes_known.switch(switch)
        if found is not None and found != key:
            if twice:
                found = None
            elif _guid(found) and _guid(key):
                if role is Role.LIVE:
                    found = None
                else:
                    self._contradict(graph, "guid", [switch.name], f"{switch.name} has {found}, not {key}: replaced?")
        if found is None:
            if not placed:  # a placement's switches are added with the hosts that need them
                self._switches[key] = replace(switch, labels=_also(switch.labels, number))
            return key
        base = self._switches[found]
        self._switches[found] = replace(
            base, model=base.model or switch.model, ports=base.ports or switch.ports,
            level=switch.level if base.level < 0 and not placed else base.level,
            labels=_also(_union(base.labels, switch.labels), number),
        )  # fmt: skip
        for label in ("unit", "rail", "plane", "rack"):
            if base.labels.get(label, value := switch.labels.get(label, "")) != value and value:
                self._contradict(graph, label, [base.name], f"{base.name} is in {label} {base.labels[label]}")
        return found

    def _adapter(self, key: str, adapter: Adapter, number: str) -> str:
        """Our id of an adapter."""
        found = self._nodes_known.adapter(adapter)
        base = self._adapters.get(found or "")
        if found is None or base is None:
            host = self._nodes_known.host(adapter.host) if adapter.host else ""
            self._adapters[key] = replace(adapter, host=host, labels=_also(adapter.labels, number))
            return found or key
        self._adapters[found] = replace(
            base, host=base.host or adapter.host, name=base.name or adapter.name, ports=max(base.ports, adapter.ports),
            labels=_also(_union(base.labels, adapter.labels), number),
        )  # fmt: skip
        return found

    def _places(self, graph: Graph) -> None:
        clashes: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for name, labels in graph.hosts.items():
            host = self._nodes_known.host(name)
            known = self._hosts.setdefault(host, {})
            for label, value in labels.items():
                if known.setdefault(label, value) != value:
                    clashes[label].append((host, known[label], value))
        for label, found in clashes.items():
            host, before, after = found[0]
            self._contradict(graph, label, [host for host, _, _ in found], f"{host} is in {before}, not in {after}")

    def _contradict(self, graph: Graph, what: str, components: Iterable[str], why: str) -> None:
        named = tuple(sorted(components, key=natural))
        text = f"{describe(graph)} contradicts a source that weighs more on {what} of {len(named)}: {why}"
        self._findings.append(Finding("contradiction", named, text))

    # cables

    def _live_cables(self, graph: Graph, cables: Iterable[Cable], number: str) -> None:
        title = replace(graph, switches=self._switches, adapters=self._adapters).title
        lost = [title(link) for link in cables if not self._put(link, number)]
        if lost:
            self._contradict(graph, "cables", lost, "in the newer source their ends are plugged in elsewhere")
        self._live = list(self._cables.values())

    def _planned_cables(self, graph: Graph, cables: Sequence[Cable], number: str) -> None:
        known = replace(graph, switches=self._switches, adapters=self._adapters)
        if self._known and _role(graph) is Role.PLAN:
            seen = self._seen | {key for key, adapter in self._adapters.items() if adapter.host in self._asked}
            found = compare.compare(cables, self._live, seen, self._known | seen, self._switches)
            self._findings += compare.findings(found, known, str(graph.origins[0]) if graph.origins else "the plan")
        lost = []
        live = {(link.a, link.b) for link in self._live}
        for link in cables:
            other = [at for end in (link.a, link.b) if (at := self._at.get(end)) and (at.a, at.b) != (link.a, link.b)]
            if not self._put(link, number) and not any((at.a, at.b) in live for at in other):
                lost.append(known.title(link))
        if lost:
            self._contradict(graph, "cables", lost, "their ends are planned to be plugged in elsewhere")

    def _put(self, link: Cable, number: str) -> bool:
        """Add a cable or one more source of it; False where an end is in use by another cable."""
        before = self._cables.get((link.a, link.b))
        if before is not None:
            link = replace(
                before, rate=before.rate or link.rate, width=before.width or link.width, most=before.most or link.most,
                labels=_also(_union(before.labels, link.labels), number),
            )  # fmt: skip
        elif link.a in self._at or link.b in self._at:
            return False
        else:
            link = replace(link, labels=_also(link.labels, number))
        self._cables[link.a, link.b] = self._at[link.a] = self._at[link.b] = link
        return True

    # places without ports

    def _placement(self, graph: Graph, nodes: Mapping[str, str], number: str) -> None:
        leaves = {host: set(below) for host, below in self._attached.items()} | self._leaves()
        groups: dict[str, list[str]] = defaultdict(list)
        for name, switches in graph.attached.items():
            for switch in switches:
                groups[switch].append(self._nodes_known.host(name))
        self._findings += _misplaced(groups, nodes, leaves, self._switches, describe(graph))
        bare = {host for hosts in groups.values() for host in hosts if host not in leaves}
        for key in _needed(graph, groups, bare):
            if nodes[key] not in self._switches:
                self._switches[key] = replace(graph.switches[key], labels=_also(graph.switches[key].labels, number))
        for name, switches in graph.attached.items():
            host = self._nodes_known.host(name)
            if host in bare:
                self._attached[host] = tuple(nodes[switch] for switch in switches)
            self._hosts.setdefault(host, {})
        self._join_trunks(graph, nodes)

    def _join_trunks(self, graph: Graph, nodes: Mapping[str, str]) -> None:
        """Add the pairs of switches that a placement joins, except where cables contradict."""
        joined = {trunk(link.a.node, link.b.node) for link in self._cables.values()}
        cabled = {node for pair in joined for node in pair}
        absent = []
        for pair in graph.trunks:
            one, other = (nodes[key] for key in pair)
            if one not in self._switches or other not in self._switches or trunk(one, other) in joined:
                continue
            if one in cabled and other in cabled:
                absent.append(f"{self._switches[one].name} - {self._switches[other].name}")
            else:
                self._trunks[trunk(one, other)] = None
        if absent:
            self._contradict(graph, "neighbours", absent, "no cable joins them")

    def _leaves(self) -> dict[str, set[str]]:
        """Host -> switches that its adapters are plugged into."""
        found: dict[str, set[str]] = defaultdict(set)
        for link in self._cables.values():
            for near, far in ((link.a, link.b), (link.b, link.a)):
                adapter = self._adapters.get(near.node)
                if adapter is not None and adapter.host and far.node in self._switches:
                    found[adapter.host].add(far.node)
        return found


def _needed(graph: Graph, groups: Mapping[str, Sequence[str]], bare: Set[str]) -> list[str]:
    """Switches of a placement that hosts without a known leaf need, and those above them; all where it has no hosts."""
    inner = dict.fromkeys(key for key in graph.switches if key not in groups)
    if not groups:
        return list(inner)
    above: dict[str, list[str]] = defaultdict(list)
    for one, other in graph.trunks:
        for near, far in ((one, other), (other, one)):
            if far in inner:
                above[near].append(far)
    return reached(above, (switch for switch, hosts in groups.items() if not bare.isdisjoint(hosts)))


def _guid(node: str) -> bool:
    return node.startswith("0x")


def _renamed(link: Cable, nodes: Mapping[str, str]) -> Cable:
    a, b = (End(nodes.get(end.node, end.node), end.port) for end in (link.a, link.b))
    return link if (a, b) == (link.a, link.b) else cable(a, b, link.rate, link.width, link.labels, link.most)


def _misplaced(
    groups: Mapping[str, Sequence[str]], nodes: Mapping[str, str], leaves: Mapping[str, set[str]],
    switches: Mapping[str, Switch], source: str,
) -> Iterator[Finding]:
    """Hosts in a placement's group of which most are on other leaves, by cables or by a source that weighs more."""
    settled = {leaf for found in leaves.values() for leaf in found}
    for group, hosts in sorted(groups.items(), key=lambda item: natural(item[0])):
        known = [host for host in hosts if host in leaves]
        if nodes[group] in settled:
            of = {nodes[group]}
        elif len(known) >= GROUP_LEAST:
            votes = Counter(leaf for host in known for leaf in leaves[host])
            of = {leaf for leaf, count in votes.items() if count >= LEAF_SHARE * len(known)}
        else:
            continue
        odd = sorted((host for host in known if not leaves[host] & of), key=natural)
        if odd and of:
            there = ", ".join(sorted({switches[leaf].name for host in odd for leaf in leaves[host]}, key=natural)[:4])
            yield Finding(
                "misplaced_host", tuple(odd),
                f"{source} groups {len(odd)} of {len(hosts)} hosts of {group} with hosts of other leaves; "
                f"by sources that weigh more they are on {there}",
            )  # fmt: skip
