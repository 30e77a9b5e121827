"""Parts of the fabric that every flow passes: many groups a row. Pure, NumPy.

A flow row names its two ports and, where it is known, the switches between them (model.Component). It is a member of
both ends' links, adapters, of the far host, of the leaves, spines and cores of its path and of the cables between them.
A flow without a path between two leaves is a member of its plane, or where all switches carry hosts of its network: any
switch of it may have carried any of its packets. A far end of which no agent has reported is placed by the topology.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.model import ComponentId, Kind, rows_by_name
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.graph_index import GraphIndex
from fabricmon.topology.groups import Domains, GroupNumbers, Ints, Many, spans
from fabricmon.topology.identity import short
from fabricmon.topology.stages import level_word

FLOW_DOMAINS = ("link", "nic", "host", "leaf", "spine", "core", "plane", "network")
BY_PATH = ("link", "leaf", "spine", "core")
UNSEEN = 2**16
"""Names of far ends without a row that are remembered: agents report them."""


class FlowPaths:
    """Assigns flows to groups. Each path is parsed once, a row only when it changed.

    near   per row of the last answer, the PORT row that the flow goes from; -1 unknown
    named  links without a row that were given a number: as many as the topology has at most
    """

    def __init__(self, groups: Mapping[str, GroupNumbers], index: GraphIndex | None) -> None:
        self._groups = groups
        self._index = index
        self._number: dict[str, int] = {}
        self._parsed: dict[str, list[tuple[int, ...]]] = {domain: [] for domain in BY_PATH}
        self._seen: list[tuple[ComponentId, Mapping[str, str]]] = []
        self._ends: list[tuple[str, str]] = []
        self._path: list[int] = []
        self._between = _between(index.graph) if index is not None else {}
        self._unseen: dict[str, dict[str, int]] = {}
        self._called: dict[str, str] = {}
        self.named = 0
        self.near: Ints = np.zeros(0, np.int64)

    def assign(
        self, rows: Sequence[tuple[ComponentId, Mapping[str, str]]], ports: Sequence[ComponentId], domains: Domains,
        nodes: Iterable[str] = (),
    ) -> dict[str, Many]:  # fmt: skip
        """ports  components of the PORT rows, in the order of the ids of `domains`
        nodes  names of all nodes, which the topology may write without their domain"""
        del self._seen[len(rows) :], self._ends[len(rows) :], self._path[len(rows) :]
        for row, (component, labels) in enumerate(rows):
            old = row < len(self._seen)
            if old and self._seen[row][0] is component and self._seen[row][1] is labels:
                continue
            here = slice(row, row + old)  # of a new row, the end of the lists
            ends, path = self._parse_row(component, labels)
            self._seen[here], self._ends[here], self._path[here] = [(component, labels)], [ends], [path]
        if not rows:
            self.near = np.zeros(0, np.int64)
            empty = Many(np.zeros(1, np.int64), np.zeros(0, np.int32))
            return dict.fromkeys(FLOW_DOMAINS, empty)
        called = {short(node): node for node in nodes}
        if called != self._called:
            self._called = called
            self._unseen.clear()
        at = rows_by_name(ports)
        near = np.array([at.get(ends[0], -1) for ends in self._ends], np.int64)
        far = np.array([at.get(ends[1], -1) for ends in self._ends], np.int64)
        self.near = near
        return self._join_up(near, far, np.array(self._path, np.int64), domains)

    def _join_up(self, near: Ints, far: Ints, path: Ints, domains: Domains) -> dict[str, Many]:
        def ids_of(domain: str, row: Ints) -> NDArray[np.int32]:
            ids = domains.ids[domain]
            found = np.where(row >= 0, ids[row], -1).astype(np.int32) if len(ids) else np.full(len(row), -1, np.int32)
            if row is far:
                for flow, of in unseen:
                    found[flow] = of.get(domain, -1)
            return found

        strangers = np.flatnonzero((far < 0) & (near >= 0)).tolist()
        unseen = [(flow, self._placed_by_graph(self._ends[flow][1])) for flow in strangers]
        pathless = path < 0
        leaves = ids_of("leaf", near), ids_of("leaf", far)
        apart = pathless & (leaves[0] != leaves[1])
        plane = ids_of("plane", near)
        singles = {
            "link": (ids_of("link", near), ids_of("link", far)),
            "nic": (ids_of("nic", near), ids_of("nic", far)),
            "host": (ids_of("host", far),),
            "leaf": tuple(np.where(pathless, leaf, -1) for leaf in leaves),
            "spine": (),
            "core": (),
            "plane": (np.where(apart, plane, -1),),
            "network": (np.where(apart & (plane < 0), ids_of("network", near), -1),),
        }
        found: dict[str, Many] = {}
        for domain in FLOW_DOMAINS:
            row = [np.flatnonzero(ids >= 0) for ids in singles[domain]]
            group = [ids[ids >= 0] for ids in singles[domain]]
            if domain in BY_PATH and self._parsed[domain]:
                parsed = self._parsed[domain]
                start = np.concatenate(([0], np.cumsum([len(p) for p in parsed])))
                flat = np.array([g for p in parsed for g in p], np.int64)
                known = np.flatnonzero(~pathless)
                position, entries = spans(start, path[known])
                row.append(known[position])
                group.append(flat[entries])
            found[domain] = _compressed(row, group, len(near))
        return found

    def _placed_by_graph(self, peer: str) -> dict[str, int]:
        """Groups of a port without a row, "host-007/mlx5_3/1", empty where the topology does not have it."""
        known = self._unseen.get(peer)
        if known is not None or self._index is None:
            return known or {}
        if len(self._unseen) >= UNSEEN:
            self._unseen.clear()
        node, device, port = (*peer.rsplit("/", 2), "", "")[:3]
        place = self._index.find(ComponentId(Kind.PORT, node, f"{device}/{port}"), {}, device, port)
        found = self._unseen[peer] = {}
        adapter = self._index.graph.adapters.get(place.adapter) if place is not None and place.near else None
        if place is None or adapter is None:
            return found
        host = self._called.get(short(adapter.host), adapter.host)  # never what the agent wrote: it may write anything
        before = len(self._groups["link"].names)
        found |= {
            "link": self._groups["link"].number(place.cable, place.title),
            "nic": self._groups["nic"].number((host, adapter.name), f"{host}/{adapter.name}"),
            "host": self._groups["host"].number(host, host),
        }
        self.named += len(self._groups["link"].names) - before
        if place.leaf is not None:
            about = {"switch": place.leaf.name or place.leaf.id, "guid": place.leaf.id, "ports": str(place.ports)}
            found["leaf"] = self._groups["leaf"].number(place.leaf.id, place.leaf_name, about)
        return found

    def _parse_row(self, component: ComponentId, labels: Mapping[str, str]) -> tuple[tuple[str, str], int]:
        """Names of both ports, and the number of the path, -1 for none."""
        if not component.node:
            return ("", ""), -1
        text = labels.get("path", "")
        ends = f"{component.node}/{labels.get('port', '')}", labels.get("peer", "")
        if not text:
            return ends, -1
        number = self._number.get(text)
        if number is None:
            number = self._number[text] = len(self._number)
            parsed = self._parse(text)
            for domain in BY_PATH:
                self._parsed[domain].append(tuple(dict.fromkeys(parsed[domain])))
        return ends, number

    def _parse(self, text: str) -> dict[str, list[int]]:
        """Groups of the switches and of the cables between them, as far as they are in the graph."""
        found: dict[str, list[int]] = defaultdict(list)
        if self._index is None:
            return found
        graph, before = self._index.graph, None
        for word in text.split():
            name, _, port = word.rpartition(":") if word not in self._index.switch_names else (word, "", "")
            if not name or not port.isdecimal():
                name, port = word, ""
            id = self._index.switch_names.get(name, name)
            switch = graph.switches.get(id)
            if before is not None:
                number = self._cable(*before, id)
                if number is not None:
                    title = graph.title(graph.cables[number])
                    found["link"].append(self._groups["link"].number(number, title))
            before = (id, port) if switch is not None else None
            if switch is None or switch.level < 0:
                continue
            word = level_word(switch.level)
            named = self._index.leaf_names[id] if word == "leaf" else switch.name or id
            found[word].append(self._groups[word].number(id, named, {"switch": switch.name or id, "guid": id}))
        return found

    def _cable(self, one: str, port: str, other: str) -> int | None:
        """The cable by which a path leaves a switch for the next one; None where several are possible."""
        if self._index is not None and port:
            return self._index.cable_at.get(End(one, int(port)))
        several = self._between.get((one, other), ())
        return several[0] if len(several) == 1 else None


def _between(graph: Graph) -> dict[tuple[str, str], list[int]]:
    """Cables between two switches, in either direction."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, cable in enumerate(graph.cables):
        a, b = cable.a.node, cable.b.node
        if a in graph.switches and b in graph.switches and a != b:
            found[a, b].append(number)
            found[b, a].append(number)
    return dict(found)


def _compressed(row: list[Ints], group: list[NDArray[Any]], n: int) -> Many:
    """Each pair once, by row."""
    rows = np.concatenate(row) if row else np.zeros(0, np.int64)
    groups = np.concatenate(group).astype(np.int64) if group else np.zeros(0, np.int64)
    size = int(groups.max(initial=0)) + 1
    pairs = np.unique(rows * size + groups)
    rows, groups = pairs // size, pairs % size
    return Many(np.searchsorted(rows, np.arange(n + 1)), groups.astype(np.int32))
