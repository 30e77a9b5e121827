"""A subnet in the format of `ibnetdiscover`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fabricmon.fabric import mad
from fabricmon.fabric.subnet import LINK_UP, FabricNode, Port, Subnet


def ibnetdiscover(subnet: Subnet) -> str:
    """Every node that answers, with its links that are up; switches first, as the tool prints them."""
    here = subnet.nodes.get(subnet.origin.node)
    own = here.ports.get(subnet.origin.port) if here is not None else None
    lines = ["#", "# Topology file: written by fabricmon", "#"]
    if own is not None:
        lines.append(f"# Initiated from node {subnet.origin.node:016x} port {own.guid:016x}")
    for wanted in (True, False):
        for node in subnet.nodes.values():
            if node.is_switch is wanted and node.missing is None:
                lines += ["", *_node(subnet, node)]
    return "\n".join(lines) + "\n"


def _node(subnet: Subnet, node: FabricNode) -> Iterator[str]:
    yield f"vendid=0x{node.vendor:x}"
    yield f"devid=0x{node.device:x}"
    yield f"sysimgguid=0x{node.system:x}"
    if node.is_switch:
        yield f"switchguid=0x{node.guid:x}({node.guid:x})"
        port0 = "enhanced" if node.enhanced else "base"
        yield f'Switch\t{node.size} {_id(node)}\t\t# "{node.description}" {port0} port 0 lid {node.lid} lmc {node.lmc}'
    else:
        word = "rt" if node.kind == mad.ROUTER else "ca"
        yield f"{word}guid=0x{node.guid:x}"
        yield f'{word.capitalize()}\t{node.size} {_id(node)}\t\t# "{node.description}"'
    for port in sorted(node.ports.values(), key=lambda port: port.number):
        far_at = port.far
        far_node = subnet.nodes.get(far_at.node) if far_at is not None else None
        far = subnet.port(far_at) if far_at is not None else None
        if far_node is None or far is None or far_node.missing is not None or port.phys_state != LINK_UP:
            continue
        rate = f"{port.width}x{mad.SPEED_WORDS.get(port.speed, '???')}"
        peer = f"{_id(far_node)}[{far.number}]"
        lid = far_node.lid_of(far.number)
        if node.is_switch:
            peer_guid = f"({far.guid:x}) " if far.guid else ""
            yield f'[{port.number}]\t{peer}{peer_guid}\t\t# "{far_node.description}" lid {lid} {rate}'
        else:
            yield (
                f"[{port.number}]({port.guid:x}) \t{peer}{_guid(far)}\t\t"
                f'# lid {port.lid} lmc {port.lmc} "{far_node.description}" lid {lid} {rate}'
            )


def _guid(far: Port) -> str:
    return f" ({far.guid:x}) " if far.guid else ""


def _id(node: FabricNode) -> str:
    letter = {mad.SWITCH: "S", mad.ROUTER: "R"}.get(node.kind, "H")
    return f'"{letter}-{node.guid:016x}"'
