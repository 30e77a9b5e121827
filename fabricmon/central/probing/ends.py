"""The ports that can probe, from the fleet's PORT rows: data in, data out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.fleet.table import Table
from fabricmon.jobs.model import Jobs
from fabricmon.probe.plan import ProbePort, offered
from fabricmon.topology.graph import Graph
from fabricmon.topology.groups import Domains


def jobs_of(sources: Iterable[Jobs]) -> dict[str, str]:
    """Node -> its only job; nodes with several are left out."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for source in sources:
        for job in source.jobs:
            for node in job.nodes:
                if node in found:
                    several.add(node)
                found[node] = f"{source.source}/{job.id}"
    return {node: job for node, job in found.items() if node not in several}


def ends(ports: Table, jobs: Mapping[str, str]) -> list[ProbePort]:
    """Present ports that offer to probe, with their places. An address that two ports offer is left out."""
    found: list[ProbePort] = []
    places = ports.domains or Domains()
    for row in range(ports.n):
        where = offered(ports.labels[row]) if ports.present[row] else None
        if where is None:
            continue
        node, labels = ports.ids[row].node, ports.labels[row]
        network = f"{labels.get('role', 'unknown')}/{places.name('plane', row)}"
        job = jobs.get(node.partition(".")[0].lower(), "")
        found.append(
            ProbePort(
                node, ports.ids[row].name, where.address, where.port, places.name("leaf", row), places.rail(row),
                network, job, where.backend,
            )
        )  # fmt: skip
    offers = Counter(each.address for each in found)
    return [each for each in found if offers[each.address] == 1]


class Uplinks(NamedTuple):
    """cables   leaf's name -> its cables to other switches, of those that have any
    unequal  leaves with a cable to another leaf (dragonfly, torus): which ones a packet may take depends on its target
    """

    cables: dict[str, int]
    unequal: frozenset[str]


def uplinks(ports: Table, graph: Graph | None) -> Uplinks:
    leaves = ports.domains
    if graph is None or leaves is None:
        return Uplinks({}, frozenset())
    switches = zip(leaves.names["leaf"], leaves.about["leaf"], strict=True)
    name_of = {about["guid"]: name for name, about in switches if about.get("guid") in graph.switches}
    found: Counter[str] = Counter()
    unequal = set()
    for cable in graph.cables:
        one, other = cable.a.node, cable.b.node
        if one in graph.switches and other in graph.switches:
            known = {name_of[id] for id in (one, other) if id in name_of}
            found.update(known)
            unequal |= known if len(known) == 2 else set()
    return Uplinks(dict(found), frozenset(unequal))
