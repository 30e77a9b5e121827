"""The fabric as an agent swept it: the labels of swept rows, and their graph. Pure.

Labels of a swept PORT row, besides `device`, `port`, `link_layer`, `node_guid` and `role`:
  swept        "switch" or "adapter": the port's node
  remote       the far end's display name, "leaf-3/12"; remote_guid and remote_port identify it
and on the first row of each node: description, ports (their number), model (PCI device id), system_guid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fabricmon.model import ComponentId
from fabricmon.topology import findings, merge
from fabricmon.topology.discovery import Discovery
from fabricmon.topology.graph import End, Graph, Origin, Role
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
    """The topology of swept rows, without rates; None where no row was swept."""
    found = Discovery(NodeNames())
    sweepers: set[str] = set()
    described: set[str] = set()  # two agents may sweep one subnet
    for component, labels in rows:
        swept = labels.get("swept")
        if not swept or not component.node:
            continue
        sweepers.add(component.node)
        guid, port, far = labels.get("node_guid", ""), labels.get("port", ""), labels.get("remote_guid", "")
        if not guid or not port.isdecimal():
            continue
        kind = "S" if swept == "switch" else "H"
        known = "ports" in labels and guid not in described
        if known:
            described.add(guid)
        ports = labels.get("ports", "0")
        found.node(
            kind, guid, int(ports) if ports.isdecimal() else 0, labels.get("description", labels.get("device", "")),
            device=labels.get("model", ""), system=labels.get("system_guid", ""), own=known,
        )  # fmt: skip
        if far and labels.get("remote_port", "").isdecimal():
            found.link(End(guid, int(port)), End(far, int(labels["remote_port"])))
    if not sweepers:
        return None
    graph = found.graph()
    return annotate(msgspec.structs.replace(graph, source=f"swept by {', '.join(sorted(sweepers))}"))


def overlaid(plan: Graph | None, found: Graph | None, taken: float) -> Graph | None:
    """The fabric as it was swept at `taken` (seconds since the Unix epoch), merged with the topology of files, with the
    contradictions among its findings. A file's names of switches win: it may have a node name map."""
    if plan is None or found is None:
        return plan if found is None else findings.check(found)
    named = {
        guid: msgspec.structs.replace(switch, name=plan.switches[guid].name) if guid in plan.switches else switch
        for guid, switch in found.switches.items()
    }
    origin = Origin("sweep", found.source, Role.LIVE, taken)
    swept = msgspec.structs.replace(found, switches=named, origins=(origin,))
    known = plan if plan.origins else msgspec.structs.replace(plan, origins=(Origin("plan", plan.source, Role.PLAN),))
    return findings.check(annotate(merge.merge([swept, known])))
