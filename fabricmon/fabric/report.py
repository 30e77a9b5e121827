"""What one sweep found, as data for a person or a program: nodes, links, ports. Pure but for what it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from fabricmon.catalogue import counter_at
from fabricmon.catalogue.counter import Category
from fabricmon.fabric import mad
from fabricmon.fabric.names import COLUMN, NAMES, STATES
from fabricmon.fabric.subnet import At, Subnet, graph_of, guid_text
from fabricmon.fabric.sweep import Values
from fabricmon.topology import findings, infer
from fabricmon.topology.names import NodeNames

COUNTERS: tuple[tuple[str, str, float, Category], ...] = tuple(
    (name, counter.name, counter.scale, counter.category)
    for name in NAMES
    if name not in STATES and (counter := counter_at("counters", name) or counter_at("mad", name)) is not None
)
"""(name in a sweep, column, scale, category) of every counter."""
SYMPTOMS = frozenset({Category.ERROR, Category.CONFIGURATION, Category.CONGESTION})


class End(Struct, frozen=True):
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

    a: End
    b: End
    tier: str
    state: str
    rate: float | None
    width: int | None


class PortReport(Struct, frozen=True):
    """counters: catalogue column -> value in its unit; None where the port did not tell."""

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


class Report(Struct, frozen=True):
    """Times are seconds, `datagrams` those of the sweep. `silent`: nodes that did not answer it."""

    origin: str
    nodes: tuple[NodeReport, ...]
    links: tuple[LinkReport, ...]
    ports: tuple[PortReport, ...]
    findings: tuple[str, ...]
    silent: tuple[str, ...]
    datagrams: int
    walked_in: float
    swept_in: float
    whole: bool


def report(
    subnet: Subnet, ports: Sequence[At], values: Values, names: NodeNames | None, walked: float, swept: float
) -> Report:
    """`ports[row]` is the port of row `row` of the sweep's cells."""
    from fabricmon.catalogue.port import PHYS_STATES, PORT_STATES

    graph = findings.check(infer.annotate(graph_of(subnet, names)))
    name = {guid: graph.name(guid_text(guid)) for guid in subnet.nodes}
    row_of = {at: row for row, at in enumerate(ports)}
    cells = values.cells

    def word(at: At, column: str, words: Mapping[int, str]) -> str:
        value = cells[row_of[at], COLUMN[column]]
        return "unknown" if math.isnan(value) else words.get(int(value), str(int(value)))

    def end(at: At) -> End:
        return End(guid_text(at.node), name[at.node], at.port)

    nodes = tuple(
        NodeReport(
            guid_text(node.guid), name[node.guid],
            {mad.SWITCH: "switch", mad.ROUTER: "router"}.get(node.kind, "adapter"), node.description, node.size,
            node.lid_of(next(iter(node.ports), 0)) if not node.is_switch else node.lid,
            graph.switches[guid_text(node.guid)].level if guid_text(node.guid) in graph.switches else None,
            node.guid not in values.silent,
        )
        for node in subnet.nodes.values()
    )  # fmt: skip
    links: list[LinkReport] = []
    told: list[PortReport] = []
    tiers = {(link.a.node, link.a.port): infer.tier(graph, link) for link in graph.cables}
    for row, at in enumerate(ports):
        far = subnet.nodes[at.node].ports[at.port].far
        assert far is not None
        rate, width = _known(cells[row, COLUMN["rate"]]), _known(cells[row, COLUMN["width"]])
        lanes = int(width) if width is not None else None
        speed = mad.SPEED_WORDS.get(round(rate * 8 / 1e9 / lanes, 4), "") if rate and lanes else ""
        state = word(at, "state", PORT_STATES)
        counted = {
            column: _known(cells[row, COLUMN[of]] * scale) for of, column, scale, _ in COUNTERS
        }
        errors = {
            column: value for _, column, _, category in COUNTERS
            if category in SYMPTOMS and column != "xmit_wait_ticks" and (value := counted[column])
        }  # fmt: skip
        told.append(PortReport(
            guid_text(at.node), name[at.node], at.port, state, word(at, "phys_state", PHYS_STATES), rate, lanes,
            speed, f"{name[far.node]}/{far.port}", counted, errors,
        ))  # fmt: skip
        near, other = (guid_text(at.node), at.port), (guid_text(far.node), far.port)
        if near <= other:
            tier = tiers.get(near) or tiers.get(other) or "aggregation"
            links.append(LinkReport(end(at), end(far), tier, state, rate, lanes))
    return Report(
        f"{name.get(subnet.origin.node, '?')}/{subnet.origin.port}", nodes, tuple(links), tuple(told),
        tuple(f"{finding.kind}: {finding.why}" for finding in graph.findings),
        tuple(sorted(name[guid] for guid in values.silent)), values.sent, walked, swept,
        subnet.whole and not (subnet.cut or values.cut),
    )  # fmt: skip


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
