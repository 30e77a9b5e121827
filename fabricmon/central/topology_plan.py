"""The plan of the fabric: topology files, labels of Kubernetes nodes, labels of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from fabricmon import sources
from fabricmon.central.topology_cache import ParsedTopology, TopologyCache, key_of
from fabricmon.config import ConfigError, ConfigProblem, Root
from fabricmon.topology.graph import Graph


class TopologyPlan(NamedTuple):
    """The configured topology.

    files  one graph per configured file
    nodes  from labels of Kubernetes nodes, None without any
    graph  all merged, None without any
    """

    files: tuple[Graph, ...]
    nodes: Graph | None
    graph: Graph | None

    def with_nodes(self, nodes: Graph | None) -> TopologyPlan:
        """The plan with other labels. A large fabric takes seconds."""
        return merged_plan(self.files, nodes)


def merged_plan(files: tuple[Graph, ...], nodes: Graph | None) -> TopologyPlan:
    """Files and labels merged."""
    parts = [*files, nodes] if nodes is not None else files
    return TopologyPlan(files, nodes, sources.merged(parts) if parts else None)


def load_plan(config: Root, nodes: Graph | None = None, kept: TopologyCache | None = None) -> TopologyPlan:
    """The plan that the configuration names; ConfigError where it cannot be used. `kept`: of the last start."""
    topology = config.topology
    named = {f"topology.files[{at}]": path for at, path in enumerate(topology.files)}
    if topology.file:
        named = {"topology.file": topology.file, **named}
    paths = [path for path in (*named.values(), topology.node_names) if path]
    key = _key(paths) if kept is not None and named else None
    if kept is not None and key is not None and (parsed := kept.read(key)) is not None:
        plan = TopologyPlan(parsed.files, None, parsed.merged)
    else:
        plan = merged_plan(_parsed(config, named), None)
        if kept is not None and key is not None and plan.graph is not None and key == _key(paths):
            kept.write(key, ParsedTopology(plan.files, plan.graph))
    return plan if nodes is None else plan.with_nodes(nodes)


def _key(paths: Sequence[str]) -> bytes | None:
    try:
        return key_of(paths)
    except (OSError, ValueError):
        return None


def _parsed(config: Root, named: Mapping[str, str]) -> tuple[Graph, ...]:
    topology, where = config.topology, config.path or "command line"
    try:
        names = sources.node_names(topology.node_names if named else "")
    except sources.SourceError as error:
        raise ConfigError(ConfigProblem(where, 0, "topology.node_names", str(error))) from error
    graphs, problems = [], []
    for key, path in named.items():
        try:
            graphs.append(sources.parse_file(path, names))
        except sources.SourceError as error:
            problems.append(ConfigProblem(where, 0, key, str(error)))
    if problems:
        raise ConfigError(*problems)
    return tuple(graphs)


def with_places(graph: Graph | None, places: Mapping[str, Mapping[str, str]]) -> Graph | None:
    """The graph with the location labels of hosts; labels of the graph win."""
    if not places:
        return graph
    base = graph or Graph({}, {}, ())
    hosts = {host: {**labels, **base.hosts.get(host, {})} for host, labels in places.items()}
    return msgspec.structs.replace(base, hosts={**base.hosts, **hosts})
