"""Where the rows of all tables are in the fabric; ports and nodes have one numbering of groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fabricmon.engine.diagnose import Groups
from fabricmon.engine.search import Ints
from fabricmon.model import ComponentId, Kind
from fabricmon.topology.domains import DOMAINS, Domains
from fabricmon.topology.graph import Graph
from fabricmon.topology.paths import Many


def power_of(graph: Graph | None) -> dict[str, str]:
    """Host -> power domain: the label "power" of a host, else its rack, which usually shares a feed."""
    if graph is None:
        return {}
    domains = {host: labels.get("power") or labels.get("rack", "") for host, labels in graph.hosts.items()}
    return {host: domain for host, domain in domains.items() if domain}


class Places:
    """Groups of all rows at one moment.

    domains  of the PORT rows, as the fleet has them
    port     groups of the PORT rows for the diagnosis: as `domains`, but a rail that lies within one leaf is that leaf,
             and an echo is in no group. Besides: "rail_traffic" and "leaf_traffic", in which ports compete for links
             (a leaf that is all of a rail is told as the rail; no ports of `apart`); "adapter", as of the PCIe table
    of       groups of the rows of each table: `port`, those of the NODE rows (host and power), and those of the tables
             of what is inside hosts (inside.py), and flows
    near     per FLOW row the PORT row that it goes from, -1 unknown
    echo     a link is one member of its domains, however many rows tell of it. PORT rows that a sweep told -> the row
             that stands for their link: that of the port's own host, else the first swept one
    told_by  the row that stands for a link -> all rows that tell of it, where they are several
    """

    def __init__(
        self,
        domains: Domains,
        power: Mapping[str, str],
        nodes: Sequence[ComponentId],
        inside: Mapping[Kind, Groups] = {},
        names: Mapping[str, list[str]] = {},
        apart: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
        flows: tuple[Mapping[str, Many], Ints] | None = None,
    ) -> None:
        """apart: PORT rows of other networks than that of the jobs (storage, management); flows: groups of the FLOW
        rows, and the PORT row that each goes from."""
        self.domains = domains
        ids = dict(self.domains.ids)
        ids["rail_traffic"] = ids["rail"] if apart is None else np.where(apart, -1, ids["rail"]).astype(np.int32)
        leaves = _across_leaves(ids["leaf"], ids["rail"])
        ids["leaf_traffic"] = leaves if apart is None else np.where(apart, -1, leaves).astype(np.int32)
        ids["adapter"] = _renumbered(ids["nic"], self.domains.names["nic"], names.get("adapter", []))
        ids["rail"] = _across_leaves(ids["rail"], ids["leaf"])
        self.echo = _echoes(ids["link"], domains.swept)
        self.told_by: dict[int, list[int]] = {}
        for row, first in self.echo.items():
            self.told_by.setdefault(first, [first]).append(row)
        self.hosts = ids["host"]
        if self.echo:
            silent = np.array(list(self.echo), np.intp)
            ids = {domain: of.copy() for domain, of in ids.items()}
            for of in ids.values():
                of[silent] = -1
        self.port = Groups(ids)
        self.names = {domain: list(self.domains.names[domain]) for domain in DOMAINS}
        self.names |= {f"{domain}_traffic": self.names[domain] for domain in ("rail", "leaf")}
        hosts = [c.node for c in nodes]
        node = Groups(
            {
                "host": self._number("host", hosts),
                "power": self._number("power", [power.get(host, "") for host in hosts]),
            }
        )
        self.of: dict[Kind, Groups] = {Kind.PORT: self.port, Kind.NODE: node, **inside}
        paths, self.near = ({}, np.zeros(0, np.int64)) if flows is None else flows
        self.of[Kind.FLOW] = Groups({}, paths)
        self.names.update(names)
        self._members: dict[tuple[Kind, str], tuple[Ints, Ints]] = {}

    def learn(self, ids: np.ndarray[tuple[int], np.dtype[np.int32]], names: list[str]) -> None:
        """Groups of PORT rows that were learned from what fails together (learned.py)."""
        self.port = self.of[Kind.PORT] = Groups({**self.port.ids, "learned": ids}, self.port.many)
        self.names["learned"] = names
        self._members.pop((Kind.PORT, "learned"), None)

    def about(self, domain: str, group: int) -> dict[str, str]:
        known = self.domains.about.get(domain, [])
        return known[group] if group < len(known) else {}

    def swept_link(self, row: int) -> tuple[str, str] | None:
        """Name and host ("" none) of the link of a swept PORT row; None for any other row."""
        if row >= len(self.domains.swept) or not self.domains.swept[row] or (link := self.domains.ids["link"][row]) < 0:
            return None
        return self.names["link"][link], self.host(row)

    def host(self, row: int) -> str:
        """The host that a PORT row belongs to, "" for a port between switches."""
        group = int(self.hosts[row])
        return self.names["host"][group] if group >= 0 else ""

    def size(self, kind: Kind, domain: str, group: int) -> int:
        """How many members of a table a group has."""
        return len(self.members(kind, domain, group))

    def members(self, kind: Kind, domain: str, group: int) -> Ints:
        """Rows of a group, of one table; empty where the table has none of it."""
        key = kind, domain
        many = self.of[kind].many.get(domain)
        if many is not None:
            return many.members(group)
        if key not in self._members:
            ids = self.of[kind].ids.get(domain, np.empty(0, np.int32))
            rows = np.argsort(ids, kind="stable")
            starts = np.searchsorted(ids[rows], np.arange(int(ids.max(initial=-1)) + 2))
            self._members[key] = rows, starts
        rows, starts = self._members[key]
        return rows[starts[group] : starts[group + 1]] if 0 <= group < len(starts) - 1 else rows[:0]

    def _number(self, domain: str, names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        known = {name: number for number, name in enumerate(self.names[domain])}
        out = np.full(len(names), -1, np.int32)
        for row, name in enumerate(names):
            if name:
                if name not in known:
                    known[name] = len(known)
                    self.names[domain].append(name)
                out[row] = known[name]
        return out


def _echoes(
    link: np.ndarray[tuple[int], np.dtype[np.int32]], swept: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> dict[int, int]:
    """Swept rows that tell of a link of which another row tells already -> that row."""
    if not swept.any():
        return {}
    rows = np.flatnonzero(link >= 0)
    order = np.lexsort((rows, swept[rows]))  # a host's own row before any swept one
    first: dict[int, int] = {}
    for row in rows[order].tolist():
        first.setdefault(int(link[row]), row)
    return {row: first[int(link[row])] for row in rows[swept[rows]].tolist() if first[int(link[row])] != row}


def _across_leaves(
    rail: np.ndarray[tuple[int], np.dtype[np.int32]], leaf: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Rail ids without those rails whose rows are all on one leaf."""
    known = (rail >= 0) & (leaf >= 0)
    if not known.any():
        return rail
    number = int(rail.max()) + 1
    low = np.full(number, np.iinfo(np.int32).max)
    high = np.full(number, -1)
    np.minimum.at(low, rail[known], leaf[known])
    np.maximum.at(high, rail[known], leaf[known])
    single = low == high
    return np.where((rail >= 0) & ~single[rail], rail, -1).astype(np.int32)


def _renumbered(
    ids: np.ndarray[tuple[int], np.dtype[np.int32]], names: Sequence[str], others: Sequence[str]
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Group ids by the numbers that other names have in another table; -1 where that has no such name."""
    if not others:
        return np.full(len(ids), -1, np.int32)
    known = {name: number for number, name in enumerate(others)}
    number = np.array([*(known.get(name, -1) for name in names), -1], np.int32)
    return np.where(ids >= 0, number[ids], -1).astype(np.int32)
