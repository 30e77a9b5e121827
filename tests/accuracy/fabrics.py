"""The fabrics of the accuracy runs: about 1,024 hosts of every shape, with flows over real paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.domains.row_domains import RowDomains, power_of
from fabricmon.engine.domains.transit import LeafCables, transit_of
from fabricmon.model import ComponentId, Kind
from fabricmon.sim import shapes
from fabricmon.sim.flows import Flows
from fabricmon.sim.layout import Layout
from fabricmon.sim.traffic import TrafficJob, place
from fabricmon.topology.domains import Assigner
from fabricmon.topology.graph import Graph

PEERS = 12  # of a port (docs/methods.md#hard-before-soft)
JOBS = (256, 128, 128, 64, 64, 32, 32, 16)  # hosts of the jobs; about 30 % of the hosts are idle

FABRICS: Mapping[str, Callable[[], Graph]] = {
    "fat tree, 2 tiers": lambda: shapes.fat_tree(46, 2),
    "fat tree, 3 tiers": lambda: shapes.fat_tree(16, 3),
    "rail-optimised": lambda: shapes.rail_optimised(32, 32, 8, 16, planes=True),
    "dual ToR": lambda: shapes.dual_tor(32, 32, 4, 16),
    "dragonfly": lambda: shapes.dragonfly(33, 8, 4, 1),
    "torus": lambda: shapes.torus3d(16, 8, 8, 1),
    "NVL72": lambda: shapes.nvl72(57),
}
TREES = ("fat tree, 2 tiers", "fat tree, 3 tiers", "rail-optimised", "dual ToR", "NVL72")


@dataclass
class Fabric:
    """A layout with its jobs' flows, and the groups of all rows as the engine has them.

    carries  bool[ports]: the port has flows
    transit  cables between leaves, of a network without spines
    """

    name: str
    layout: Layout
    flows: Flows
    places: RowDomains
    board: SymptomIndex
    carries: NDArray[np.bool_]
    transit: LeafCables | None

    @property
    def ports(self) -> int:
        return self.layout.ports


def build(name: str, seed: int) -> Fabric:
    layout = Layout.from_graph(FABRICS[name](), gpus=0, nvlinks=0, storage=0)
    jobs = [
        TrafficJob(f"job-{at}", hosts, "all_to_all", peers=PEERS)
        for at, hosts in enumerate(place(layout, [min(size, len(layout.hosts)) for size in JOBS], seed))
    ]
    flows = Flows(layout, jobs, seed)
    _busy_only(flows)
    flows.route()
    names = [layout.port_name(row) for row in range(layout.ports)]
    rows = [
        (ComponentId(Kind.PORT, layout.hosts[host], layout.row_name(row)), layout.labels(row))
        for row, host in enumerate(layout.host_of.tolist())
    ]
    sent = [
        (
            ComponentId(Kind.FLOW, layout.hosts[layout.host_of[a]], f"{layout.row_name(a)}>{names[b]}"),
            {"port": layout.row_name(a), "peer": names[b], "path": word},
        )
        for a, b, word in zip(flows.source.tolist(), flows.target.tolist(), flows.words, strict=True)
    ]
    power = power_of(layout.graph)
    assigner = Assigner(layout.graph, power)
    domains = assigner.assign(rows)
    nodes = [ComponentId(Kind.NODE, host, "") for host in layout.hosts]
    places = RowDomains(domains, power, nodes, flows=assigner.flows(sent, domains))
    carries = np.zeros(layout.ports, np.bool_)
    carries[flows.source] = True
    ids = {Kind.PORT: [row[0] for row in rows], Kind.NODE: nodes, Kind.FLOW: [row[0] for row in sent]}
    transit = transit_of(layout.graph, places)
    return Fabric(name, layout, flows, places, SymptomIndex(places, {}, ids), carries, transit)


def _busy_only(flows: Flows) -> None:
    """Hosts without a job are idle."""
    keep = flows.job >= 0
    flows.source, flows.target = flows.source[keep], flows.target[keep]
    flows.weight, flows.job = flows.weight[keep], flows.job[keep]
    count = len(flows.source)
    flows.loss, flows.broken, flows._paths = np.zeros(count), np.zeros(count, np.bool_), np.ones(count, np.intp)
