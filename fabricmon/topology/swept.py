"""The fabric as an agent swept it: what the labels of swept rows say, and the graph they make. Pure.

Labels of a swept PORT row, besides `device`, `port`, `link_layer`, `node_guid` and `role` as everywhere:
  swept        "switch" or "adapter": what the port belongs to
  remote       the far end in words, "leaf-3/12"; remote_guid and remote_port name it
and on the first row of each node: description, ports (how many it has), model (its PCI device id), system_guid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fabricmon.model import ComponentId
from fabricmon.topology.discovery import Discovery
from fabricmon.topology.graph import Cable, End, Graph
from fabricmon.topology.infer import annotate
from fabricmon.topology.names import NodeNames

Labels = Mapping[str, str]
ROLE = "fabric"
"""Role of every swept row: a view of the fabric, no port of the node that swept it."""


def labels_of(*, switch: bool, name: str, end: End, far: End, remote: str) -> dict[str, str]:
    """Labels of the row of `end`, a port of the node called `name`."""
    return {
        "swept": "switch" if switch else "adapter",
        "device": name,
        "port": str(end.port),
        "link_layer": "InfiniBand",
        "role": ROLE,
        "node_guid": end.node,
        "remote": remote,
        "remote_guid": far.node,
        "remote_port": str(far.port),
    }


def graph_of(rows: Iterable[tuple[ComponentId, Labels]]) -> Graph | None:
    """The topology that swept rows tell of; None where no row was swept. Rates are in the rows' values, not here."""
    found = Discovery(NodeNames())
    sweepers: set[str] = set()
    described: set[str] = set()  # two agents may sweep one subnet
    for component, labels in rows:
        swept = labels.get("swept")
        if not swept or not component.node:
            continue
        sweepers.add(component.node)
        guid, port, far = labels.get("node_guid", ""), labels.get("port", ""), labels.get("remote_guid", "")
        if not guid or not port.isdigit():
            continue
        kind = "S" if swept == "switch" else "H"
        known = "ports" in labels and guid not in described
        if known:
            described.add(guid)
        ports = labels.get("ports", "0")
        found.node(
            kind, guid, int(ports) if ports.isdigit() else 0, labels.get("description", labels.get("device", "")),
            device=labels.get("model", ""), system=labels.get("system_guid", ""), own=known,
        )  # fmt: skip
        if far and labels.get("remote_port", "").isdigit():
            found.link(End(guid, int(port)), End(far, int(labels["remote_port"])))
    if not sweepers:
        return None
    graph = found.graph()
    return annotate(msgspec.structs.replace(graph, source=f"swept by {', '.join(sorted(sweepers))}"))


def overlaid(plan: Graph | None, found: Graph | None) -> Graph | None:
    """The fabric as it is, with what a file knows besides: names and labels, and cables whose ends the sweep found
    nothing in. Levels, units and rails are worked out anew."""
    if plan is None or found is None:
        return found or plan
    switches = dict(plan.switches)
    for guid, switch in found.switches.items():
        said = plan.switches.get(guid)
        switches[guid] = switch if said is None else msgspec.structs.replace(
            switch, name=said.name or switch.name, labels={**switch.labels, **said.labels}, level=-1
        )  # fmt: skip
    adapters = dict(plan.adapters)
    for guid, adapter in found.adapters.items():
        named = plan.adapters.get(guid)
        if named is not None and named.host:
            adapter = msgspec.structs.replace(adapter, host=named.host, name=named.name)
        adapters[guid] = adapter
    taken = {end for link in found.cables for end in (link.a, link.b)}
    rated = {(link.a, link.b): link for link in plan.cables}
    cables: list[Cable] = [rated.get((link.a, link.b), link) for link in found.cables]
    cables += [link for link in plan.cables if link.a not in taken and link.b not in taken]
    hosts: dict[str, dict[str, str]] = {adapter.host: {} for adapter in adapters.values() if adapter.host}
    source = f"{found.source} over {plan.source}" if plan.source else found.source
    aggregation = {**plan.aggregation, **found.aggregation}
    return annotate(
        msgspec.structs.replace(
            plan, switches=switches, adapters=adapters, cables=tuple(cables), hosts=hosts | plan.hosts, source=source,
            aggregation=aggregation,
        )
    )  # fmt: skip
