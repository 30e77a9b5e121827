"""What is around a node, a port, a leaf or a switch: its boxes and lines of the drawing. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fabricmon.central.page.components import PortRow
from fabricmon.central.page.drawing import MAX_LINES, Box, Line, drawing
from fabricmon.central.page.markup import address
from fabricmon.central.page.named import NamedThing
from fabricmon.forms.natural import natural
from fabricmon.model import Incident, NodeView, Presence
from fabricmon.topology.graph import Cable, End, Graph
from fabricmon.topology.infer import by_name


class Trunks:
    """Switch -> the switches it has cables to, and these cables. Made once for a topology."""

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self.joined: dict[str, dict[str, list[Cable]]] = defaultdict(dict)
        if graph is None:
            return
        switches = graph.switches
        for cable in graph.cables:
            one, other = cable.a.node, cable.b.node
            if one in switches and other in switches and one != other:
                both = self.joined[one].setdefault(other, [])
                both.append(cable)
                self.joined[other][one] = both

    def beside(self, switch: str, up: bool) -> list[str]:
        """Its neighbours on the levels above it, or below it, in the order of their names."""
        graph = self.graph
        if graph is None or switch not in graph.switches:
            return []
        level = graph.switches[switch].level
        found = [s for s in self.joined.get(switch, ()) if (graph.switches[s].level > level) is up]
        return by_name(graph, (s for s in found if up or graph.switches[s].level < level))


ReadEnds = Callable[[Iterable[End]], Mapping[End, PortRow]]
"""Ports of switches -> those that a sweep or a switch's exporter reads."""


class Surface:
    """The parts of one drawing.

    bad  name of a switch, leaf, node or port that an open incident names -> its state
    """

    def __init__(self, trunks: Trunks, leaves: Mapping[str, str], bad: Mapping[str, str], read: ReadEnds) -> None:
        self._trunks, self._leaves, self._bad, self._read = trunks, leaves, bad, read
        self.tiers: list[tuple[str, list[Box]]] = []
        self.lines: list[Line] = []
        self._known: set[str] = set()  # switches of which a port is read

    def ports(self, ports: Sequence[PortRow], nodes: Mapping[str, NodeView], by_node: bool) -> None:
        """The lowest tier: one box per node, or one per port of a single node; then their leaves."""
        boxes: dict[str, Box] = {}
        leaves: dict[str, Box] = {}
        for port in ports:
            node, name = port.id.node, port.id.name
            own = f"node {node}" if by_node else f"port {port.id}"
            of_cable = worst([of_port(port), self._bad.get(str(port.id), "none")])
            state = self._of_node(nodes.get(node)) if by_node else of_cable
            where = address("node", name=node) if by_node else address("component", kind="port", node=node, name=name)
            boxes.setdefault(own, Box(own, node if by_node else name, where, self._bad.get(node, state)))
            leaf = port.places.get("leaf", "")
            if leaf:
                leaves.setdefault(leaf, self._leaf(leaf))
                load = max(port.receive, port.transmit) if not math.isnan(port.receive + port.transmit) else math.nan
                self.lines.append(Line(own, leaves[leaf].id, of_cable, load, port_words(port)))
        self.tiers += [("nodes" if by_node else "ports", _ordered(boxes)), ("leaves", _ordered(leaves))]
        self.above([box.id for box in leaves.values()])

    def _leaf(self, name: str) -> Box:
        own, where = self._leaves.get(name) or f"leaf {name}", address("named", kind="leaf", name=name)
        return Box(own, name, where, self._bad.get(name, "none"))

    def _of_node(self, node: NodeView | None) -> str:
        return "ok" if node is not None and node.presence is Presence.LIVE else "unknown"

    def switches(self, ids: Iterable[str], word: str) -> None:
        """A tier of switches."""
        self.tiers.append((word, [self._switch(id) for id in ids]))

    def _switch(self, id: str) -> Box:
        graph = self._trunks.graph
        name = graph.name(id) if graph is not None else id
        return Box(id, name, address("named", kind="switch", name=name), self._bad.get(name, "none"))

    def above(self, low: Sequence[str]) -> None:
        """The tier above these switches, and the cables to it."""
        found, graph = {high for id in low for high in self._trunks.beside(id, up=True)}, self._trunks.graph
        if found and graph is not None:
            self.switches(by_name(graph, found), "above")
            self.join(low, found)

    def join(self, low: Iterable[str], high: Iterable[str]) -> None:
        """Lines between two tiers of switches."""
        tops, graph = set(high), self._trunks.graph
        if graph is None:
            return
        found = [(one, other, cables) for one in low for other, cables in self._trunks.joined.get(one, {}).items()
                 if other in tops][:MAX_LINES]  # fmt: skip
        ends = self._read(end for _, _, cables in found for cable in cables for end in (cable.a, cable.b))
        self._known |= {end.node for end in ends}
        for one, other, cables in found:
            names = f"{graph.name(one)}, {graph.name(other)}"
            self.lines.append(trunk(one, other, names, cables, ends, self._bad))

    def drawn(self, label: str) -> str:
        return drawing([(name, list(map(self._seen, boxes))) for name, boxes in self.tiers], self.lines, label)

    def _seen(self, box: Box) -> Box:
        return replace(box, state="ok") if box.state == "none" and box.id in self._known else box


