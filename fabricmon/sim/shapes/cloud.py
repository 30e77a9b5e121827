"""Hosts of a cloud, whose switches are not visible. Pure."""

from __future__ import annotations

from fabricmon.sim.shapes.lay import Lay, numbered, positive
from fabricmon.topology.graph import Graph, Switch, trunk
from fabricmon.topology.infer import annotate


def efa(hosts: int = 16, adapters: int = 32, nodes: tuple[int, int, int] = (8, 4, 2)) -> Graph:
    """Hosts with `adapters` EFA devices and the provider's three layers of network nodes above them, without ports.

    nodes  hosts below a node of the nearest layer, nearest nodes below one of the middle layer, and those below a top
    """
    positive(hosts=hosts, adapters=adapters, nearest=nodes[0], middle=nodes[1], top=nodes[2])
    lay = Lay()
    switches: dict[str, Switch] = {}
    attached: dict[str, tuple[str, ...]] = {}
    joined: dict[tuple[str, str], None] = {}
    for number, name in enumerate(numbered("host", hosts)):
        lay.host(name)
        for device in range(adapters):
            lay.adapter(name, f"rdmap{device}s0")
        near = number // nodes[0]
        above = (f"nn-3-{near}", f"nn-2-{near // nodes[1]}", f"nn-1-{near // nodes[1] // nodes[2]}")
        for level, node in enumerate(above):
            switches.setdefault(node, Switch(node, node, level))
        attached[name] = (above[0],)
        joined[trunk(above[0], above[1])] = joined[trunk(above[1], above[2])] = None
    made = lay.graph()
    return annotate(
        Graph(switches, made.adapters, (), made.hosts, "simulated", attached=attached, trunks=tuple(joined))
    )
