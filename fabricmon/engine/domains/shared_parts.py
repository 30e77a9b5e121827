"""Parts that several rows share besides switches and hosts: trays, racks, rows, PCIe switches, batches. Pure, NumPy.

What each is known from: docs/methods.md#shared-parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fabricmon.engine.domains.groups import Ids, Mask
from fabricmon.topology.graph import Graph

PLACES: Mapping[str, str] = {"chassis": "chassis", "rack": "rack", "row": "row"}
"""Domain of hosts -> the label of a host that states it."""
BATCHES = ("firmware", "board")
MINORITY = 0.5
"""Share of the rows from which a batch is what the fabric is made of, and no explanation (design choice)."""


def places_of(graph: Graph | None) -> dict[str, dict[str, str]]:
    """Domain of PLACES -> host -> group."""
    hosts = list(graph.hosts.items()) if graph is not None else []
    return {
        domain: {host: labels[label] for host, labels in hosts if labels.get(label)}
        for domain, label in PLACES.items()
    }  # fmt: skip


def numbered(hosts: Sequence[str], group_of: Mapping[str, str]) -> tuple[Ids, list[str]]:
    """Group of each host, -1 none, and the groups' names."""
    names = list(dict.fromkeys(group_of.values()))
    known = {name: number for number, name in enumerate(names)}
    return np.array([known[group_of[host]] if host in group_of else -1 for host in hosts], np.int32), names


def spread(of_hosts: Ids, host: Ids) -> Ids:
    """Groups of rows from those of their hosts."""
    return np.append(of_hosts, np.int32(-1))[np.where((host >= 0) & (host < len(of_hosts)), host, -1)]


def through(adapter: Ids, pcie_adapter: Ids, pcie_switch: Ids) -> Ids:
    """PCIe switch of PORT rows by that of their adapter, which PCIE rows know; -1 unknown."""
    known = (pcie_adapter >= 0) & (pcie_switch >= 0)
    switch = np.full(int(max(adapter.max(initial=-1), pcie_adapter.max(initial=-1))) + 2, -1, np.int32)
    switch[pcie_adapter[known]] = pcie_switch[known]
    return switch[adapter]


def minority(ids: Ids, counted: Mask) -> Ids:
    """Ids without the groups that have MINORITY of the counted rows."""
    mine = ids[counted & (ids >= 0)]
    if not len(mine):
        return np.full_like(ids, -1)
    size = np.bincount(mine, minlength=int(ids.max(initial=-1)) + 1)
    return np.where((ids >= 0) & (size[ids] < MINORITY * len(mine)), ids, -1).astype(np.int32)