def trunk(
    one: str, other: str, names: str, cables: Sequence[Cable], read: Mapping[End, PortRow], bad: Mapping[str, str]
) -> Line:
    """The line between two switches: the worst state and the highest load of its cables; "none" where none is read."""
    ports = [[read[end] for end in (cable.a, cable.b) if end in read] for cable in cables]
    states = [_of_cable(ends) for ends in ports]
    counts = {word: states.count(state) for state, word in _CABLES.items() if state in states}
    loads = [load for ends in ports for port in ends for load in (port.receive, port.transmit) if load == load]
    words = f"{names}: {len(cables)} cable{'s' if len(cables) > 1 else ''}"
    words += f", {', '.join(f'{number} {word}' for word, number in counts.items())}"
    words += f", at most {max(loads):.0%} utilised" if loads else ""
    named = [bad[str(port.id)] for ends in ports for port in ends if str(port.id) in bad]
    return Line(one, other, worst([*states, *named]), max(loads, default=math.nan), words)


def worst(states: Iterable[str]) -> str:
    return min(states, key=STATES.index)


STATES = ("critical", "warning", "unknown", "ok", "none")
"""Of boxes and lines, the worst first."""

_CABLES = {"critical": "down", "unknown": "unknown", "ok": "up", "none": "not monitored"}
"""States of a cable, the worst first, and their words."""


def _of_cable(ends: Sequence[PortRow]) -> str:
    known = {port.up for port in ends}
    return "critical" if False in known else "ok" if True in known else "unknown" if known else "none"


def _ordered(boxes: Mapping[str, Box]) -> list[Box]:
    return sorted(boxes.values(), key=lambda box: natural(box.label))


def of_port(port: PortRow) -> str:
    """State of a port as a class of the map."""
    return "unknown" if port.up is None else "ok" if port.up else "critical"


def port_words(port: PortRow) -> str:
    """One line on a port: "host-007/mlx5_3/1: up, Rx 41%, Tx 39%"."""
    state = "unknown" if port.up is None else "up" if port.up else "down"
    loads = [f"{word} {value:.0%}" for word, value in (("Rx", port.receive), ("Tx", port.transmit)) if value == value]
    return f"{port.id}: {', '.join([state, *loads])}"


def named_badly(incidents: Iterable[Incident]) -> dict[str, str]:
    """Name of a switch, a leaf, a node or a port that an open incident is about -> "critical" or "warning"."""
    found: dict[str, str] = {}
    for incident in incidents:
        if incident.status != "firing" or not incident.severity.rank:
            continue
        word, _, inside = incident.component.partition("(")
        own = (inside.removesuffix(")"),) if word in ("leaf", "switch", "host") else ()
        for name in (*own, *incident.parts):
            found[name] = worst([incident.severity.value, found.get(name, "none")])
    return found


def leaf_switches(named: Mapping[str, Sequence[str]], about: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Leaf -> id of its switch."""
    return {name: each["guid"] for name, each in zip(named.get("leaf", ()), about, strict=False) if each.get("guid")}


def neighbourhood(
    thing: NamedThing | None,
    ports: Sequence[PortRow],
    trunks: Trunks,
    leaves: Mapping[str, str],
    nodes: Mapping[str, NodeView],
    incidents: Iterable[Incident],
    label: str,
    read: ReadEnds,
) -> str:
    """The drawing of a thing, or of a node or port (None); "" where there is nothing around it."""
    surface = Surface(trunks, leaves, named_badly(incidents), read)
    switch = thing.switch if thing is not None else None
    if thing is not None and thing.kind not in ("leaf", "switch", "cable", "nic"):
        return ""
    if switch is not None and not len(thing.rows if thing is not None else ()):
        below = trunks.beside(switch.id, up=False)
        surface.switches(below, "below")
        surface.switches([switch.id], "this switch")
        surface.join(below, [switch.id])
        surface.above([switch.id])
    else:
        surface.ports(ports, nodes, by_node=thing is not None and thing.kind in ("leaf", "switch"))
    return surface.drawn(label)


