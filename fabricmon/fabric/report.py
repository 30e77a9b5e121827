"""Report of one sweep: nodes, links, ports. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from fabricmon.catalogue import counter_at
from fabricmon.catalogue.counter import Category
from fabricmon.catalogue.port import PHYS_STATES, PORT_STATES
from fabricmon.fabric import mad
from fabricmon.fabric.names import COLUMN, NAMES, STATES
from fabricmon.fabric.subnet import LINK_UP, At, FabricNode, Subnet, graph_of, guid_text
from fabricmon.fabric.sweep import Floats, Values
from fabricmon.forms.natural import natural
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import End, Finding, Graph
from fabricmon.topology.missing import missing_switches
from fabricmon.topology.names import NodeNames
from fabricmon.topology.peers import peer_sets

COUNTERS: tuple[tuple[str, str, float, Category], ...] = tuple(
    (name, counter.name, counter.scale, counter.category)
    for name in NAMES
    if name not in STATES and (counter := counter_at("counters", name) or counter_at("mad", name)) is not None
)
"""(name in a sweep, column, scale, category) of every counter."""
SYMPTOMS = frozenset({Category.ERROR, Category.CONFIGURATION, Category.CONGESTION, Category.MANAGEMENT})


class LinkEnd(Struct, frozen=True):
    """One end of a link."""

    guid: str
    node: str
    port: int


class NodeReport(Struct, frozen=True):
    """kind: "switch", "adapter" or "router"; level of a switch: 0 carries adapters, -1 unknown."""

    guid: str
    name: str
    kind: str
    description: str
    ports: int
    lid: int
    level: int | None
    answers: bool


class LinkReport(Struct, frozen=True):
    """tier: "adapter-0", "0-1", ...; rate in bytes per second and width in lanes, None while down or not answered."""

    a: LinkEnd
    b: LinkEnd
    tier: str
    state: str
    rate: float | None
    width: int | None


class PortReport(Struct, frozen=True):
    """One port of the sweep.

    remote    the far end, "" where it is not known (nothing plugged in, link down, no answer)
    counters  catalogue column -> value in its unit; None where the port did not report it
    """

    guid: str
    node: str
    port: int
    state: str
    phys_state: str
    rate: float | None
    width: int | None
    speed: str
    remote: str
    counters: dict[str, float | None]
    errors: dict[str, float]


class SweepReport(Struct, frozen=True):
    """Times are seconds, `datagrams` those of the sweep.

    silent  nodes that did not answer the sweep
    mute    ports with their link up whose far end did not answer the walk
    lost    ports whose link is down and was up, or is up on their sisters: one finding a port, or a dead switch
    whole   every node answered, and no deadline passed
    """

    origin: str
    nodes: tuple[NodeReport, ...]
    links: tuple[LinkReport, ...]
    ports: tuple[PortReport, ...]
    findings: tuple[Finding, ...]
    silent: tuple[str, ...]
    mute: tuple[str, ...]
    lost: tuple[Finding, ...]
    datagrams: int
    walked_in: float
    swept_in: float
    whole: bool


def report(
    subnet: Subnet, ports: Sequence[At], values: Values, names: NodeNames | None, walked: float, swept: float
) -> SweepReport:
    """The report of a sweep; `ports[row]` is the port of row `row` of its cells."""
    graph = findings.check(infer.annotate(graph_of(subnet, names)))
    name = {guid: graph.name(guid_text(guid)) for guid in subnet.nodes}
    found = {at: _port(at, subnet, values.cells[row], name) for row, at in enumerate(ports)}
    tiers = {link.a: infer.tier(graph, link) for link in graph.cables}
    links = []
    for at, port in found.items():
        far = _far(subnet, at)
        if far is None:
            continue
        near, other = End(guid_text(at.node), at.port), End(guid_text(far.node), far.port)
        if near <= other:
            tier = tiers.get(near) or tiers.get(other) or "aggregation"
            a, b = LinkEnd(near.node, name[at.node], at.port), LinkEnd(other.node, name[far.node], far.port)
            links.append(LinkReport(a, b, tier, port.state, port.rate, port.width))
    return SweepReport(
        f"{name.get(subnet.origin.node, '?')}/{subnet.origin.port}",
        tuple(_node(node, graph, name[node.guid], node.guid not in values.silent) for node in subnet.nodes.values()),
        tuple(links), tuple(found.values()), graph.findings,
        tuple(sorted(name[guid] for guid in values.silent)),
        tuple(sorted((f"{name[at.node]}/{at.port}" for at in subnet.mute), key=natural)),
        tuple(lost_ports(graph, list(found.values()))), values.sent, walked, swept,
        subnet.whole and not (subnet.cut or values.cut or values.silent),
    )  # fmt: skip


def _node(node: FabricNode, graph: Graph, name: str, answers: bool) -> NodeReport:
    guid = guid_text(node.guid)
    kind = {mad.SWITCH: "switch", mad.ROUTER: "router"}.get(node.kind, "adapter")
    lid = node.lid if node.is_switch else node.lid_of(next(iter(node.ports), 0))
    level = graph.switches[guid].level if guid in graph.switches else None
    return NodeReport(guid, name, kind, node.description, node.size, lid, level, answers)


def _port(at: At, subnet: Subnet, cells: Floats, name: Mapping[int, str]) -> PortReport:
    """`cells`: the port's row of the sweep."""
    rate, lanes = _known(cells[COLUMN["rate"]]), _known(cells[COLUMN["width"]])
    width = int(lanes) if lanes is not None else None
    counters = {column: _known(cells[COLUMN[of]] * scale) for of, column, scale, _ in COUNTERS}
    errors = {
        column: value for _, column, _, category in COUNTERS
        if category in SYMPTOMS and column != "xmit_wait_ticks" and (value := counters[column])
    }  # fmt: skip
    far = _far(subnet, at)
    return PortReport(
        guid_text(at.node), name[at.node], at.port, _word(cells[COLUMN["state"]], PORT_STATES),
        _word(cells[COLUMN["phys_state"]], PHYS_STATES), rate, width,
        mad.SPEED_WORDS.get(round(rate * 8 / 1e9 / width, 4), "") if rate and width else "",
        f"{name[far.node]}/{far.port}" if far is not None else "", counters, errors,
    )  # fmt: skip


