"""Which fault domains every row belongs to: arrays of group ids for the fleet and the diagnosis. Pure.

A row is joined with the graph by what does not move: port or node GUID first, then host and device name, then host
and adapter index (`mlx5_N` counts from 0, `HCA-N` from 1). Never by LID: a subnet manager may give another one at any
time, and two subnets use the same ones (topologies.md sections 1 and 11).

A row that an agent swept stands for a port elsewhere (topology/swept.py). It belongs to what can explain it: both ends
of an adapter's cable to that adapter and its host, both ends of any cable to one link, a cable between switches to its
tier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId
from fabricmon.topology.graph import End, Graph, Switch
from fabricmon.topology.infer import rail_index, tier
from fabricmon.topology.names import guid_number
from fabricmon.topology.paths import Many, Paths
from fabricmon.topology.stages import stages

DOMAINS = ("link", "nic", "host", "leaf", "rail", "power", "tier", "pod", "plane", "network", "spine", "core")
"""Domains of ports. None is in a group of "spine" or "core": only the path of a flow tells of those."""

PLACED_ROLES = ("compute", "unknown")
"""Roles of ports that a scheduler's or cloud's word of the switch above a host holds for: the job's own network."""

COMMON_SHARE = 0.5
"""A device number is a rail of the fleet when at least this share of the most common number's hosts have it."""

Labels = Mapping[str, str]


