"""The names of the fabric as the evaluation knows them now."""

from __future__ import annotations

from collections.abc import Iterator

from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.notify.known_names import FabricNames


def fabric_names(evaluator: Evaluator) -> FabricNames:
    """Nodes of targets and of the topology, incidents, and the words of all components."""
    current, graph = evaluator.current(), evaluator.engine.topology()
    nodes = {node.node for node in evaluator.engine.nodes()} | set(graph.hosts if graph is not None else ())
    incidents = {incident.id: incident.component for incident in current.incidents}

    def components() -> Iterator[str]:
        yield from incidents.values()
        yield from (f"host({node})" for node in nodes)
        for table in evaluator.engine.fleet.tables.values():
            for domain, names in (table.domains.names if table.domains is not None else {}).items():
                yield from (f"{domain}({name})" for name in names)
            yield from (f"{id.kind.value}({id})" for id in table.ids if id.node)

    return FabricNames(nodes, incidents.keys(), components)
