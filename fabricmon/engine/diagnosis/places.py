"""Where hosts are that fell silent together (docs/methods.md#unknown-common-cause). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.beginnings import Beginning
from fabricmon.engine.diagnosis.uplinks import OF_LEAVES
from fabricmon.engine.domains.groups import Ids
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.domains.shared_parts import BATCHES
from fabricmon.model import Kind

T = SymptomType
PLACES = ("chassis", "rack", "row", "power")
"""Places of hosts; those of one chassis are in one of each."""
SUPPLIED = ("power", "chassis")
"""Groups of hosts that are exactly what one supply feeds. A rack is only near to what one management switch serves."""


def are_apart(units: Sequence[Beginning], domains: RowDomains) -> bool:
    """Whether some of these hosts are known to be in different places: no chassis has them all."""
    return any(len(np.unique(mine[mine >= 0])) > 1 for _, mine in _places(units, domains))


def share_of_place(units: Sequence[Beginning], domains: RowDomains) -> float:
    """Share of the hosts with a known place that are in the smallest place which has all of these: the chance that
    another host that falls silent is there, too. 1.0 where none is known to have them all, or these are no hosts."""
    shares = [
        float((ids == mine[0]).sum() / (ids >= 0).sum())
        for ids, mine in _places(units, domains) if mine[0] >= 0 and (mine == mine[0]).all()
    ]  # fmt: skip
    return min(shares, default=1.0)


STATED = ("chassis", "rack", "row")
"""Groups of ports that the list of hosts states, whatever a cable plan has for their cables."""


WITHIN_LEAVES = frozenset({*OF_LEAVES, "host", "cage", "module", "pcie_switch"})
"""Domains of which no cable between other switches can be a part."""
OF_LINKS = frozenset({T.LINK_DOWN, T.LINK_FLAPPING, T.LINK_FELL, T.LINK_ERRORS})
MOST = 0.5  # share of the ports of what is a part of another group, which may have some of them, too


def without_strangers(first: Beginning, units: Sequence[Beginning], domains: RowDomains) -> list[Beginning]:
    """The units, without single hosts that are known to be on another supply than the first, ports known to be in
    another group of its kind, or of no batch that it is, or on another leaf with no name of its own ports (mlx5_1 of a
    rail), and cables between other switches than its own: as effects of it they would be in no incident."""
    if first.verdict is None:
        return list(units)
    domain, group = first.verdict.domain, first.verdict.group
    if first.of_hosts and domain in SUPPLIED:
        ids = domains.by_table[Kind.NODE].ids[domain]
        known = {-1, group}
        return [unit for unit in units if unit is first or unit.wide or known & set(ids[list(unit.rows)].tolist())]
    if not first.of_hosts and domain in (*STATED, *BATCHES):
        own = (-1, group) if domain in STATED else (group,)  # an adapter states its batch itself, not a map
        ids = domains.port.ids[domain]
        return [unit for unit in units if unit is first or np.isin(ids[list(unit.rows)], own).mean() > MOST]
    if all(unit.types <= OF_LINKS for unit in units):
        names, tier = domains.devices(first.rows), domains.assigned.ids["tier"]
        # the cables of its own switch to others are its members or effects already
        elsewhere = [domain in WITHIN_LEAVES and bool((tier[list(unit.rows)] >= 0).all()) for unit in units]
        return [
            unit for unit, known in zip(units, elsewhere, strict=True)
            if unit is first or (unit.loose and not known) or names & domains.devices(unit.rows)
        ]  # fmt: skip
    return list(units)


def _places(units: Sequence[Beginning], domains: RowDomains) -> Iterator[tuple[Ids, Ids]]:
    """Group of every host, and of those of some single hosts, for each sort of place."""
    if any(unit.wide or not unit.of_hosts for unit in units):
        return
    rows = [row for unit in units for row in unit.rows]
    of_nodes = domains.by_table[Kind.NODE].ids
    for place in PLACES:
        if place in of_nodes and rows:
            yield of_nodes[place], of_nodes[place][rows]
