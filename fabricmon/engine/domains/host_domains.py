"""Fault domains inside hosts: GPU, NVLink domain and adapter of the rows of the GPU and PCIE tables. Pure.

They have a numbering of their own. Only new or changed rows are read again: those whose component or labels are other
objects than last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fabricmon.engine.domains.groups import Groups
from fabricmon.fleet.table import Table
from fabricmon.model import ComponentId, Kind

DOMAINS: Mapping[Kind, tuple[str, ...]] = {
    Kind.GPU: ("gpu", "nvlink_domain"),
    Kind.PCIE: ("gpu", "adapter", "pcie", "pcie_switch"),
}
"""Domains that the rows of a table are in."""

SPARE_NAMES = 10_000  # former names that are kept before all are renumbered

Labels = Mapping[str, str]


def domains_of(component: ComponentId, labels: Labels) -> dict[str, str]:
    """Domain -> name of the group.

    gpu            "host-007/gpu3", of its NVLinks and of its PCIe link
    nvlink_domain  "<cluster UUID>.<clique>" where the GPU is in a partition of a rack, else the host
                   (docs/methods.md#nvlink-domains)
    adapter        "host-007/mlx5_1", of its PCIe link
    pcie           any other device, by its address
    pcie_switch    "host-007/0000:a0:00.0", of devices behind one: the first bridge below the root port
    """
    node = component.node
    if component.kind is Kind.GPU:
        cluster = labels.get("cluster", "")
        return {"gpu": str(component), "nvlink_domain": f"{cluster}.{labels.get('clique', '')}" if cluster else node}
    domain = {"nic": "adapter", "gpu": "gpu"}.get(labels.get("class", ""), "pcie")
    owner = labels.get("owner", "")
    found = {domain: f"{node}/{owner}"} if owner and domain != "pcie" else {"pcie": str(component)}
    bridges = labels.get("path", "").split()
    return found | ({"pcie_switch": f"{node}/{bridges[1]}"} if len(bridges) > 1 else {})


class HostDomains:
    """names  domain -> names by group id, append only until all are renumbered"""

    def __init__(self) -> None:
        self._forget()

    def groups_of(self, tables: Iterable[Table]) -> dict[Kind, Groups]:
        """Groups of the rows of each of these tables as they are now; a free row is in none."""
        if self._crowded():
            self._forget()
        return {table.kind: self._groups(table.kind, table.ids, table.labels) for table in tables}

    def _forget(self) -> None:
        every = {domain for domains in DOMAINS.values() for domain in domains}
        self.names: dict[str, list[str]] = {domain: [] for domain in sorted(every)}
        self._number: dict[str, dict[str, int]] = {domain: {} for domain in self.names}
        self._seen: dict[Kind, list[tuple[ComponentId, Labels]]] = {kind: [] for kind in DOMAINS}
        self._ids = {kind: {domain: np.full(64, -1, np.int32) for domain in DOMAINS[kind]} for kind in DOMAINS}

    def _crowded(self) -> bool:
        """Whether most names are former ones."""
        rows = sum(len(seen) for seen in self._seen.values())
        return sum(len(names) for names in self.names.values()) > 4 * rows + SPARE_NAMES

    def _groups(self, kind: Kind, ids: Sequence[ComponentId], labels: Sequence[Labels]) -> Groups:
        seen, mine = self._seen[kind], self._ids[kind]
        for domain, numbers in mine.items():
            if len(ids) > len(numbers):
                more = np.full(max(len(ids), 2 * len(numbers)) - len(numbers), -1, np.int32)
                mine[domain] = np.concatenate((numbers, more))
        for row, (component, facts) in enumerate(zip(ids, labels, strict=True)):
            if row < len(seen):
                if seen[row][0] is component and seen[row][1] is facts:
                    continue
                seen[row] = component, facts
            else:
                seen.append((component, facts))
            domains = domains_of(component, facts) if component.node else {}
            for domain, numbers in mine.items():
                numbers[row] = self._number_of(domain, domains[domain]) if domain in domains else -1
        return Groups({domain: numbers[: len(ids)].copy() for domain, numbers in mine.items()})

    def _number_of(self, domain: str, name: str) -> int:
        known = self._number[domain]
        if name not in known:
            known[name] = len(known)
            self.names[domain].append(name)
        return known[name]