def _far(subnet: Subnet, at: At) -> At | None:
    return subnet.nodes[at.node].ports[at.port].far


PEERS_LEAST = 4
SISTERS = 0.8
"""An uplink is expected on a port when it is one on this share of its switch's peers, PEERS_LEAST or more."""


def lost_ports(graph: Graph, ports: Sequence[PortReport]) -> Iterator[Finding]:
    """Ports of switches that are down and were up since their counters were reset, or are uplinks of their sisters;
    those below one dead switch are one line."""
    compared = peer_sets(graph)
    peers_of = {switch: at for at, switches in enumerate(compared) for switch in switches}
    uplinks: Counter[tuple[int, int]] = Counter()
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            one, other = graph.switches.get(near.node), graph.switches.get(far.node)
            if one is not None and other is not None and one.level < other.level and one.id in peers_of:
                uplinks[peers_of[one.id], near.port] += 1
    lost: dict[str, list[tuple[PortReport, str]]] = defaultdict(list)
    for port in ports:
        switch = graph.switches.get(port.guid)
        if switch is None or switch.labels.get("apart") or port.phys_state in (PHYS_STATES[LINK_UP], "unknown"):
            continue
        downs, at = port.counters.get("link_downed"), peers_of.get(port.guid, -1)
        sisters, peers = uplinks[at, port.port], len(compared[at]) if at >= 0 else 0
        if downs:
            lost[port.guid].append((port, f"went down {downs:g} times"))
        elif peers >= PEERS_LEAST and sisters >= SISTERS * peers:
            lost[port.guid].append((port, f"an uplink on {sisters} of its {peers} peers"))
    for dead in missing_switches(graph, lost):
        shared = Counter(port.port for guid in dead.below for port, _ in lost[guid])
        below = []
        for guid in dead.below:  # one that lost several: the port that most of the others lost
            chosen = max(lost[guid], key=lambda found: shared[found[0].port])
            lost[guid].remove(chosen)
            below.append(chosen[0])
        yield findings.missing_switch(graph, dead, [f"{port.node}/{port.port}" for port in below])
    for found in lost.values():
        for port, why in found:
            yield Finding("port_down", (f"{port.node}/{port.port}",), f"{port.state}, {why}")


def _word(value: float, words: Mapping[int, str]) -> str:
    return "unknown" if math.isnan(value) else words.get(int(value), str(int(value)))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
