"""The fault domains of the rows of all tables, updated with rows, labels and sweeps. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.engine.domains.dependent_hosts import DependentHosts
from fabricmon.engine.domains.groups import Mask
from fabricmon.engine.domains.host_domains import DOMAINS as HOST_TABLES
from fabricmon.engine.domains.host_domains import HostDomains
from fabricmon.engine.domains.learned_groups import LearnedGroups
from fabricmon.engine.domains.nvlink_racks import NvlinkRacks
from fabricmon.engine.domains.row_domains import RowDomains, power_of
from fabricmon.engine.domains.shared_parts import places_of
from fabricmon.engine.domains.transit import LeafCables, transit_of
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.table import Table
from fabricmon.fleet.tracks import FlowTracks
from fabricmon.fleet.view import View
from fabricmon.model import ComponentId, Kind, SymptomChange
from fabricmon.topology import swept
from fabricmon.topology.domains import Assigner
from fabricmon.topology.exchanged_records import put_right
from fabricmon.topology.graph import Graph, Role
from fabricmon.topology.groups import Domains
from fabricmon.topology.lldp_switches import LldpSwitches

LEAST_PAUSE = 1.0  # seconds between two placings
CHECKED, PLACED = 20_000, 8_000
"""Rows a second that are checked: the pause after a placing is ten times its work. And rows a second that get their
places, new ones and all of them below another topology, a part of them in each tick: a quarter of the time. Measured:
2 to 5 us a row that stays, 23 to 28 us one that gets a place."""
PREPARING = 60.0
"""Seconds in which rows get their places before the rest does at once: another topology meanwhile begins anew."""
SPARE_NAMES = 10_000  # names of former links or leaves that are kept before all are renumbered
APART = ("storage", "management")
"""Roles of ports that carry no traffic between the ranks of jobs."""


class KnownTopology:
    """`graph` is the topology in force; None while there is neither a plan nor a sweep."""

    def __init__(self, plan: Graph | None) -> None:
        self.plan = self.graph = put_right(plan) if plan is not None else None
        self._labels: list[Mapping[str, str]] = []

    def update(
        self, ids: Sequence[ComponentId], labels: Sequence[Mapping[str, str]], gone: NDArray[np.float64], now: float
    ) -> bool:
        """Read the swept PORT rows; whether the topology changed.

        gone  per row when it left its node's inventory, NaN while present
        now   seconds since the Unix epoch
        """
        rows = [row for row, known in enumerate(labels) if "swept" in known and np.isnan(gone[row])]
        swept_labels = [labels[row] for row in rows]
        if len(swept_labels) == len(self._labels) and all(map(operator.is_, swept_labels, self._labels)):
            return False
        self._labels = swept_labels
        self.graph = swept.overlaid(self.plan, swept.graph_of((ids[row], labels[row]) for row in rows), now)
        return True


class Placing:
    """domains  of all rows as they were last placed, None before the first time
    transit  cables between their leaves, None where these are joined by switches above them

    plan     the topology that was given, None without one
    of_many  whether rows are of many nodes: sweeps are followed and groups learned
    """

    def __init__(self, fleet: Fleet, plan: Graph | None, of_many: bool) -> None:
        self._fleet, self._of_many = fleet, of_many
        self._host_domains, self._nvlink_racks = HostDomains(), NvlinkRacks()
        self._learned = LearnedGroups()
        self._lldp = LldpSwitches()
        self._dependent_hosts: DependentHosts | None = None
        self.domains: RowDomains | None = None
        self.transit: LeafCables | None = None
        self._called = -np.inf
        self.replan(plan)

    @property
    def graph(self) -> Graph | None:
        """The topology in force."""
        return self._topology.graph

    @property
    def measured(self) -> bool:
        """Whether a source of it saw cables on the wire: none is filed at the wrong place."""
        return self.graph is not None and any(origin.role is Role.LIVE for origin in self.graph.origins)

    def replan(self, plan: Graph | None) -> None:
        """Another topology, from the next tick on."""
        self._topology = KnownTopology(plan)
        self._renumber()
        self._placed: tuple[int, ...] = ()
        self._placed_at, self._pause = -np.inf, 0.0
        self._preparing: float | None = None  # since when

    def place(self, now: float, moved: Mapping[Kind, Sequence[int]]) -> bool:
        """Place all rows again if rows or labels changed, after a pause; whether any row is in other groups now. Where
        very many are new, a part of them gets its places in each call, and all remain in their groups until then.

        moved  rows that stand for another component since the last call: they are in no group until all are placed, as
               new rows are
        """
        tables = self._fleet.tables
        watched = (Kind.PORT, Kind.NODE, Kind.FLOW, *HOST_TABLES)
        state = tuple(tables[kind].changes for kind in watched)
        elapsed, self._called = now - self._called, now
        if state == self._placed or 0.0 <= now - self._placed_at < self._pause:
            return self._displace(moved)
        ports = tables[Kind.PORT]
        if self._of_many and self._topology.update(ports.ids, ports.labels, ports.gone, now):
            self._renumber()
        self._preparing = now if self._preparing is None else self._preparing
        if elapsed * PLACED < ports.n and 0.0 <= now - self._preparing < PREPARING and self._assigner.prepare(
            TableRows(ports), max(int(elapsed * PLACED), 1), self._changed(ports)
        ):  # fmt: skip
            return self._displace(moved)
        self._place_all(now)
        self._placed, self._placed_at, self._preparing, self._anew = state, now, None, False
        ports.unplaced.clear()
        self._pause = LEAST_PAUSE + ports.n / CHECKED
        return True

    def _place_all(self, now: float) -> None:
        tables = self._fleet.tables
        ports, nodes, inside = tables[Kind.PORT], tables[Kind.NODE], [tables[kind] for kind in HOST_TABLES]
        assigned = self._assign(ports)
        paths = self._assigner.flows(TableRows(tables[Kind.FLOW]), assigned, self._fleet.nodes)
        groups = self._host_domains.groups_of(inside)
        apart = _apart(View(ports, now))
        racks = self._nvlink_racks.besides(tables[Kind.GPU], self._places["rack"])
        self.domains = RowDomains(
            assigned, self._power, nodes.ids, groups, self._host_domains.names, apart, paths,
            {**self._places, "rack": racks},
        )  # fmt: skip
        tracks = tables[Kind.FLOW].tracks
        if isinstance(tracks, FlowTracks):
            tracks.probes.many = paths[0]
        self._use_learned(self.domains)
        self._dependent_hosts = None
        self.transit = transit_of(self.graph, self.domains)

    def _displace(self, moved: Mapping[Kind, Sequence[int]]) -> bool:
        if self.domains is None or not any(moved.values()):
            return False
        self.domains.displace(moved)
        self._dependent_hosts = None
        return True

    def compare_within_jobs(self, job_of: Callable[[Sequence[str]], Sequence[int]]) -> None:
        """Set the fleet's domains, with the job of each port's host: stragglers are compared within it.

        job_of  hosts -> the number of each one's only job, -1 none
        """
        if self.domains is None:
            return
        assigned = self.domains.assigned
        jobs = np.array([*job_of(assigned.names["host"]), -1], np.int32)
        ids = assigned.ids if (jobs < 0).all() else {**assigned.ids, "job": jobs[assigned.ids["host"]]}
        self._fleet.tables[Kind.PORT].domains = replace(assigned, ids=ids)

    def learn(self, symptoms: Iterable[SymptomChange], now: float) -> None:
        """Learn groups of ports without a known leaf that go down together."""
        if self.domains is None or not self._of_many:
            return
        ports, leaf = self._fleet.tables[Kind.PORT], self.domains.port.ids["leaf"]
        link = self.domains.assigned.ids["link"]
        for change in symptoms:
            if change.opened and change.witnessed and change.symptom.kind == "link_down":
                row = ports.row(change.symptom.component)
                if row is not None and row < len(leaf) and leaf[row] < 0 <= link[row]:  # without a link: not placed yet
                    self._learned.add_falls([(change.symptom.component, change.symptom.since)])
        if self._learned.group_falls(now):
            self._use_learned(self.domains)

    def forget(self, node: str) -> None:
        """Nothing learned of the node is kept."""
        self._learned.forget(node)

    def dependent_hosts(self) -> DependentHosts | None:
        """Hosts by component for the rows as placed now; None before."""
        if self._dependent_hosts is None and self.domains is not None:
            self._dependent_hosts = DependentHosts(self.domains, self.graph)
        return self._dependent_hosts

    def _renumber(self) -> None:
        self._power, self._places = power_of(self.graph), places_of(self.graph)
        self._assigner, self._anew = Assigner(self.graph, self._power, self._lldp), True  # which has seen no row

    def _changed(self, ports: Table) -> set[int] | None:
        """The rows among which those are that the assigner has not seen as they are; None: any."""
        return None if self._anew else ports.unplaced

    def _assign(self, ports: Table) -> Domains:
        rows = TableRows(ports)
        domains = self._assigner.assign(rows, self._changed(ports))
        of_flows = self._assigner.links_without_rows
        links, leaves = len(domains.names["link"]) - of_flows, len(domains.names["leaf"])
        if links > 2 * ports.n + SPARE_NAMES or leaves > ports.n + SPARE_NAMES:  # mostly names of what has left
            self._renumber()
            domains = self._assigner.assign(rows)
        return domains

    def _use_learned(self, domains: RowDomains) -> None:
        domains.learn(*self._learned.ids(self._fleet.tables[Kind.PORT].row, len(domains.hosts)))


class TableRows(Sequence[tuple[ComponentId, Mapping[str, str]]]):
    """Components and labels of the rows of a table, which are not copied: a large one has a hundred thousand."""

    def __init__(self, table: Table) -> None:
        self._ids, self._labels = table.ids, table.labels

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[tuple[ComponentId, Mapping[str, str]]]:
        return zip(self._ids, self._labels, strict=True)

    def __getitem__(self, row: Any) -> Any:
        return self._ids[row], self._labels[row]


def _apart(ports: View) -> Mask:
    """PORT rows of networks without job traffic."""
    facts = ports.tracks.facts
    return np.isin(facts.role[: ports.n], [facts.role_names[role] for role in APART if role in facts.role_names])
