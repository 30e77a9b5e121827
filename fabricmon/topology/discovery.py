"""Builds a graph with findings from nodes and one-directional sightings of links.

Every link of a complete dump is seen from both ends (docs/methods.md#infiniband-dumps). A node that is only mentioned
as a peer is kept: a dump may be cut or may list one direction only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from msgspec.structs import replace

from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Switch, cable
from fabricmon.topology.names import NodeNames, guid, host_device, is_aggregation, switch_name

_LANE_GBPS = {
    "SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.3125, "FDR": 14.0625, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0,
    "XDR": 200.0,
}  # fmt: skip
"""Nominal Gb/s of one lane (IBA volume 1, LinkSpeedActive and LinkSpeedExtActive)."""

_MODELS = {
    "0xd2f0": "Quantum", "0xd2f2": "Quantum-2", "0xd2f4": "Quantum-3", "0xcb20": "Switch-IB", "0xcf08": "Switch-IB 2",
    "0xc738": "SwitchX", "0x1013": "ConnectX-4", "0x1015": "ConnectX-4 Lx", "0x1017": "ConnectX-5",
    "0x1019": "ConnectX-5 Ex", "0x101b": "ConnectX-6", "0x101d": "ConnectX-6 Dx", "0x1021": "ConnectX-7",
    "0x1023": "ConnectX-8", "0x1011": "Connect-IB",
}  # fmt: skip


def lane_rate(width: str, speed: str) -> tuple[float, int]:
    """("4", "NDR") -> (bytes per second, lanes); zeros where the words are unknown."""
    lanes = int(width) if width.isdecimal() else 0
    return lanes * _LANE_GBPS.get(speed.upper(), 0.0) * 1e9 / 8, lanes


LID_UNSET = frozenset({0, 0xFFFF})
"""LIDs of a port that no subnet manager has configured: none, and the permissive LID (IBA volume 1, 4.1.3)."""
LIDS_SHARED = 0.5
"""Where more than half of the ports share their LID the file was not written by a subnet (generated, anonymised): its
LIDs identify no port."""

UNREAD_KEPT = 64
"""Lines that could not be parsed and are named in the finding; the rest is counted."""


class Sighting(NamedTuple):
    """A link as one end reports it."""

    far: End
    rate: float
    width: int
    most: float  # bytes per second that this end supports, 0 unknown


class Discovery:
    """Collects nodes and sightings in file order; `graph()` closes it."""

    def __init__(self, names: NodeNames) -> None:
        self._names = names
        self._switches: dict[str, Switch] = {}
        self._adapters: dict[str, Adapter] = {}
        self._aggregation: dict[str, str] = {}
        self._seen: dict[End, Sighting] = {}
        self._conflicts: list[str] = []
        self._unread: list[str] = []
        self._unread_count = 0
        self._unanswered: dict[str, None] = {}
        self._own: set[str] = set()
        self._twice: list[str] = []
        self._lids: dict[End, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._switches) + len(self._adapters) + len(self._aggregation)

    def node(
        self, kind: str, node: str, ports: int, description: str, *,
        device: str = "", system: str = "", port_guid: str = "", own: bool = True, by_port: bool = False,
    ) -> str:
        """A switch ("S") or channel adapter ("H") with its id in any spelling; returns the id of the graph.

        own      the dump describes this node; a mention as a peer never overwrites such a description
        by_port  `node` is the GUID of an adapter's port, as the one-line form prints it
        """
        key = guid(node)
        if not own and (key in self._switches or key in self._adapters or key in self._aggregation):
            return key
        text = self._names.get(key, description.strip())
        if own:
            if key in self._own:
                self._twice.append(f"{key} ({self._described(key)}) and ({text})")
            self._own.add(key)
        labels = {"sys_image_guid": guid(system)} if system else {}
        if kind == "S":
            name, model, parts = switch_name(text)
            model = model or _MODELS.get(device.lower(), "")
            self._switches[key] = Switch(key, name, model=model, ports=ports, labels={**labels, **parts})
        elif is_aggregation(description, device):
            self._adapters.pop(key, None)
            self._aggregation.setdefault(key, "")
        elif key not in self._aggregation:
            host, name = host_device(text)
            if by_port:
                labels["port_guid"] = key
            else:
                labels["node_guid"] = key
                if port_guid:
                    labels["port_guid"] = guid(port_guid)
            if model := _MODELS.get(device.lower(), ""):
                labels["model"] = model
            self._adapters[key] = Adapter(key, host, name, description.strip(), ports, labels)
        return key

    def port_guid(self, node: str, port: int, text: str) -> None:
        """An adapter's own port GUID; the first port's is the label "port_guid", later ones "port_guid/<port>"."""
        if adapter := self._adapters.get(node):
            adapter.labels["port_guid" if port == 1 else f"port_guid/{port}"] = guid(text)

    def known(self, node: str) -> str:
        """The id of a described node by its GUID. KeyError."""
        key = guid(node)
        if key not in self._own:
            raise KeyError(key)
        return key

    def is_switch(self, node: str) -> bool:
        return node in self._switches

    def lid(self, node: str, port: int, lid: int, lmc: int = 0) -> None:
        """The LID of an adapter's port, or of a switch (port 0)."""
        self._lids[End(node, port)] = lid, lmc

    def _described(self, node: str) -> str:
        adapter, switch = self._adapters.get(node), self._switches.get(node)
        return adapter.description if adapter else switch.name if switch else ""

    def unread(self, number: int, line: str) -> None:
        """Note a line that could not be parsed; the first ones are kept for the finding."""
        self._unread_count += 1
        if len(self._unread) < UNREAD_KEPT:
            self._unread.append(f"line {number}: {line.strip()[:80]}")

    @property
    def first_unread(self) -> str:
        """The first line that could not be parsed; "" where there is none."""
        return self._unread[0] if self._unread else ""

    def unanswered(self, route: str) -> None:
        """Note a query of the discovery that was not answered; the first ones are kept."""
        if len(self._unanswered) < UNREAD_KEPT:
            self._unanswered[route] = None

    def link(self, near: End, far: End, rate: float = 0.0, width: int = 0, most: float = 0.0) -> None:
        """Add a link from `near` to `far`, as seen from `near`, which supports `most` bytes per second (0 unknown)."""
        before = self._seen.get(near)
        if before is not None and before.far != far:
            self._conflicts.append(f"{near.node}/{near.port} has two different peers")
            return
        self._seen[near] = Sighting(far, rate, width, most)

    def graph(self) -> Graph:
        self._name_switches()
        cables: dict[tuple[End, End], Cable] = {}
        one_sided: list[Cable] = []
        for near, sight in self._seen.items():
            back = self._seen.get(sight.far)
            if near.node in self._aggregation or sight.far.node in self._aggregation:
                self._aggregate(near.node, sight.far.node)
                continue
            if back is not None and back.far != near:
                self._conflicts.append(
                    f"{near.node}/{near.port} has the peer {sight.far.node}/{sight.far.port}, "
                    f"which has the peer {back.far.node}/{back.far.port}"
                )
            link = cable(near, sight.far, sight.rate, sight.width, None, min(sight.most, back.most) if back else 0.0)
            if (link.a, link.b) not in cables:
                if back is not None and 0 < back.rate < link.rate:  # a link that trained down between the two lines
                    link = replace(link, rate=back.rate, width=back.width)
                cables[link.a, link.b] = link
                if back is None:
                    one_sided.append(link)
        hosts: dict[str, dict[str, str]] = {a.host: {} for a in self._adapters.values() if a.host}
        graph = Graph(
            self._switches, self._adapters, tuple(cables.values()), hosts, aggregation=self._aggregation
        )
        return replace(graph, findings=self._findings(graph, one_sided))

    def _aggregate(self, a: str, b: str) -> None:
        node, switch = (a, b) if a in self._aggregation else (b, a)
        if switch in self._switches:
            self._aggregation[node] = switch

    def _name_switches(self) -> None:
        """Make the names of switches unique: ASICs of one box by number, factory texts and repetitions by GUID."""
        boxes = Counter(switch.name for switch in self._switches.values())
        for key, switch in self._switches.items():
            if switch.name and boxes[switch.name] > 1 and "asic" in switch.labels and "card" not in switch.labels:
                self._switches[key] = replace(switch, name=f"{switch.name}/U{switch.labels['asic']}")
        counted = Counter(switch.name for switch in self._switches.values())
        for key, switch in self._switches.items():
            if not switch.name or counted[switch.name] > 1:
                self._switches[key] = replace(switch, name=f"{switch.name or 'switch'}-{key.removeprefix('0x')}")

    def _findings(self, graph: Graph, one_sided: list[Cable]) -> tuple[Finding, ...]:
        bare = (graph.switches.keys() | graph.adapters.keys() | self._aggregation.keys()) - self._own
        bare = bare if self._own else set()  # the one-line form has no records of nodes
        partial = [link for link in one_sided if link.a.node not in bare and link.b.node not in bare]
        found = (
            Finding("missing_record", tuple(sorted(graph.name(node) for node in bare)),
                    f"{len(bare)} of {len(self)} nodes appear only as the far end of a link and have no record: the "
                    "dump ends in the middle, or they did not answer"),
            Finding("one_sided_link", tuple(graph.title(link) for link in partial),
                    f"{len(partial)} of {len(graph.cables)} links are seen from one end only: the dump is partial"),
            Finding("unanswered", tuple(self._unanswered),
                    "queries of the discovery were not answered: the nodes at these routes, and what is behind them, "
                    "are missing from the dump"),
            Finding("duplicate_guid", tuple(self._twice),
                    f"{len(self._twice)} GUIDs are described twice: cloned firmware, or two dumps in one file"),
            *self._lid_findings(graph),
            Finding("conflicting_record", tuple(self._conflicts),
                    f"{len(self._conflicts)} records contradict each other"),
            Finding("unread_line", tuple(self._unread), f"{self._unread_count} lines could not be parsed"),
        )  # fmt: skip
        return tuple(finding for finding in found if finding.components)

    def _lid_findings(self, graph: Graph) -> tuple[Finding, ...]:
        """Ports without a LID, and ports with the LID of another."""
        unset, owners = [], defaultdict(list)
        for end, (lid, lmc) in self._lids.items():
            name = graph.describe(end) if end.port else graph.name(end.node)
            if lid in LID_UNSET:
                unset.append(name)
            else:
                owners[lid >> lmc << lmc].append(name)
        shared = {lid: names for lid, names in owners.items() if len(names) > 1}
        count = sum(map(len, shared.values()))
        if count > LIDS_SHARED * len(self._lids):
            shared, count = {}, 0
        return (
            Finding("lid_unset", tuple(sorted(unset)),
                    f"{len(unset)} of {len(self._lids)} ports have no LID (0 or 65535): the subnet manager has not "
                    "configured them, or does not reach them"),
            Finding("duplicate_lid", tuple(f"LID {lid}: {', '.join(names)}" for lid, names in sorted(shared.items())),
                    f"{count} ports share {len(shared)} LIDs: two subnet managers, or a port kept an old LID"),
        )  # fmt: skip
