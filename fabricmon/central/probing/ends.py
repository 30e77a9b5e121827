"""The ports that can probe, from the fleet's PORT rows: data in, data out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fabricmon.fleet.table import Table
from fabricmon.jobs.model import Jobs
from fabricmon.probe.plan import ProbePort, offered
from fabricmon.topology.graph import Graph


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
    for row in range(ports.n):
        where = offered(ports.labels[row]) if ports.present[row] else None
        if where is None:
            continue
        node, labels = ports.ids[row].node, ports.labels[row]
        leaf, plane = _group(ports, "leaf", row), _group(ports, "plane", row)
        rail = _about(ports, "rail", row).get("rail", _group(ports, "rail", row))  # of all units, not of one
        network = f"{labels.get('role', 'unknown')}/{plane}"
        job = jobs.get(node.partition(".")[0].lower(), "")
        found.append(
            ProbePort(node, ports.ids[row].name, *where, leaf, rail, network, job)
        )
    offers = Counter(each.address for each in found)
    return [each for each in found if offers[each.address] == 1]


def uplinks(ports: Table, graph: Graph | None) -> dict[str, int]:
    """Leaf's name -> cables from it to other switches, of those that have any."""
    leaves = ports.domains
    if graph is None or leaves is None:
        return {}
    found: Counter[str] = Counter()
    for cable in graph.cables:
        if cable.a.node in graph.switches and cable.b.node in graph.switches:
            found.update((cable.a.node, cable.b.node))
    switches = zip(leaves.names["leaf"], leaves.about["leaf"], strict=True)
    return {name: found[about["guid"]] for name, about in switches if found[about.get("guid", "")]}


def _group(ports: Table, domain: str, row: int) -> str:
    found = _number(ports, domain, row)
    return ports.domains.names[domain][found] if ports.domains is not None and found >= 0 else ""


def _about(ports: Table, domain: str, row: int) -> Mapping[str, str]:
    found = _number(ports, domain, row)
    return ports.domains.about[domain][found] if ports.domains is not None and found >= 0 else {}


def _number(ports: Table, domain: str, row: int) -> int:
    """The group of a row, -1 for none."""
    ids = ports.domains.ids.get(domain) if ports.domains is not None else None
    return int(ids[row]) if ids is not None and row < len(ids) else -1
