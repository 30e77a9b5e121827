"""Records of a plan that are exchanged: each of two adapters is where the neighbours of the other one leave a place
(docs/topology.md#exchanged-records). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from fabricmon.forms.natural import natural
from fabricmon.topology.graph import Cable, End, Finding, Graph, Role, cable, once
from fabricmon.topology.identity import short
from fabricmon.topology.infer import rail_index

PASSES = 4
"""Times that all are looked at: what two exchanged records hide shows when these are right."""
REGULAR = 0.5
"""Share of the hosts of a row that must follow each other (design choice)."""
KIND = "exchanged_records"
SWAPPED = "swapped_rails"
"""What two exchanged records of a host were found as before they were put right: one thing, one finding."""


@dataclass(slots=True)
class _RecordedPort:
    """A port of an adapter. number: of its cable; end: its own; far: the port of the switch by the record; at: its
    position in its row, whose hosts are in the order of their names."""

    number: int
    end: End
    far: End
    row: _RowOfPorts
    at: int = -1


@dataclass(slots=True)
class _RowOfPorts:
    """The same port of all hosts. step: usual distance of two neighbours on a switch, 0 none; edges: first and last
    port of each switch, of those at that distance, usual: as of most of them; next: switch after each, by all rows."""

    ports: list[_RecordedPort] = field(default_factory=list)
    step: int = 0
    edges: dict[str, tuple[int, int]] = field(default_factory=dict)
    usual: tuple[int, int] = (-1, -1)
    next: dict[str, str] = field(default_factory=dict)

    def follows(self, one: End, other: End) -> bool:
        """Whether a host on `other` follows one on `one`: on the same switch a step on, or on the next one, first."""
        if one.node == other.node:
            return other.port - one.port == self.step
        return self.next.get(one.node) == other.node and self.goes_over(one, other)

    def goes_over(self, one: End, other: End) -> bool:
        """Whether one is the last port of its switch and the other one the first of its."""
        mine, others = (self.edges.get(end.node, self.usual) for end in (one, other))
        ends = (mine[1], others[0]) if self.step > 0 else (mine[0], others[1])
        return one.node != other.node and (one.port, other.port) == ends

    @property
    def regular(self) -> bool:
        """Whether most hosts follow each other: else their names are not in the order of the ports."""
        return sum(self.follows(*pair) for pair in self.pairs()) >= REGULAR * (len(self.ports) - 1) > 0

    def pairs(self) -> Iterator[tuple[End, End]]:
        return ((one.far, other.far) for one, other in pairwise(self.ports))


@once
def put_right(graph: Graph) -> Graph:
    """The graph with exchanged records changed back, and a finding about each pair; itself where a source saw cables on
    the wire, as then none is filed at the wrong place, or where no two are exchanged."""
    if any(origin.role is Role.LIVE for origin in graph.origins):
        return graph
    rows = _rows(graph)
    holder = {port.far: port for row in rows for port in row.ports}
    pairs: list[tuple[_RecordedPort, _RecordedPort]] = []
    for _ in range(PASSES):
        before = len(pairs)
        for port in [port for row in rows for port in row.ports if not _fits(port, {})]:
            other = next((other for other in _others(port, holder) if _are_exchanged(port, other)), None)
            if other is not None:
                port.far, other.far = other.far, port.far
                holder[port.far], holder[other.far] = port, other
                pairs.append((port, other))
        if len(pairs) == before:
            break
    return _with(graph, pairs) if pairs else graph


def _rows(graph: Graph) -> list[_RowOfPorts]:
    rows: dict[tuple[int, int], _RowOfPorts] = defaultdict(_RowOfPorts)
    for number, link in enumerate(graph.cables):
        for near, far in ((link.a, link.b), (link.b, link.a)):
            adapter = graph.adapters.get(near.node)
            index = rail_index(adapter.name) if adapter is not None and adapter.host else None
            if index is not None and far.node in graph.switches:
                row = rows[index, near.port]
                row.ports.append(_RecordedPort(number, near, far, row))
    orders = {adapter.id: natural(short(adapter.host)) for adapter in graph.adapters.values() if adapter.host}
    for row in rows.values():
        row.ports.sort(key=lambda port: orders[port.end.node])
        for at, port in enumerate(row.ports):
            port.at = at
        steps = Counter(other.port - one.port for one, other in row.pairs() if one.node == other.node)
        row.step = steps.most_common(1)[0][0] if steps else 0
        sockets: dict[str, list[int]] = defaultdict(list)
        for one, other in row.pairs():
            if one.node == other.node and other.port - one.port == row.step:
                sockets[one.node] += [one.port, other.port]
        row.edges = {node: (min(ports), max(ports)) for node, ports in sockets.items()}
        row.usual = Counter(row.edges.values()).most_common(1)[0][0] if row.edges else row.usual
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows.values():
        for one, other in row.pairs():
            if row.goes_over(one, other):
                votes[one.node][other.node] += 1
    following = {node: found.most_common(1)[0][0] for node, found in votes.items()}
    for row in rows.values():
        row.next = following
    return [row for row in rows.values() if row.regular]


def _fits(port: _RecordedPort, moved: dict[int, End]) -> int:
    """How many of the neighbours of a port follow it or are followed by it. moved: by the number of the cable, where a
    port is instead of by its record."""
    row, mine, found = port.row, moved.get(port.number, port.far), 0
    for at in (port.at - 1, port.at + 1):
        if 0 <= at < len(row.ports):
            near = row.ports[at]
            there = moved.get(near.number, near.far)
            found += row.follows(there, mine) if at < port.at else row.follows(mine, there)
    return found


def _others(port: _RecordedPort, holder: dict[End, _RecordedPort]) -> Iterator[_RecordedPort]:
    """The ports that are by their records where the neighbours of a port leave a place."""
    row = port.row
    for at, step in ((port.at - 1, row.step), (port.at + 1, -row.step)):
        if 0 <= at < len(row.ports):
            near = row.ports[at].far
            other = holder.get(End(near.node, near.port + step))
            if other is not None and other is not port:
                yield other


def _are_exchanged(one: _RecordedPort, other: _RecordedPort) -> bool:
    """Whether none of their neighbours fits them where they are, and all but one do where the other one is."""
    if _fits(one, {}) or _fits(other, {}):
        return False
    moved = {one.number: other.far, other.number: one.far}
    fit = [_fits(port, moved) for port in (one, other)]
    near = sum((port.at > 0) + (port.at < len(port.row.ports) - 1) for port in (one, other))
    return min(fit) > 0 and sum(fit) >= max(3, near - 1)


def _with(graph: Graph, pairs: Sequence[tuple[_RecordedPort, _RecordedPort]]) -> Graph:
    cables: list[Cable] = list(graph.cables)
    found: list[Finding] = []
    for one, other in pairs:
        for port in (one, other):
            old = graph.cables[port.number]
            cables[port.number] = cable(port.end, port.far, old.rate, old.width, old.labels, old.most)
        first, second = sorted((one, other), key=lambda port: natural(graph.describe(port.end)))
        names = [graph.describe(port.end) for port in (first, second)]
        places = [graph.describe(port.far) for port in (first, second)]
        ids = graph.name(first.end.node), graph.name(second.end.node)
        found.append(Finding(
            KIND, ids,
            f"by the hosts beside them {names[0]} is on {places[0]} and {names[1]} on {places[1]}; the file has them "
            "the other way round, and was not followed",
        ))  # fmt: skip
    named = {finding.components for finding in found}
    left = [finding for finding in graph.findings if finding.kind != SWAPPED or finding.components not in named]
    return msgspec.structs.replace(graph, cables=tuple(cables), findings=(*left, *found))
