"""The plan of the fabric: what its files say, where Kubernetes' nodes say they stand, what targets say of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fabricmon import sources
from fabricmon.config import ConfigError, Problem, Root
from fabricmon.topology.graph import Graph


class Plan(NamedTuple):
    """What is known of the fabric beforehand.

    files  what each file of the configuration says
    nodes  what the labels of Kubernetes' nodes say, None where nothing
    graph  all of it laid over each other, None where there is nothing
    """

    files: tuple[Graph, ...]
    nodes: Graph | None
    graph: Graph | None

    def with_nodes(self, nodes: Graph | None) -> Plan:
        """The same with other labels. A large fabric takes seconds."""
        return laid(self.files, nodes)


def laid(files: tuple[Graph, ...], nodes: Graph | None) -> Plan:
    """Files and labels laid over each other."""
    parts = [*files, nodes] if nodes is not None else files
    return Plan(files, nodes, sources.merged(parts) if parts else None)


def load(config: Root, nodes: Graph | None = None) -> Plan:
    """The plan that the configuration names; ConfigError where it cannot be used."""
    topology, where = config.topology, config.path or "command line"
    named = {f"topology.files[{at}]": path for at, path in enumerate(topology.files)}
    if topology.file:
        named = {"topology.file": topology.file, **named}
    try:
        names = sources.node_names(topology.node_names if named else "")
    except sources.SourceError as error:
        raise ConfigError(Problem(where, 0, "topology.node_names", str(error))) from error
    graphs, problems = [], []
    for key, path in named.items():
        try:
            graphs.append(sources.read(path, names))
        except sources.SourceError as error:
            problems.append(Problem(where, 0, key, str(error)))
    if problems:
        raise ConfigError(*problems)
    return laid(tuple(graphs), nodes)


def placed(graph: Graph | None, places: Mapping[str, Mapping[str, str]]) -> Graph | None:
    """The graph with what targets and configuration say of where hosts stand. What the plan itself says wins."""
    if not places:
        return graph
    base = graph or Graph({}, {}, ())
    hosts = {host: {**labels, **base.hosts.get(host, {})} for host, labels in places.items()}
    return msgspec.structs.replace(base, hosts={**base.hosts, **hosts})
