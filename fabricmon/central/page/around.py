"""What is around a node, a port, a leaf or a switch: its boxes and lines of the drawing. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fabricmon.central.page.components import PortRow
from fabricmon.central.page.drawing import Box, Line, drawing
from fabricmon.central.page.markup import address
from fabricmon.central.page.named import NamedThing
from fabricmon.model import Incident, NodeView, Presence
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import by_name, natural


class Trunks:
    """Switch -> the switches it has cables to, and their number. Made once for a topology."""

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self.joined: dict[str, dict[str, int]] = defaultdict(dict)
        if graph is None:
            return
        switches = graph.switches
        for cable in graph.cables:
            one, other = cable.a.node, cable.b.node
            if one in switches and other in switches and one != other:
                self.joined[one][other] = self.joined[one].get(other, 0) + 1
                self.joined[other][one] = self.joined[other].get(one, 0) + 1

    def beside(self, switch: str, up: bool) -> list[str]:
        """Its neighbours on the levels above it, or below it, in the order of their names."""
        graph = self.graph
        if graph is None or switch not in graph.switches:
            return []
        level = graph.switches[switch].level
        found = [s for s in self.joined.get(switch, ()) if (graph.switches[s].level > level) is up]
        return by_name(graph, (s for s in found if up or graph.switches[s].level < level))


class Surface:
    """The parts of one drawing.

    bad  name of a switch, leaf or node that an open incident names -> its state
    """

    def __init__(self, trunks: Trunks, leaves: Mapping[str, str], bad: Mapping[str, str]) -> None:
        self._trunks, self._leaves, self._bad = trunks, leaves, bad
        self.tiers: list[tuple[str, list[Box]]] = []
        self.lines: list[Line] = []

    def ports(self, ports: Sequence[PortRow], nodes: Mapping[str, NodeView], by_node: bool) -> None:
        """The lowest tier: one box per node, or one per port of a single node; then their leaves."""
        boxes: dict[str, Box] = {}
        leaves: dict[str, Box] = {}
        for port in ports:
            node, name = port.id.node, port.id.name
            own = f"node {node}" if by_node else f"port {port.id}"
            state = self._of_node(nodes.get(node)) if by_node else of_port(port)
            where = address("node", name=node) if by_node else address("component", kind="port", node=node, name=name)
            boxes.setdefault(own, Box(own, node if by_node else name, where, self._bad.get(node, state)))
            leaf = port.places.get("leaf", "")
            if leaf:
                leaves.setdefault(leaf, self._leaf(leaf))
                load = max(port.receive, port.transmit) if not math.isnan(port.receive + port.transmit) else math.nan
                self.lines.append(Line(own, leaves[leaf].id, of_port(port), load, port_words(port)))
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
        """Lines between two tiers of switches; nothing reads their cables, unless the fabric is swept."""
        tops = set(high)
        graph = self._trunks.graph
        for one in low:
            for other, number in self._trunks.joined.get(one, {}).items():
                if other in tops and graph is not None:
                    words = f"{graph.name(one)}, {graph.name(other)}: {number} cable{'s' if number > 1 else ''}"
                    self.lines.append(Line(one, other, "none", math.nan, words))

    def drawn(self, label: str) -> str:
        return drawing(self.tiers, self.lines, label)


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
    """Name of a switch, a leaf or a node that an open incident is about -> "critical" or "warning"."""
    found: dict[str, str] = {}
    for incident in incidents:
        word, _, inside = incident.component.partition("(")
        if incident.status == "firing" and word in ("leaf", "switch", "host") and incident.severity.rank:
            name = inside.removesuffix(")")
            if found.get(name) != "critical":
                found[name] = incident.severity.value
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
) -> str:
    """The drawing of a thing, or of a node or port (None); "" where there is nothing around it."""
    surface = Surface(trunks, leaves, named_badly(incidents))
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


