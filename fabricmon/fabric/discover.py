"""Walks a subnet breadth first along directed routes: no subnet manager and no forwarding table is needed for it.

Each hop is two batches: NodeInfo at the end of each cable, then the attributes of the new nodes and all their ports.
The last batch reads by LID the capabilities of each node's performance management.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabricmon.fabric import mad
from fabricmon.fabric.exchange import BatchOutcome, Exchange
from fabricmon.fabric.subnet import LINK_UP, At, FabricNode, Port, Subnet
from fabricmon.fabric.transport import Request

MOST_NODES = 120_000
"""Nodes of one subnet: LIDs end at 49,151, and a node has at least one."""


@dataclass(slots=True)
class _Step:
    """A cable to follow: the port to leave by, or the local port itself (`leave` None)."""

    route: bytes
    leave: At | None


def discover(exchange: Exchange, until: float, known: Subnet | None = None) -> Subnet:
    """The subnet around the local port; as much of it as answers before `until` (the exchange's clock).

    known  the former subnet: all cables that lead to one node that does not answer cost one timeout together
    """
    subnet = Subnet()
    steps = [_Step(b"\0", None)]
    while steps:
        fresh = _ask_ends(exchange, subnet, steps, until, known)
        _ask_nodes(exchange, subnet, fresh, until)
        steps = [
            _Step(node.route + bytes((port.number,)), At(node.guid, port.number))
            for node, _ in fresh
            for port in node.ports.values()
            if port.phys_state == LINK_UP and port.number and port.far is None
            # an adapter forwards nothing, except the local one
            and (node.is_switch or (At(node.guid, port.number) == subnet.origin))
            and len(node.route) <= mad.MAX_HOPS
        ]
        if len(subnet.nodes) > MOST_NODES or exchange.clock() >= until:
            subnet.cut = bool(steps)
            break
    _capabilities(exchange, subnet, until)
    return subnet


def same_manager(exchange: Exchange, subnet: Subnet, until: float) -> bool:
    """Whether the local port still has the LID and the subnet manager of the walk. If not, other LIDs may have changed
    too, and counters would be assigned to the wrong node."""
    port = subnet.port(subnet.origin)
    request = Request(mad.PERMISSIVE, mad.directed(b"\0", mad.PORT_INFO, subnet.origin.port))
    outcome = exchange.run(exchange.transport.pack([request]), [subnet.origin.node], until)
    datagram = outcome.datagram(0)
    if datagram is None or port is None:
        return False
    info = mad.decode(mad.PORT_INFO, datagram)
    return (info["lid"], info["sm_lid"]) == (port.lid, port.sm_lid)


def _ask_ends(
    exchange: Exchange, subnet: Subnet, steps: list[_Step], until: float, known: Subnet | None
) -> list[tuple[FabricNode, int]]:
    """NodeInfo at the end of each step. Returns the ports not known before: (node, number of the port entered by)."""
    owner = [-1 - number if (far := _known_far(step, known)) is None else far for number, step in enumerate(steps)]
    packed = exchange.transport.pack(
        [Request(mad.PERMISSIVE, mad.directed(step.route, mad.NODE_INFO)) for step in steps]
    )
    outcome = exchange.run(packed, owner, until)
    fresh: list[tuple[FabricNode, int]] = []
    for number, step in enumerate(steps):
        datagram = outcome.datagram(number)
        if datagram is None:
            subnet.whole = False
            subnet.mute += [step.leave] if step.leave is not None else []
            continue
        info = mad.decode(mad.NODE_INFO, datagram)
        guid, entry = info["node_guid"], info["local_port"]
        if not guid:
            subnet.whole = False  # firmware without an identity
            continue
        if _enter(subnet, info, step.route):
            fresh.append((subnet.nodes[guid], entry))
        if step.leave is None:
            subnet.origin = At(guid, entry)
        else:
            subnet.join(step.leave, At(guid, entry))
    return fresh


def _known_far(step: _Step, known: Subnet | None) -> int | None:
    """GUID of the node that was at the end of a cable before."""
    port = known.port(step.leave) if known is not None and step.leave is not None else None
    return port.far.node if port is not None and port.far is not None else None


def _enter(subnet: Subnet, info: Mapping[str, int], route: bytes) -> bool:
    """Take over a NodeInfo. Returns whether the node, or the adapter's port, is new."""
    guid, entry = info["node_guid"], info["local_port"]
    node = subnet.nodes.get(guid)
    fresh = node is None or (not node.is_switch and entry not in node.ports)
    if node is None:
        node = subnet.nodes[guid] = FabricNode(
            guid, info["node_type"], info["ports"], route, system=info["system_guid"], device=info["device"],
            vendor=info["vendor"],
        )  # fmt: skip
        if node.is_switch:
            node.ports = {port: Port(port) for port in range(node.size + 1)}
    if not node.is_switch:
        node.ports.setdefault(entry, Port(entry, guid=info["port_guid"]))
    return fresh


def _ask_nodes(exchange: Exchange, subnet: Subnet, fresh: list[tuple[FabricNode, int]], until: float) -> None:
    """Description, switch information and ports of new nodes."""
    requests: list[Request] = []
    asked: list[tuple[FabricNode, mad.Attribute, int]] = []

    def ask(node: FabricNode, attribute: mad.Attribute, modifier: int = 0) -> None:
        requests.append(Request(mad.PERMISSIVE, mad.directed(node.route, attribute, modifier)))
        asked.append((node, attribute, modifier))

    for node, entry in fresh:
        if not node.description:
            ask(node, mad.NODE_DESCRIPTION)
        if node.is_switch:
            ask(node, mad.SWITCH_INFO)
            for port in range(node.size + 1):
                ask(node, mad.PORT_INFO, port)
        else:
            ask(node, mad.PORT_INFO, entry)
    outcome = exchange.run(exchange.transport.pack(requests), [node.guid for node, _, _ in asked], until)
    for number, (node, attribute, modifier) in enumerate(asked):
        datagram = outcome.datagram(number)
        if datagram is None:
            subnet.whole = False
        elif attribute is mad.NODE_DESCRIPTION:
            node.description = mad.description(datagram)
        elif attribute is mad.SWITCH_INFO:
            node.enhanced = bool(mad.decode(mad.SWITCH_INFO, datagram)["enhanced_port0"])
        else:
            read_port(node, modifier, datagram)


def read_port(node: FabricNode, number: int, datagram: memoryview) -> None:
    """Take over the PortInfo of one port."""
    info = mad.decode(mad.PORT_INFO, datagram)
    port = node.ports[number]
    port.state, port.phys_state = info["state"], info["phys_state"]
    port.width = mad.width_of(info["width_active"])
    port.speed = mad.lane_speed(info["speed_active"], info["speed_ext_active"], info["speed_ext2_active"])
    supported = mad.fastest(info["width_supported"], info["speed_supported"], info["speed_ext_supported"]) * 1e9 / 8
    port.most = 0.0 if info["speed_ext2_active"] else supported  # newer speeds are not among the bits
    if not node.is_switch or number == 0:
        port.lid, port.sm_lid, port.lmc = info["lid"], info["sm_lid"], info["lmc"]
        if node.is_switch:
            node.lid, node.lmc = port.lid, port.lmc


def _capabilities(exchange: Exchange, subnet: Subnet, until: float) -> None:
    """Read the capabilities of each node's performance management."""
    asked = [(node, lid) for node in subnet.nodes.values() if (lid := _any_lid(node))]
    packed = exchange.transport.pack([Request(lid, mad.performance(mad.CLASS_PORT_INFO, 0)) for _, lid in asked])
    outcome: BatchOutcome = exchange.run(packed, [node.guid for node, _ in asked], until)
    for number, (node, _) in enumerate(asked):
        datagram = outcome.datagram(number)
        if datagram is not None:
            info = mad.decode(mad.CLASS_PORT_INFO, datagram)
            node.capabilities = info["capabilities"], info["capabilities2"]


def _any_lid(node: FabricNode) -> int:
    return node.lid if node.is_switch else next((p.lid for p in node.ports.values() if p.lid), 0)
