"""Groups of the rows of all tables; ports and nodes have one numbering. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fabricmon.engine.domains.groups import Floats, Groups, Ids, Ints, Mask
from fabricmon.engine.domains.shared_parts import BATCHES, minority, numbered, spread, through
from fabricmon.forms.natural import natural
from fabricmon.model import ComponentId, Kind
from fabricmon.topology.graph import Graph
from fabricmon.topology.groups import DOMAINS, Domains, Many

BY_NAME = 2
"""Orders of the hosts that are of their names: each has a host before and one after it."""
NEAR_HOSTS = 31
"""Hosts before and after one that may be on a leaf with it, where no map shows that: of 32, as in a unit of eight rails
(design choice)."""


def power_of(graph: Graph | None) -> dict[str, str]:
    """Host -> power domain: the label "power" of a host. Where none is stated, racks are groups of their own."""
    hosts = graph.hosts.items() if graph is not None else ()
    return {host: labels["power"] for host, labels in hosts if labels.get("power")}


class RowDomains:
    """Groups of all rows at one moment.

    assigned of the PORT rows, as the fleet has them
    port     groups of the PORT rows for the diagnosis: as `assigned`, but a rail within one leaf is that leaf, and an
             echo is in no group. Besides: "rail_traffic" and "leaf_traffic", in which ports compete for links (a leaf
             that is all of a rail counts as the rail; no ports of `apart`), "port_name", the ports of no known leaf
             that have one name in their hosts, as "mlx5_3/1" (none of `apart`); "adapter" and "pcie_switch", as of the
             PCIe table; batches that are not most of the fabric
    by_table groups of the rows of each table: `port`, NODE rows (host and power), tables inside hosts, flows
    near     per FLOW row the PORT row that it goes from, -1 unknown
    echo     a link is one member of its domains. Further PORT rows of a link, from a sweep -> the row that stands for
             it: that of the port's own host, else the first swept one; `echoes` and `firsts`: both as arrays
    reported_by  the row that stands for a link -> all rows of it, where they are several
    """

    def __init__(
        self,
        domains: Domains,
        power: Mapping[str, str],
        nodes: Sequence[ComponentId],
        inside: Mapping[Kind, Groups] = {},
        names: Mapping[str, list[str]] = {},
        apart: Mask | None = None,
        flows: tuple[Mapping[str, Many], Ints] | None = None,
        places: Mapping[str, Mapping[str, str]] = {},
    ) -> None:
        """apart: PORT rows of other networks than that of the jobs (storage, management); flows: groups of the FLOW
        rows, and the PORT row that each goes from; places: of the hosts (shared_parts.py)."""
        self.assigned = domains
        self.echo = _echoes(domains.ids["link"], domains.swept)
        self._gather_echoes()
        self.hosts = domains.ids["host"]
        placed = {domain: numbered(domains.names["host"], of_hosts) for domain, of_hosts in places.items()}
        named, port_names = _port_names(domains, apart)
        self.port = Groups(
            self._port_ids(names.get("adapter", []), apart, inside.get(Kind.PCIE))
            | self._unechoed({"port_name": named} | {one: spread(ids, self.hosts) for one, (ids, _) in placed.items()})
        )
        self.names = {domain: list(domains.names[domain]) for domain in DOMAINS}
        self.names |= {f"{domain}_traffic": self.names[domain] for domain in ("rail", "leaf")}
        self.names["port_name"] = port_names
        hosts = [node.node for node in nodes]
        powers = [power.get(host, "") for host in hosts]
        of_nodes = {domain: numbered(hosts, of_hosts)[0] for domain, of_hosts in places.items()}
        node = Groups({"host": self._number("host", hosts), "power": self._number("power", powers), **of_nodes})
        self.names |= {domain: of_domain for domain, (_, of_domain) in placed.items()}
        paths, near = ({}, np.zeros(0, np.int64)) if flows is None else flows
        self.near = near.copy()
        self.by_table: dict[Kind, Groups] = {
            Kind.PORT: self.port, Kind.NODE: node, Kind.FLOW: Groups({}, paths), **inside,
        }  # fmt: skip
        self.names.update(names)
        self._members: dict[tuple[Kind, str], tuple[Ints, Ints]] = {}
        self._orders: list[Ints] = []
        self._link_numbers: dict[str, int] = {}

    def _port_ids(self, adapters: Sequence[str], apart: Mask | None, pcie: Groups | None) -> dict[str, Ids]:
        assigned = self.assigned.ids
        rail, leaf, aside = assigned["rail"], assigned["leaf"], False if apart is None else apart
        adapter = _renumbered(assigned["nic"], self.assigned.names["nic"], adapters)
        ids = {
            **assigned,
            "rail": _across_leaves(rail, leaf),
            "rail_traffic": np.where(aside, -1, rail).astype(np.int32),
            "leaf_traffic": np.where(aside, -1, _other_than(leaf, rail)).astype(np.int32),
            "adapter": adapter,
            **{batch: minority(assigned[batch], self.hosts >= 0) for batch in BATCHES},
        }
        if pcie is not None:
            ids["pcie_switch"] = through(adapter, pcie.ids["adapter"], pcie.ids["pcie_switch"])
        return self._unechoed(ids)

    def _unechoed(self, ids: dict[str, Ids]) -> dict[str, Ids]:
        """Without the echoes."""
        if not self.echo:
            return ids
        at_echo = np.zeros(len(self.hosts), np.bool_)
        at_echo[self.echoes] = True
        return {domain: np.where(at_echo, -1, of).astype(np.int32) for domain, of in ids.items()}

    def _gather_echoes(self) -> None:
        self.echoes, self.firsts = (np.array(list(rows), np.intp) for rows in (self.echo, self.echo.values()))
        self.reported_by: dict[int, list[int]] = {}
        for row, first in self.echo.items():
            self.reported_by.setdefault(first, [first]).append(row)

    def rails(self) -> Ids:
        """Per PORT row a number of its rail, one for the rail of all units where these are named; -1 none."""
        about = self.assigned.about.get("rail", [])
        known: dict[str, int] = {}
        numbers = [known.setdefault(facts.get("rail") or str(at), len(known)) for at, facts in enumerate(about)]
        rails = self.assigned.ids["rail"]
        return np.append(np.array(numbers, np.int32), np.int32(-1))[rails] if len(numbers) else rails

    def islands(self) -> Ids:
        """Per PORT row its leaf, where packets from it stay below this leaf: no switch of its network has a cable to
        another one; -1 elsewhere."""
        about = self.assigned.about.get("network", [])
        apart = np.array([*(facts.get("tier") == "leaf" for facts in about), False])
        ids = self.port.ids
        return np.where(apart[ids["network"]], ids["leaf"], -1).astype(np.int32)

    def orders_of_hosts(self) -> list[Ints]:
        """Per host group its place in the natural order of the hosts' names, in that of names whose last part counts
        first, and in that of the leaves and their ports on which the hosts hang; -1 none, also at the end."""
        names = self.names["host"]
        if not self._orders or len(self._orders[0]) != len(names) + 1:
            keys = [natural(name) for name in names]
            turned = [key[::-1] for key in keys]
            by_name = [np.array(sorted(range(len(names)), key=key.__getitem__), np.int64) for key in (keys, turned)]
            self._orders = [_places(order, len(names)) for order in [*by_name, self._by_port()]]
        return self._orders

    def near_by_name(self, rows: Ints) -> Ints:
        """PORT rows of no known leaf with the names of some of these, on hosts near theirs in an order of names."""
        named, host = self.port.ids["port_name"], self.hosts
        found = np.zeros(len(named), np.bool_)
        for row in rows[named[rows] >= 0].tolist():
            alike = np.flatnonzero(named == named[row])
            for order in self.orders_of_hosts()[:BY_NAME]:
                found[alike[np.abs(order[host[alike]] - order[host[row]]) <= NEAR_HOSTS]] = True
        return np.flatnonzero(found)

    def number_link(self, name: str) -> int:
        """The number of a link that may have no row."""
        names = self.names["link"]
        if not self._link_numbers:
            self._link_numbers = {name: number for number, name in enumerate(names)}
        if name not in self._link_numbers:
            self._link_numbers[name] = len(names)
            names.append(name)
        return self._link_numbers[name]

    def places(self, rows: Ints) -> Ints:
        """Of some NODE rows: the places of each host in the BY_NAME orders of the hosts' names, int[BY_NAME, k], -1
        unknown."""
        hosts = self.by_table[Kind.NODE].ids["host"][rows]
        return np.stack([order[hosts] for order in self.orders_of_hosts()[:BY_NAME]])

    def _by_port(self) -> Ints:
        """Host groups with a known leaf, by the first of their leaves and the port of it."""
        leaf, host, socket = self.assigned.ids["leaf"], self.hosts, self.assigned.socket
        names = self.assigned.names["leaf"]
        rank = np.zeros(len(names), np.int64)
        rank[sorted(range(len(names)), key=lambda at: natural(names[at]))] = np.arange(len(names))
        rows = np.flatnonzero((leaf >= 0) & (host >= 0) & (socket >= 0))
        mine = host[rows[np.lexsort((socket[rows], rank[leaf[rows]]))]]
        _, first = np.unique(mine, return_index=True)
        return np.asarray(mine[np.sort(first)], np.int64)

    def learn(self, ids: Ids, names: list[str]) -> None:
        """Groups of PORT rows that were learned from what fails together (learned_groups.py)."""
        self.divide("learned", ids, names)

    def divide(
        self, domain: str, ids: Ids, names: list[str], kind: Kind = Kind.PORT, choice: Floats | None = None
    ) -> None:
        """Groups of the rows of a table that were made from what they show now; `choice`: see `Groups`."""
        groups = self.by_table[kind]
        before, same = groups.ids.get(domain), choice is None or np.array_equal(groups.choice.get(domain, ()), choice)
        if before is not None and same and names == self.names.get(domain) and np.array_equal(before, ids):
            return
        chosen = groups.choice if choice is None else {**groups.choice, domain: choice}
        self.by_table[kind] = Groups({**groups.ids, domain: ids}, groups.many, chosen)
        self.port = self.by_table[Kind.PORT]
        self.names[domain] = names
        self._members.pop((kind, domain), None)

    def displace(self, moved: Mapping[Kind, Sequence[int]]) -> None:
        """Take rows that stand for something else now out of all groups."""
        for kind, given in moved.items():
            if not given or kind not in self.by_table:
                continue
            groups = self.by_table[kind]
            rows = np.array(given, np.int64)
            for ids in (*groups.ids.values(), *(self.assigned.ids.values() if kind is Kind.PORT else ())):
                ids[rows[rows < len(ids)]] = -1
            if kind is Kind.PORT:
                self.assigned.socket[rows[rows < len(self.assigned.socket)]] = -1
            many = {domain: of.without(rows) for domain, of in groups.many.items()}
            self.by_table[kind] = Groups(groups.ids, many, groups.choice)
        self.port = self.by_table[Kind.PORT]
        self._members.clear()
        self.near[[row for row in moved.get(Kind.FLOW, ()) if row < len(self.near)]] = -1
        if ports := frozenset(moved.get(Kind.PORT, ())):
            self.near[np.isin(self.near, list(ports))] = -1
            links = self.echo.items()
            self.echo = {row: first for row, first in links if row not in ports and first not in ports}
            self._gather_echoes()

    def about(self, domain: str, group: int) -> dict[str, str]:
        known = self.assigned.about.get(domain, [])
        return known[group] if group < len(known) else {}

    def swept_link(self, row: int) -> tuple[str, str] | None:
        """Name and host ("" none) of the link of a swept PORT row; None for any other row."""
        if (
            row >= len(self.assigned.swept)
            or not self.assigned.swept[row]
            or (link := self.assigned.ids["link"][row]) < 0
        ):
            return None
        return self.names["link"][link], self.host(row)

    def host(self, row: int) -> str:
        """The host that a PORT row belongs to, "" for a port between switches."""
        group = int(self.hosts[row])
        return self.names["host"][group] if group >= 0 else ""

    def devices(self, rows: Iterable[int]) -> set[str]:
        """Names of the adapters of some PORT rows within their hosts: "mlx5_3"."""
        nics = self.assigned.ids["nic"][list(rows)]
        return {self.assigned.names["nic"][nic].rpartition("/")[2] for nic in nics.tolist() if nic >= 0}

    def members(self, kind: Kind, domain: str, group: int) -> Ints:
        """Rows of a group, of one table; empty where the table has none of it."""
        key = kind, domain
        many = self.by_table[kind].many.get(domain)
        if many is not None:
            return many.members(group)
        if key not in self._members:
            ids = self.by_table[kind].ids.get(domain, np.empty(0, np.int32))
            rows = np.argsort(ids, kind="stable")
            starts = np.searchsorted(ids[rows], np.arange(int(ids.max(initial=-1)) + 2))
            self._members[key] = rows, starts
        rows, starts = self._members[key]
        return rows[starts[group] : starts[group + 1]] if 0 <= group < len(starts) - 1 else rows[:0]

    def _number(self, domain: str, names: Sequence[str]) -> Ids:
        known = {name: number for number, name in enumerate(self.names[domain])}
        out = np.full(len(names), -1, np.int32)
        for row, name in enumerate(names):
            if name:
                if name not in known:
                    known[name] = len(known)
                    self.names[domain].append(name)
                out[row] = known[name]
        return out


def _places(order: Ints, number: int) -> Ints:
    """Place of each of so many groups in an order of some of them, -1 none; one more at the end for no group."""
    places = np.full(number + 1, -1, np.int64)
    places[order] = np.arange(len(order))
    return places


def _port_names(assigned: Domains, apart: Mask | None) -> tuple[Ids, list[str]]:
    """Per PORT row of a host without a known leaf the number of its port's name within the host, -1 elsewhere and for
    rows of other networks; the names, as "mlx5_3/1"."""
    link = assigned.ids["link"]
    found, known = np.full(len(link), -1, np.int32), dict[str, int]()
    rows = np.flatnonzero((assigned.ids["leaf"] < 0) & (assigned.ids["host"] >= 0) & (link >= 0))
    rows = rows if apart is None else rows[~apart[rows]]
    for row, number in zip(rows.tolist(), link[rows].tolist(), strict=True):
        name = assigned.names["link"][number].partition(", ")[0].partition("/")[2]
        if name:
            found[row] = known.setdefault(name, len(known))
    return found, list(known)


def _echoes(link: Ids, swept: Mask) -> dict[int, int]:
    """Swept rows of a link that another row stands for -> that row."""
    if not swept.any():
        return {}
    rows = np.flatnonzero(link >= 0)
    order = np.lexsort((rows, swept[rows]))  # the host's row before any swept one
    first: dict[int, int] = {}
    for row in rows[order].tolist():
        first.setdefault(int(link[row]), row)
    return {row: first[int(link[row])] for row in rows[swept[rows]].tolist() if first[int(link[row])] != row}


def _across_leaves(rail: Ids, leaf: Ids) -> Ids:
    """Rail ids without those rails whose rows are all on one leaf."""
    return np.where(_within_one(rail, leaf), -1, rail).astype(np.int32)


def _other_than(leaf: Ids, rail: Ids) -> Ids:
    """Leaf ids without those leaves that have the rows of one rail and all of them: not so one of two leaves of a
    rail."""
    here, there = _within_one(leaf, rail), _within_one(rail, leaf)
    apart = np.zeros(int(leaf.max(initial=-1)) + 2, np.bool_)
    apart[leaf[(leaf >= 0) & ~there]] = True
    return np.where(here & ~apart[leaf], -1, leaf).astype(np.int32)


def _within_one(group: Ids, other: Ids) -> Mask:
    """Rows of a group all of whose rows are in one other group, as far as that is known."""
    known = (group >= 0) & (other >= 0)
    if not known.any():
        return np.zeros(len(group), np.bool_)
    number = int(group.max()) + 1
    low, high = np.full(number, np.iinfo(np.int32).max), np.full(number, -1)
    np.minimum.at(low, group[known], other[known])
    np.maximum.at(high, group[known], other[known])
    return np.asarray((group >= 0) & (low == high)[group])


def _renumbered(ids: Ids, names: Sequence[str], others: Sequence[str]) -> Ids:
    """Group ids by the numbers that other names have in another table; -1 where that has no such name."""
    if not others:
        return np.full(len(ids), -1, np.int32)
    known = {name: number for number, name in enumerate(others)}
    number = np.array([*(known.get(name, -1) for name in names), -1], np.int32)
    return np.where(ids >= 0, number[ids], -1).astype(np.int32)
