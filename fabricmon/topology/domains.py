"""Fault domains of every row: arrays of group ids for the fleet and the diagnosis. Pure.

A row that an agent swept is a port elsewhere (topology/swept.py). Both ends of an adapter's cable belong to that
adapter and its host, both ends of any cable to one link, a cable between switches to its tier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Kind
from fabricmon.topology.between import PortsBetween, PortWithoutCable, Slot, port_without_cable
from fabricmon.topology.graph import Graph, Switch
from fabricmon.topology.graph_index import CablePlace, GraphIndex, Labels, device_and_port
from fabricmon.topology.groups import DOMAINS, Domains, GroupNumbers, Many
from fabricmon.topology.infer import rail_index
from fabricmon.topology.lldp_switches import LldpNeighbour, LldpSwitch, LldpSwitches
from fabricmon.topology.paths import FlowPaths
from fabricmon.topology.stages import stages

_UNSEEN: tuple[ComponentId, Labels] = (ComponentId(Kind.PORT, "", ""), {})

PLACED_ROLES = ("compute", "unknown")
"""Roles of ports to which a scheduler's or cloud's switch above a host applies, and the order of names: the job's own
network."""

LLDP = "lldp"
"""Of the keys of leaves that only LLDP names: an id of a switch of the map is another one."""

BELOW_A_LEAF = ("leaf", "rail", "module", "feed", "pod", "plane", "network")
"""Domains that a row has by its place below a leaf."""

COMMON_SHARE = 0.5
"""A device number is a rail of the fleet when at least this share of the most common number's hosts have it."""


def assign(graph: Graph | None, rows: Sequence[tuple[ComponentId, Labels]], power: Mapping[str, str]) -> Domains:
    """The groups of every PORT row; n is the number of rows, row order is kept.

    graph   None: each port is its own link; nic, host, rail by the adapter's index; no leaf
    power   node name -> power domain (a rack, where nothing finer is known)

    Where no cable places a row of the job's network and a source puts its host below switches, its leaf is the first
    of them (the nearest), for all adapters of the host. A row that is a whole device (no port and no interface) is in
    no link. A row that is not in the graph keeps the domains of its own name. Without a graph a rail is the position of
    the device's number among the numbers that the fleet's hosts have for that role, so one missing adapter does not
    shift its host's rails.
    """
    return Assigner(graph, power).assign(rows)


