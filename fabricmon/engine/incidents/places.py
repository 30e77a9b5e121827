"""Labels for where an incident is: rail, leaf, node and device, for routing, grouping and filters. Pure.

They follow from the component and the topology, not from its present members: a receiver may identify an alert by
them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec
import numpy as np

from fabricmon.engine.incidents.incident_draft import IncidentDraft
from fabricmon.fleet.table import Table
from fabricmon.forms.cables import cables_of
from fabricmon.model import ComponentId, Kind

DEVICES = frozenset({"link", "port", "nic", "gpu", "pcie", "nvlink"})
"""Words of components that are part of a node: "nic(host-007/mlx5_3)"."""


def with_places(drafts: Sequence[IncidentDraft], ports: Table, nodes: Container[str]) -> list[IncidentDraft]:
    """The drafts with labels `rail`, `leaf`, `node` and `device` where each is one; labels of the draft win."""
    return [msgspec.structs.replace(d, labels=place_of(d.component, ports, nodes) | d.labels) for d in drafts]


def place_of(component: str, ports: Table, nodes: Container[str]) -> dict[str, str]:
    """The labels of a component: "leaf(su1/rail2)", "link(host-007/mlx5_3/1, leaf-3/12)"; none of one of several
    cables. `nodes`: those known."""
    word, _, inside = component.partition("(")
    name = inside.removesuffix(")").partition(", ")[0]
    if word in ("rail", "leaf"):
        return {**_groups(_members(word, name, ports), ports), word: name}
    if word == "host":
        return {"node": name} if name in nodes else {}
    node, slash, part = name.partition("/")
    if word not in DEVICES or not slash or node not in nodes or len(cables_of(component)) > 1:
        return {}
    device, _, number = part.rpartition("/")
    device = device or part
    row = ports.row(ComponentId(Kind.PORT, node, part if number and "/" in part else f"{device}/1"))
    return {**_groups([row] if row is not None else [], ports), "node": node, "device": device}


def _members(domain: str, name: str, ports: Table) -> list[int]:
    """Rows of the group of that name."""
    if ports.domains is None or name not in ports.domains.names.get(domain, ()):
        return []
    group = ports.domains.names[domain].index(name)
    return [int(row) for row in np.flatnonzero(ports.domains.ids[domain] == group)]


def _groups(rows: Sequence[int], ports: Table) -> dict[str, str]:
    """The rail and the leaf that all of the rows are in."""
    found: dict[str, str] = {}
    for domain in ("rail", "leaf") if ports.domains is not None and rows else ():
        assert ports.domains is not None
        ids = ports.domains.ids[domain]
        groups = {int(ids[row]) if row < len(ids) else -1 for row in rows}
        if len(groups) == 1 and (group := groups.pop()) >= 0:
            found[domain] = ports.domains.names[domain][group]
    return found
