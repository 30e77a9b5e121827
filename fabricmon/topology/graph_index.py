"""Finds the port of a fleet row in the graph. Pure.

The keys are port or node GUID first, then host and device name, then host and adapter index (`mlx5_N` counts from 0,
`HCA-N` from 1). Never the LID: a subnet manager may change it at any time, and two subnets use the same ones
(docs/methods.md#link-identity).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from fabricmon.model import ComponentId
from fabricmon.topology.graph import End, Graph, Switch
from fabricmon.topology.identity import KnownNodes, short
from fabricmon.topology.infer import rail_index, same_family, tier
from fabricmon.topology.lldp_switches import LldpNeighbour
from fabricmon.topology.names import guid_number

Labels = Mapping[str, str]


class CablePlace(NamedTuple):
    """A row's cable in the graph. `leaf` is the switch that carries hosts, None on an inter-switch cable; `ports` its
    number of adapters; `near`: the row is the adapter's end; `tier`: levels of switches that the cable joins, "" for an
    adapter's; `adapter`: id of the adapter at one of its ends, "" for none; `socket`: port number of the leaf, -1
    unknown; `plain`: its ports are numbered, not named."""

    cable: int
    title: str
    leaf: Switch | None
    leaf_name: str
    ports: int
    near: bool
    tier: str
    adapter: str
    socket: int = -1
    plain: bool = True


def device_and_port(component: ComponentId, labels: Labels) -> tuple[str, str]:
    """Device and port of a PORT row, from its labels, else from its name: "mlx5_3/1" -> ("mlx5_3", "1")."""
    device, _, port = component.name.partition("/")
    return labels.get("device") or device, labels.get("port") or port


class GraphIndex:
    """Finds a row's end, and from it the cable, in a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.cable_at: dict[End, int] = {}
        self.far: dict[End, End] = {}
        for number, cable in enumerate(graph.cables):
            self.cable_at[cable.a] = self.cable_at[cable.b] = number
            self.far[cable.a], self.far[cable.b] = cable.b, cable.a
        self.by_guid: dict[int, str] = {}
        for node in (*graph.switches, *graph.adapters):
            guid = guid_number(node) if node.startswith("0x") else None
            if guid is not None:
                self.by_guid[guid] = node
        self.by_name: dict[tuple[str, str], str] = {}
        by_index: dict[tuple[str, int], list[str]] = defaultdict(list)
        for adapter in graph.adapters.values():
            if adapter.host and adapter.name:
                self.by_name[short(adapter.host), adapter.name] = adapter.id
                index = rail_index(adapter.name)
                if index is not None:
                    by_index[short(adapter.host), index].append(adapter.id)
        self.by_index = {key: found[0] for key, found in by_index.items() if len(found) == 1}
        self.carried = Counter(
            end.node for end, far in self.far.items() if end.node in graph.switches and far.node in graph.adapters
        )
        self.switch_names = _unique({switch.id: switch.name for switch in graph.switches.values()})
        self.leaf_names = _leaf_names(graph)
        self.attached = {short(host): switches[0] for host, switches in graph.attached.items() if switches}
        self._switches = KnownNodes()
        self._switches.add(graph.switches.values(), (), ())

    def above(self, host: str) -> Switch | None:
        """The switch that a source without ports puts a host below."""
        return self.graph.switches.get(self.attached.get(short(host), ""))

    def below_neighbour(self, near: ComponentId, port: LldpNeighbour) -> CablePlace | None:
        """The place below a switch of the graph that a port without a cable in the graph names; None where the graph
        does not have the switch."""
        found = self._switches.switch(Switch(port.chassis, port.name))
        if found is None:
            return None
        return self.below(found, port.title(near, self.graph.switches[found].name or found))

    def below(self, switch: str, title: str, socket: int = -1) -> CablePlace:
        """The place of an adapter's port below a switch of the graph, which has no cable of it: at its port `socket`,
        -1 unknown."""
        leaf = self.graph.switches[switch]
        plain = socket >= 0 and f"port/{socket}" not in leaf.labels
        name, carried = self.leaf_names[switch], self.carried[switch]
        return CablePlace(-1, title, leaf, name, carried, True, "", "", socket, plain)

    def find(self, component: ComponentId, labels: Labels, device: str, port: str) -> CablePlace | None:
        end = self._end(component, labels, device, port)
        number = self.cable_at.get(end) if end is not None else None
        if end is None or number is None:
            return None
        near = end.node not in self.graph.switches
        cable = self.graph.cables[number]
        title = f"{component}, {self.graph.describe(self.far[end])}" if near else self.graph.title(cable)
        return self._place(number, end, title, near)

    def swept(self, labels: Labels) -> CablePlace | None:
        """The place of a swept row, which names its node by GUID."""
        node, port = self.by_guid.get(guid_number(labels.get("node_guid")) or 0), labels.get("port", "")
        end = End(node, int(port)) if node is not None and port.isdecimal() else None
        number = self.cable_at.get(end) if end is not None else None
        if end is None or number is None:
            return None
        return self._place(number, end, self.graph.title(self.graph.cables[number]), False)

    def _place(self, number: int, end: End, title: str, near: bool) -> CablePlace:
        ends = end, self.far[end]
        switches = [self.graph.switches.get(e.node) for e in ends]
        adapter = next((e.node for e in ends if e.node in self.graph.adapters), "")
        leaves = [switch for switch in switches if switch is not None]
        leaf = leaves[0] if len(leaves) == 1 else None
        between = tier(self.graph, self.graph.cables[number]) if len(leaves) == len(ends) else ""
        if leaf is None:
            return CablePlace(number, title, None, "", 0, near, between, adapter)
        socket = next(e.port for e in ends if e.node == leaf.id)
        plain = f"port/{socket}" not in leaf.labels
        name, carried = self.leaf_names[leaf.id], self.carried[leaf.id]
        return CablePlace(number, title, leaf, name, carried, near, between, adapter, socket, plain)

    def _end(self, component: ComponentId, labels: Labels, device: str, port: str) -> End | None:
        at = int(port) if port.isdecimal() else 1
        for label in ("port_guid", "node_guid"):
            node = self.by_guid.get(guid_number(labels.get(label)) or 0)
            if node is not None and End(node, at) in self.cable_at:
                return End(node, at)
        switch = self.switch_names.get(component.node)
        if switch is not None:
            return End(switch, at)
        host = short(component.node)
        node = self.by_name.get((host, device)) or self.by_name.get((host, labels.get("netdev", "")))
        if node is None:
            index = rail_index(device)
            node = self.by_index.get((host, index)) if index is not None and port else None
            if node is not None and not same_family(self.graph.adapters[node].name, device):
                node = None
        return End(node, at) if node is not None else None


def _unique(names: Mapping[str, str]) -> dict[str, str]:
    """name -> id for names that only one id has."""
    count = Counter(names.values())
    return {name: id for id, name in names.items() if name and count[name] == 1}


def _leaf_names(graph: Graph) -> dict[str, str]:
    """Display names of leaves: "su1/rail2" in a rail-optimised unit, else its own name; unique either way."""
    rails_of: dict[str, set[str]] = defaultdict(set)
    for switch in graph.switches.values():
        if "unit" in switch.labels and "rail" in switch.labels:
            rails_of[switch.labels["unit"]].add(switch.labels["rail"])
    words: dict[str, str] = {}
    for switch in graph.switches.values():
        unit, rail = switch.labels.get("unit", ""), switch.labels.get("rail", "")
        optimised = len(rails_of.get(unit, ())) > 1 and rail
        words[switch.id] = f"{unit}/rail{rail}" if optimised else switch.name or switch.id
    count = Counter(words.values())
    for id, word in words.items():
        if count[word] > 1:
            name = graph.switches[id].name
            words[id] = name if name and count[name] == 0 else id
    return words