@dataclass(slots=True)
class Domains:
    """For n rows, per domain a group id.

    ids    domain -> int32[n], -1 where the row is in no known group of that domain
    names  domain -> names by group id: "host-007/mlx5_3/1, leaf-3/12" for a link, "su1/rail2" for a leaf
    about  domain -> per group id, what a person wants to know of it; for a leaf {"switch": "leaf-3", "guid": "0x...",
           "ports": how many adapters it carries, where cables are known}; for what is above leaves see stages.py
    swept  bool[n]: the row is another's view of a port, from a sweep of the fabric
    """

    ids: dict[str, NDArray[np.int32]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    about: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    swept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


class _Groups:
    """Numbers the groups of one domain in the order they are met."""

    def __init__(self) -> None:
        self.ids = np.full(64, -1, np.int32)
        self.names: list[str] = []
        self.about: list[dict[str, str]] = []
        self._number: dict[object, int] = {}

    def number(self, key: object, name: str, about: dict[str, str] | None = None) -> int:
        """The number of a group, which may have no row yet."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.names)
            self.names.append(name)
            self.about.append(about or {})
        return number

    def put(self, row: int, key: object, name: str, about: dict[str, str] | None = None) -> None:
        self.ids[row] = self.number(key, name, about)

    def widen(self, rows: int) -> None:
        if rows > len(self.ids):
            more = np.full(max(rows, 2 * len(self.ids)) - len(self.ids), -1, np.int32)
            self.ids = np.concatenate((self.ids, more))


class _Place(NamedTuple):
    """Where a row's port is in the graph. `leaf` is the switch that carries hosts, None on an inter-switch cable;
    `ports` is how many adapters it carries; `near`: the row is the adapter's end; `tier`: between which levels of
    switches the cable runs, "" for an adapter's; `adapter`: id of the adapter at one of its ends, "" for none."""

    cable: int
    title: str
    leaf: Switch | None
    leaf_name: str
    ports: int
    near: bool
    tier: str
    adapter: str


def assign(graph: Graph | None, rows: Sequence[tuple[ComponentId, Labels]], power: Mapping[str, str]) -> Domains:
    """The groups of every PORT row; n is the number of rows, row order is kept.

    graph   None: link is the port itself, nic, host, rail by the adapter's index; no leaf
    power   node name -> power domain (a rack, where nothing finer is known)

    Where no cable places a row of the job's network and a source puts its host below switches, its leaf is the first
    of them (the nearest), for all adapters of the host alike.

    A row that is a whole device (no port and no interface) is in no link. A row that the graph does not know keeps
    the domains of its own name. Without a graph a rail is the position of the device's number among the numbers
    that the fleet's hosts have for that role, so one missing adapter does not shift its host's rails.
    """
    return Assigner(graph, power).assign(rows)


class Assigner:
    """`assign` for rows that change a little at a time: only rows that are new or changed are looked at again.

    A row counts as changed when its component or its labels are other objects than last time.
    """

    def __init__(self, graph: Graph | None, power: Mapping[str, str]) -> None:
        self._power = power
        self._join = _Join(graph) if graph is not None else None
        self._groups = {domain: _Groups() for domain in DOMAINS}
        self._seen: list[tuple[ComponentId, Labels]] = []
        self._loose: dict[int, tuple[str, int | None]] = {}  # rows whose rail is a matter of numbers
        self._swept: dict[int, str] = {}  # swept row -> adapter at its cable
        self._known_as: dict[str, tuple[str, str]] = {}  # adapter -> node and device by which its own agent calls it
        self._stages = stages(graph) if graph is not None else {}
        self._paths = Paths(self._groups, self._join)

    def assign(self, rows: Sequence[tuple[ComponentId, Labels]]) -> Domains:
        seen = self._seen
        for groups in self._groups.values():
            groups.widen(len(rows))
            groups.ids[len(rows) :] = -1
        new = [
            row
            for row, (component, labels) in enumerate(rows)
            if not (row < len(seen) and seen[row][0] is component and seen[row][1] is labels)
        ]
        renamed: set[str] = set()
        for row in new:
            for groups in self._groups.values():
                groups.ids[row] = -1
            self._loose.pop(row, None)
            self._swept.pop(row, None)
            component, labels = rows[row]
            if component.node and not labels.get("swept"):  # else a free row, or one that comes below
                adapter = self._put(row, component, labels)
                known_as = component.node, device_and_port(component, labels)[0]
                if adapter and self._known_as.get(adapter) != known_as:
                    self._known_as[adapter] = known_as
                    renamed.add(adapter)
        again = [row for row, adapter in self._swept.items() if adapter in renamed] if renamed else []
        for row in (*new, *again):
            component, labels = rows[row]
            if component.node and labels.get("swept"):
                self._put_swept(row, component, labels)
        self._seen = list(rows)
        self._number_rails()
        swept = np.zeros(len(rows), np.bool_)
        swept[[row for row in self._swept if row < len(rows)]] = True
        return Domains(
            {domain: groups.ids[: len(rows)].copy() for domain, groups in self._groups.items()},
            {domain: groups.names for domain, groups in self._groups.items()},
            {domain: groups.about for domain, groups in self._groups.items()},
            swept,
        )

    def flows(
        self, rows: Sequence[tuple[ComponentId, Labels]], domains: Domains
    ) -> tuple[dict[str, Many], NDArray[np.int64]]:
        """The groups of every FLOW row, with the numbers of `domains`, which is the last answer of `assign`; and the
        PORT row that each goes from, -1 unknown."""
        return self._paths.assign(rows, [component for component, _ in self._seen], domains), self._paths.near

    def _put(self, row: int, component: ComponentId, labels: Labels) -> str:
        """Place a row of a node's own; returns the adapter it is in the graph, "" for none."""
        groups = self._groups
        device, port = device_and_port(component, labels)
        node = component.node
        groups["host"].put(row, node, node)
        groups["nic"].put(row, (node, device), f"{node}/{device}")
        if node in self._power:
            groups["power"].put(row, self._power[node], self._power[node])
        place = self._join.find(component, labels, device, port) if self._join is not None else None
        if place is not None:
            groups["link"].put(row, place.cable, place.title)
            if place.near:  # the adapter's own row knows best what its node is called, and may have moved
                groups["link"].names[groups["link"].ids[row]] = place.title
        elif port or labels.get("netdev"):
            groups["link"].put(row, component, str(component))
        if not self._put_leaf(row, place) and port:
            if place is None and self._join is not None and labels.get("role", "unknown") in PLACED_ROLES:
                self._put_above(row, self._join.above(node))
            self._loose[row] = labels.get("role", "unknown"), rail_index(device)
        return place.adapter if place is not None and place.near else ""

    def _put_leaf(self, row: int, place: _Place | None) -> bool:
        """Leaf and rail of a row; False where no leaf gives it a rail."""
        leaf = place.leaf if place is not None else None
        if place is None or leaf is None:
            return False
        about = {"switch": leaf.name or leaf.id, "guid": leaf.id, "ports": str(place.ports)}
        self._groups["leaf"].put(row, leaf.id, place.leaf_name, about)
        self._put_stages(row, leaf.id)
        if not (leaf.labels.get("rail") and leaf.labels.get("unit")):
            return False
        rail = f"{leaf.labels['unit']}/{leaf.labels['rail']}"
        self._groups["rail"].put(row, rail, rail)
        return True

    def _put_above(self, row: int, switch: Switch | None) -> None:
        """Leaf of a row whose cable nobody told of: the switch that its host is below."""
        if switch is not None and self._join is not None:
            about = {"switch": switch.name or switch.id, "guid": switch.id}
            self._groups["leaf"].put(row, switch.id, self._join.leaf_names[switch.id], about)
            self._put_stages(row, switch.id)

    def _put_stages(self, row: int, leaf: str) -> None:
        """What is above a leaf: its pod, its plane, its network."""
        for domain, stage in self._stages.get(leaf, {}).items():
            self._groups[domain].put(row, stage.name, stage.name, stage.about)

    def _put_swept(self, row: int, component: ComponentId, labels: Labels) -> None:
        groups = self._groups
        place = self._join.swept(labels) if self._join is not None else None
        self._swept[row] = place.adapter if place is not None else ""
        if place is None:
            groups["link"].put(row, component, component.name)
            return
        groups["link"].put(row, place.cable, place.title)
        if place.tier:
            groups["tier"].put(row, place.tier, place.tier)
        self._put_leaf(row, place)
        node, device = self._known_as.get(place.adapter) or self._join_names(place.adapter)
        if node:
            groups["host"].put(row, node, node)
            groups["nic"].put(row, (node, device), f"{node}/{device}" if device else node)
            if node in self._power:
                groups["power"].put(row, self._power[node], self._power[node])

    def _join_names(self, adapter: str) -> tuple[str, str]:
        """Host and device of an adapter as its description has them; empty where it tells nothing."""
        found = self._join.graph.adapters.get(adapter) if self._join is not None else None
        return (found.host, found.name) if found is not None else ("", "")

    def _number_rails(self) -> None:
        """Rails of the rows that no leaf gives one, by the position of the device's number in its role."""
        hosts: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for row, (role, number) in self._loose.items():
            if number is not None and row < len(self._seen):
                hosts[role][number].add(self._seen[row][0].node)
        names: dict[tuple[str, int | None], str] = {}
        for role, numbers in hosts.items():
            enough = COMMON_SHARE * max(len(nodes) for nodes in numbers.values())
            common = sorted(number for number, nodes in numbers.items() if len(nodes) >= enough)
            prefix = "" if role in ("compute", "unknown") else f"{role}/"
            names.update({(role, number): f"{prefix}{index}" for index, number in enumerate(common)})
        for row, known in self._loose.items():
            rail = names.get(known)
            if row < len(self._seen):
                if rail is None:
                    self._groups["rail"].ids[row] = -1
                else:
                    self._groups["rail"].put(row, rail, rail)


def device_and_port(component: ComponentId, labels: Labels) -> tuple[str, str]:
    """Device and port of a PORT row, from its labels, else from its name: "mlx5_3/1" -> ("mlx5_3", "1")."""
    device, _, port = component.name.partition("/")
    return labels.get("device") or device, labels.get("port") or port


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


class _Join:
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
                self.by_name[_short(adapter.host), adapter.name] = adapter.id
                index = rail_index(adapter.name)
                if index is not None:
                    by_index[_short(adapter.host), index].append(adapter.id)
        self.by_index = {key: found[0] for key, found in by_index.items() if len(found) == 1}
        self.carried = Counter(
            end.node for end, far in self.far.items() if end.node in graph.switches and far.node in graph.adapters
        )
        self.switch_names = _unique({switch.id: switch.name for switch in graph.switches.values()})
        self.leaf_names = _leaf_names(graph)

        self.attached = {_short(host): switches[0] for host, switches in graph.attached.items() if switches}

    def above(self, host: str) -> Switch | None:
        """The switch that a source without ports puts a host below."""
        return self.graph.switches.get(self.attached.get(_short(host), ""))

    def find(self, component: ComponentId, labels: Labels, device: str, port: str) -> _Place | None:
        end = self._end(component, labels, device, port)
        number = self.cable_at.get(end) if end is not None else None
        if end is None or number is None:
            return None
        near = end.node not in self.graph.switches
        cable = self.graph.cables[number]
        title = f"{component}, {self.graph.describe(self.far[end])}" if near else self.graph.title(cable)
        return self._place(number, end, title, near)

    def swept(self, labels: Labels) -> _Place | None:
        """The place of a swept row, which names its node by GUID."""
        node, port = self.by_guid.get(guid_number(labels.get("node_guid")) or 0), labels.get("port", "")
        end = End(node, int(port)) if node is not None and port.isdecimal() else None
        number = self.cable_at.get(end) if end is not None else None
        if end is None or number is None:
            return None
        return self._place(number, end, self.graph.title(self.graph.cables[number]), False)

    def _place(self, number: int, end: End, title: str, near: bool) -> _Place:
        ends = end, self.far[end]
        switches = [self.graph.switches.get(e.node) for e in ends]
        adapter = next((e.node for e in ends if e.node in self.graph.adapters), "")
        leaves = [switch for switch in switches if switch is not None]
        leaf = leaves[0] if len(leaves) == 1 else None
        between = tier(self.graph, self.graph.cables[number]) if len(leaves) == len(ends) else ""
        if leaf is None:
            return _Place(number, title, None, "", 0, near, between, adapter)
        return _Place(number, title, leaf, self.leaf_names[leaf.id], self.carried[leaf.id], near, between, adapter)

    def _end(self, component: ComponentId, labels: Labels, device: str, port: str) -> End | None:
        at = int(port) if port.isdecimal() else 1
        for label in ("port_guid", "node_guid"):
            node = self.by_guid.get(guid_number(labels.get(label)) or 0)
            if node is not None and End(node, at) in self.cable_at:
                return End(node, at)
        switch = self.switch_names.get(component.node)
        if switch is not None:
            return End(switch, at)
        host = _short(component.node)
        node = self.by_name.get((host, device)) or self.by_name.get((host, labels.get("netdev", "")))
        if node is None:
            index = rail_index(device)
            node = self.by_index.get((host, index)) if index is not None and port else None
        return End(node, at) if node is not None else None


def _unique(names: Mapping[str, str]) -> dict[str, str]:
    """name -> id for names that only one id has."""
    count = Counter(names.values())
    return {name: id for id, name in names.items() if name and count[name] == 1}


def _leaf_names(graph: Graph) -> dict[str, str]:
    """Words for a leaf: "su1/rail2" in a rail-optimised unit, else its own name; unique either way."""
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