class Assigner:
    """`assign` that processes only rows that are new or changed: whose component or labels are other objects than last
    time."""

    def __init__(self, graph: Graph | None, power: Mapping[str, str], lldp: LldpSwitches | None = None) -> None:
        """lldp: the neighbours of the rows, which outlast a change of the graph"""
        self._power = power
        self._lldp = lldp if lldp is not None else LldpSwitches()
        self._below: dict[int, tuple[LldpNeighbour, int]] = {}  # row -> neighbour, leaf without it or -1
        self._neighbours_anew: set[int] = set()  # rows since the switches of LLDP were last counted
        self._leaves: dict[str, LldpSwitch] = {}  # chassis -> switch, as last counted
        self._index = GraphIndex(graph) if graph is not None else None
        self._between = PortsBetween(self._index) if self._index is not None else None
        self._lacking: dict[int, PortWithoutCable] = {}
        self._slots_anew: set[Slot] = set()  # of which other rows lack a cable since places were found
        self._placed_between: set[int] = set()
        self._groups = {domain: GroupNumbers() for domain in DOMAINS}
        self._seen: list[tuple[ComponentId, Labels]] = []
        self._loose: dict[int, tuple[str, int | None]] = {}  # rows whose rail is a matter of numbers
        self._swept: dict[int, str] = {}  # swept row -> adapter at its cable
        self._socket = np.full(64, -1, np.int32)
        self._known_as: dict[str, tuple[str, str]] = {}  # adapter -> node and device by which its own agent calls it
        self._stages = stages(graph) if graph is not None else {}
        self._paths = FlowPaths(self._groups, self._index)

    def prepare(
        self, rows: Sequence[tuple[ComponentId, Labels]], most: int, among: Iterable[int] | None = None
    ) -> bool:
        """Process `most` of the rows that are new or changed, so that `assign` has less to do. Whether more are left,
        of which `assign` would make a long pause. `among`: all that are new or changed are among these; None: any."""
        new = self._new(rows, among)
        if len(new) <= most:
            return False
        self._take(rows, new[:most])
        return True

    def assign(self, rows: Sequence[tuple[ComponentId, Labels]], among: Iterable[int] | None = None) -> Domains:
        self._take(rows, self._new(rows, among))
        del self._seen[len(rows) :]
        self._place_between()
        self._number_rails()
        self._place_by_lldp()
        swept = np.zeros(len(rows), np.bool_)
        swept[[row for row in self._swept if row < len(rows)]] = True
        return Domains(
            {domain: groups.ids[: len(rows)].copy() for domain, groups in self._groups.items()},
            {domain: groups.names for domain, groups in self._groups.items()},
            {domain: groups.about for domain, groups in self._groups.items()},
            swept,
            self._socket[: len(rows)].copy(),
        )

    def _new(self, rows: Sequence[tuple[ComponentId, Labels]], among: Iterable[int] | None) -> list[int]:
        seen, of = self._seen, enumerate(rows) if among is None else ((row, rows[row]) for row in sorted(among))
        return [
            row
            for row, (component, labels) in of
            if not (row < len(seen) and seen[row][0] is component and seen[row][1] is labels)
        ]

    def _take(self, rows: Sequence[tuple[ComponentId, Labels]], new: Sequence[int]) -> None:
        self._widen(len(rows))
        seen = self._seen
        seen += [_UNSEEN] * (len(rows) - len(seen))
        renamed: set[str] = set()
        self._neighbours_anew.update(new)
        for row in new:
            for groups in self._groups.values():
                groups.ids[row] = -1
            self._socket[row] = -1
            self._loose.pop(row, None)
            self._swept.pop(row, None)
            self._below.pop(row, None)
            if (lacking := self._lacking.pop(row, None)) is not None:
                self._slots_anew.add(lacking.slot)
            component, labels = seen[row] = rows[row]
            neighbour = self._lldp.take(row, component, labels)
            if component.node and not labels.get("swept"):  # else a free row, or one that comes below
                adapter = self._put(row, component, labels, neighbour)
                known_as = component.node, device_and_port(component, labels)[0]
                if adapter and self._known_as.get(adapter) != known_as:
                    self._known_as[adapter] = known_as
                    renamed.add(adapter)
        again = [row for row, adapter in self._swept.items() if adapter in renamed] if renamed else []
        for row in (*new, *again):
            component, labels = rows[row]
            if component.node and labels.get("swept"):
                self._put_swept(row, component, labels)

    def _widen(self, rows: int) -> None:
        for groups in self._groups.values():
            groups.widen(rows)
            groups.ids[rows:] = -1
        if rows > len(self._socket):
            more = max(rows, 2 * len(self._socket)) - len(self._socket)
            self._socket = np.concatenate((self._socket, np.full(more, -1, np.int32)))

    def flows(
        self, rows: Sequence[tuple[ComponentId, Labels]], domains: Domains, nodes: Iterable[str] = ()
    ) -> tuple[dict[str, Many], NDArray[np.int64]]:
        """The groups of every FLOW row, numbered as in `domains`, the last result of `assign`; and the PORT row each
        starts from, -1 unknown. `nodes`: names of all nodes."""
        return self._paths.assign(rows, [component for component, _ in self._seen], domains, nodes), self._paths.near

    @property
    def links_without_rows(self) -> int:
        """Links that only flows gave a number."""
        return self._paths.named

    def _put(self, row: int, component: ComponentId, labels: Labels, neighbour: LldpNeighbour | None) -> str:
        """Place a row of an agent's own node; returns its adapter in the graph, "" for none."""
        groups = self._groups
        device, port = device_and_port(component, labels)
        node = component.node
        groups["host"].put(row, node, node)
        groups["nic"].put(row, (node, device), f"{node}/{device}")
        if node in self._power:
            groups["power"].put(row, self._power[node], self._power[node])
        self._put_parts(row, node, device, labels)
        place = self._put_link(row, component, labels, neighbour, (device, port))
        if not self._put_leaf(row, place) and port:
            if place is None and self._index is not None and labels.get("role", "unknown") in PLACED_ROLES:
                switch = self._index.above(node)  # no cable of the row is known: the switch that its host is below
                if switch is not None:
                    self._put_below(row, switch, self._index.leaf_names[switch.id], {})
            if place is None and neighbour is None and groups["leaf"].ids[row] < 0:
                self._lacks_a_cable(row, component, labels, (device, port))
            self._loose[row] = labels.get("role", "unknown"), rail_index(device)
        if place is None and neighbour is not None and groups["link"].ids[row] >= 0:
            self._below[row] = neighbour, int(groups["leaf"].ids[row])
        return place.adapter if place is not None and place.near else ""

    def _lacks_a_cable(self, row: int, component: ComponentId, labels: Labels, named: tuple[str, str]) -> None:
        if self._between is None or labels.get("role", "unknown") not in PLACED_ROLES:
            return
        if (port := port_without_cable(component, *named)) is not None:
            self._lacking[row] = port
            self._slots_anew.add(port.slot)

    def _place_between(self) -> None:
        """Leaves of rows of which the graph has no cable, anew where other rows lack one now."""
        if self._between is None or not self._slots_anew:
            return
        self._lacking = {row: port for row, port in self._lacking.items() if row < len(self._seen)}
        anew = {row: port for row, port in self._lacking.items() if port.slot in self._slots_anew}
        self._slots_anew.clear()
        for row in self._placed_between & anew.keys():
            for domain in BELOW_A_LEAF:
                self._groups[domain].ids[row] = -1
            self._socket[row] = -1
            component, labels = self._seen[row]
            self._loose[row] = labels.get("role", "unknown"), rail_index(device_and_port(component, labels)[0])
        places = self._between.places(anew)
        for row, place in places.items():
            if self._put_leaf(row, place):
                self._loose.pop(row, None)
        self._placed_between = (self._placed_between & self._lacking.keys() - anew.keys()) | places.keys()

    def _put_link(
        self, row: int, component: ComponentId, labels: Labels, neighbour: LldpNeighbour | None, named: tuple[str, str]
    ) -> CablePlace | None:
        """The link of a row; its place in the graph by its cable, or by the switch of the graph that it names.

        named  its device and port
        """
        link, index, (device, port) = self._groups["link"], self._index, named
        place = index.find(component, labels, device, port) if index is not None else None
        if place is not None:
            link.put(row, place.cable, place.title)
            title = place.title if place.near else ""  # the adapter's own row has the current name of its node
        elif port or labels.get("netdev"):
            link.put(row, component, str(component))
            place = index.below_neighbour(component, neighbour) if index is not None and neighbour is not None else None
            title = place.title if place is not None else str(component)
        else:
            return None
        if title:
            link.names[link.ids[row]] = title
        return place

    def _put_parts(self, row: int, node: str, device: str, labels: Labels) -> None:
        """Cage and batch of a port of a host (docs/methods.md#shared-parts)."""
        groups, number = self._groups, rail_index(device)
        if serial := labels.get("module_serial"):
            groups["cage"].put(row, (node, serial), f"{node}/{serial}")
        elif number is not None and labels.get("role", "unknown") in PLACED_ROLES and labels.get("port"):
            groups["cage"].put(row, (node, number // 2), f"{node}/{number // 2}")
        for batch in ("firmware", "board"):
            if label := labels.get(batch):
                groups[batch].put(row, label, label)

    def _put_leaf(self, row: int, place: CablePlace | None) -> bool:
        """Leaf and rail of a row; False where no leaf gives it a rail."""
        if place is None or place.leaf is None:
            return False
        self._put_below(row, place.leaf, place.leaf_name, {"ports": str(place.ports)} if place.ports else {})
        labels = place.leaf.labels
        self._socket[row] = place.socket
        if place.plain and place.socket > 0:
            plug = (place.socket + 1) // 2
            name = f"{place.leaf_name}/{2 * plug - 1}-{2 * plug}"
            self._groups["module"].put(row, (place.leaf.id, plug), name)
        if feed := labels.get("power"):
            self._groups["feed"].put(row, feed, feed)
        if not (labels.get("rail") and labels.get("unit")):
            return False
        rail = f"{labels['unit']}/{labels['rail']}"
        self._groups["rail"].put(row, rail, rail, {"rail": labels["rail"]})
        return True

    def _put_below(self, row: int, leaf: Switch, name: str, about: dict[str, str]) -> None:
        """A leaf, and what is above it: its pod, its plane, its network."""
        self._groups["leaf"].put(row, leaf.id, name, {"switch": leaf.name or leaf.id, "guid": leaf.id, **about})
        for domain, stage in self._stages.get(leaf.id, {}).items():
            self._groups[domain].put(row, stage.name, stage.name, stage.about)

    def _put_swept(self, row: int, component: ComponentId, labels: Labels) -> None:
        groups = self._groups
        place = self._index.swept(labels) if self._index is not None else None
        self._swept[row] = place.adapter if place is not None else ""
        if place is None:
            groups["link"].put(row, component, component.name)
            return
        groups["link"].put(row, place.cable, place.title)
        if place.tier:
            groups["tier"].put(row, place.tier, place.tier)
        self._put_leaf(row, place)
        node, device = self._known_as.get(place.adapter) or self._host_and_device(place.adapter)
        if node:
            groups["host"].put(row, node, node)
            groups["nic"].put(row, (node, device), f"{node}/{device}" if device else node)
            if node in self._power:
                groups["power"].put(row, self._power[node], self._power[node])

    def _host_and_device(self, adapter: str) -> tuple[str, str]:
        """Host and device of an adapter by its description; empty unknown."""
        found = self._index.graph.adapters.get(adapter) if self._index is not None else None
        return (found.host, found.name) if found is not None else ("", "")

    def _place_by_lldp(self) -> None:
        """Leaves of the rows that only LLDP places. What is above these is not known: no pod, plane or network. Only
        rows that are new or changed are placed, and those of a switch that is."""
        if not self._neighbours_anew:
            return
        nodes = {component.node for component, _ in self._seen}
        taken = self._index.leaf_names.values() if self._index is not None else ()
        before, self._leaves = self._leaves, self._lldp.switches(nodes, taken)
        rows = self._neighbours_anew & self._below.keys()
        self._neighbours_anew = set()
        groups = self._groups["leaf"]
        for chassis in before.keys() | self._leaves.keys():
            if (switch := self._leaves.get(chassis)) == before.get(chassis):
                continue
            rows.update(row for row in self._lldp.rows(chassis) if row in self._below)
            if switch is not None:
                number = groups.number((LLDP, chassis), switch.name)
                groups.names[number] = switch.name
                groups.about[number] = {"switch": switch.name, "guid": chassis, "ports": str(switch.ports)}
        for row in sorted(rows):
            self._put_by_lldp(row)

    def _put_by_lldp(self, row: int) -> None:
        (neighbour, otherwise), component = self._below[row], self._seen[row][0]
        link, switch = self._groups["link"], self._leaves.get(neighbour.chassis)
        title = str(component)
        if switch is None:
            self._groups["leaf"].ids[row] = otherwise
        else:
            self._groups["leaf"].put(row, (LLDP, neighbour.chassis), switch.name)
            title = neighbour.title(component, switch.name)
        link.names[link.ids[row]] = title

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
            if row >= len(self._seen):
                continue
            self._groups["rail"].ids[row] = -1
            if known in names:
                self._groups["rail"].put(row, names[known], names[known])
