"""A subnet as it was walked: nodes, their ports, and the cables between them. Pure.

Nodes and cables are remembered for a while: a cable that was cut still has two ends, and a node that does not answer is
silent, not gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fabricmon.fabric import mad
from fabricmon.topology.discovery import Discovery
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.names import NodeNames

DOWN, INIT, ACTIVE = 1, 2, 4  # logical states of a port
LINK_UP = 5  # physical state


class At(NamedTuple):
    """One port: GUID of its node, number."""

    node: int
    port: int


NOWHERE = At(0, 0)


@dataclass(slots=True)
class Port:
    """State of a port by its PortInfo.

    width  lanes, speed Gb/s of a lane; meaningless while the port is down
    most   bytes per second that the port supports, 0 unknown
    lid    of an adapter's port, 0 for a switch's
    guid   of an adapter's port, 0 for a switch's
    far    the other end of its cable; None unknown
    """

    number: int
    state: int = 0
    phys_state: int = 0
    width: int = 0
    speed: float = 0.0
    most: float = 0.0
    lid: int = 0
    sm_lid: int = 0
    lmc: int = 0
    guid: int = 0
    far: At | None = None

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.width * self.speed * 1e9 / 8


@dataclass(slots=True)
class FabricNode:
    """A switch or an adapter.

    size          number of ports; `ports` has those that were queried: all of a switch, with its own port 0
    route         a directed route to it
    lid, lmc      of a switch
    capabilities  masks of its performance management, None unknown
    missing       monotonic seconds since when it does not answer, None while it does
    """

    guid: int
    kind: int
    size: int
    route: bytes
    description: str = ""
    system: int = 0
    device: int = 0
    vendor: int = 0
    lid: int = 0
    lmc: int = 0
    enhanced: bool = False
    capabilities: tuple[int, int] | None = None
    missing: float | None = None
    ports: dict[int, Port] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        return self.kind == mad.SWITCH

    def lid_of(self, port: int) -> int:
        """LID for packets to a port; 0 while the subnet manager has assigned none."""
        if self.is_switch:
            return self.lid
        known = self.ports.get(port)
        return known.lid if known is not None else 0


@dataclass(slots=True)
class Subnet:
    """origin  the port it was walked from
    whole   every request of the walk was answered
    cut     the deadline passed before the walk had ended
    mute    ports with their link up whose far end did not answer
    """

    nodes: dict[int, FabricNode] = field(default_factory=dict)
    origin: At = NOWHERE
    whole: bool = True
    cut: bool = False
    mute: list[At] = field(default_factory=list)

    def port(self, at: At) -> Port | None:
        node = self.nodes.get(at.node)
        return node.ports.get(at.port) if node is not None else None

    def linked(self) -> Iterator[tuple[FabricNode, Port]]:
        """Every port that is, or was, one end of a cable."""
        for node in self.nodes.values():
            for port in node.ports.values():
                if port.far is not None:
                    yield node, port

    def open_ports(self) -> Iterator[At]:
        """Every port of a switch without a known far end: nothing plugged in, a link that is down, a mute far end."""
        for node in self.nodes.values():
            for port in node.ports.values():
                if node.is_switch and node.missing is None and port.number and port.far is None:
                    yield At(node.guid, port.number)

    def join(self, a: At, b: At) -> None:
        """A cable between two known ports."""
        for near, far in ((a, b), (b, a)):
            port = self.port(near)
            if port is not None:
                port.far = far


def remember(old: Subnet, new: Subnet, now: float, keep: float) -> Subnet:
    """`new` with the nodes and cables of `old` that vanished less than `keep` seconds ago.

    A cable is remembered while neither of its ends is plugged into another port.
    """
    nodes = dict(new.nodes)
    for guid, node in old.nodes.items():
        if guid not in nodes:
            since = now if node.missing is None else node.missing
            if now - since < keep:
                nodes[guid] = replace(
                    node, missing=since, ports={n: replace(p, far=None) for n, p in node.ports.items()}
                )
        else:
            # ports that the walk did not reach this time: the second port of an adapter whose cable was pulled
            for number, port in node.ports.items():
                nodes[guid].ports.setdefault(number, replace(port, far=None, state=DOWN, phys_state=0))
    merged = Subnet(nodes, new.origin, new.whole, new.cut)
    for node, port in old.linked():
        here, there = At(node.guid, port.number), port.far
        assert there is not None
        mine, theirs = merged.port(here), merged.port(there)
        if mine is not None and theirs is not None and mine.far is None and theirs.far in (None, here):
            merged.join(here, there)
    return merged


def graph_of(subnet: Subnet, names: NodeNames | None = None) -> Graph:
    """The subnet as topology, with names of switches and hosts and the rates of links that are up."""
    found = Discovery(names or NodeNames())
    for node in subnet.nodes.values():
        first = next((p.guid for p in node.ports.values() if p.guid), 0)
        found.node(
            "S" if node.is_switch else "H", guid_text(node.guid), node.size, node.description,
            device=f"0x{node.device:04x}", system=f"{node.system:x}" if node.system else "",
            port_guid=f"{first:x}" if first and not node.is_switch else "",
        )  # fmt: skip
        if not node.is_switch:
            for port in node.ports.values():
                if port.guid:
                    found.port_guid(guid_text(node.guid), port.number, f"{port.guid:x}")
    for node, port in subnet.linked():
        assert port.far is not None
        up = port.phys_state == LINK_UP
        far = End(guid_text(port.far.node), port.far.port)
        rate, width = (port.rate, port.width) if up else (0.0, 0)
        found.link(End(guid_text(node.guid), port.number), far, rate, width, port.most)
    return found.graph()


def guid_text(guid: int) -> str:
    return f"0x{guid:016x}"
