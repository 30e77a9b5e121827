"""Hosts whose traffic may pass a component: below a leaf, in a rail, behind a spine. Pure.

For the jobs that an incident puts at risk (fabricmon/jobs/impact.py), not for verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.forms.cables import cables_of
from fabricmon.jobs.impact import FaultDomain
from fabricmon.jobs.model import host_name
from fabricmon.model import Kind
from fabricmon.topology.graph import Graph

OWN = frozenset(
    {"nic", "host", "port", "gpu", "pcie", "adapter", "nvlink", "nvlink_domain", "management", "maintenance"}
)
"""Words of components of one host, or without traffic."""
WHOLE = frozenset({"leaf", "rail", "power"})
"""Words of components that all traffic of their hosts passes; the rest only carries traffic from leaf to leaf."""
OF_LEAF = "uplinks"
"""Word of cables of a leaf, by the leaf's name."""
KEPT = 4096  # components whose hosts are remembered


class DependentHosts:
    """Hosts by component, over one state of the domains and the graph."""

    def __init__(self, domains: RowDomains, graph: Graph | None) -> None:
        self._domains, self._graph = domains, graph
        self._known: dict[str, frozenset[str]] = {}

    def domain(self, component: str) -> FaultDomain:
        """The part of the fabric of an incident's component: "leaf(su1/rail2)", "spine(plane5.3)"."""
        word, _, rest = component.partition("(")
        name = rest.removesuffix(")")
        if word in OWN or not name:
            return FaultDomain(word, component)
        hosts = self._known.get(component)
        if hosts is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            hosts = self._known[component] = self._hosts(word, name)
        return FaultDomain(word, component, hosts, None if word in WHOLE else self.crosses)

    def crosses(self, nodes: Sequence[str]) -> bool:
        """Whether traffic between hosts passes from leaf to leaf; assumed for unknown hosts."""
        common: frozenset[int] | None = None
        for node in nodes:
            leaves = self._leaves.get(node, frozenset())
            common = leaves if common is None else common & leaves
            if not common:
                return True
        return False

    def _hosts(self, word: str, name: str) -> frozenset[str]:
        if word == "link":
            cables = [cable.split(", ") for cable in cables_of(f"link({name})")]
            return frozenset().union(*(self._behind([end.partition("/")[0] for end in ends]) for ends in cables))
        domain = "leaf" if word == OF_LEAF else word
        names = self._domains.names.get(domain, [])
        if name in names:
            group = names.index(name)
            ports = [self._domains.host(row) for row in self._domains.members(Kind.PORT, domain, group).tolist()]
            return frozenset(ports) - {""}
        return self._behind([name])

    def _behind(self, switches: Sequence[str]) -> frozenset[str]:
        """Hosts below the lowest of some switches; none where a name is no switch."""
        graph = self._graph
        if graph is None:
            return frozenset()
        ids = [self._switches.get(name) for name in switches]
        known = [graph.switches[id] for id in ids if id is not None]
        if len(known) < len(switches):
            return frozenset()
        first = min(known, key=lambda switch: (switch.level, switch.id))
        seen, ahead, hosts = {first.id}, [first.id], set()
        while ahead:
            at = ahead.pop()
            for far in self._neighbours.get(at, ()):
                if far in graph.adapters:
                    hosts.add(graph.adapters[far].host)
                elif far in graph.switches and far not in seen and graph.switches[far].level < graph.switches[at].level:
                    seen.add(far)
                    ahead.append(far)
        return frozenset(hosts) - {""}

    @cached_property
    def _switches(self) -> dict[str, str]:
        assert self._graph is not None
        found: dict[str, str] = {}
        for switch in self._graph.switches.values():
            found.setdefault(switch.id, switch.id)
            if switch.name:
                found.setdefault(switch.name, switch.id)
        return found

    @cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        assert self._graph is not None
        found: dict[str, set[str]] = {}
        for cable in self._graph.cables:
            found.setdefault(cable.a.node, set()).add(cable.b.node)
            found.setdefault(cable.b.node, set()).add(cable.a.node)
        return found

    @cached_property
    def _leaves(self) -> dict[str, frozenset[int]]:
        """Leaves of each host, by the name that schedulers use."""
        leaf, host = self._domains.assigned.ids["leaf"], self._domains.hosts
        known = (leaf >= 0) & (host >= 0)
        pairs = np.unique(np.stack((host[known], leaf[known])), axis=1)
        found: dict[str, set[int]] = {}
        for at, to in pairs.T.tolist():
            found.setdefault(host_name(self._domains.names["host"][at]), set()).add(to)
        return {name: frozenset(leaves) for name, leaves in found.items()}
