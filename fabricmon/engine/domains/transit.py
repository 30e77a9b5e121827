"""The cables between switches on which hosts hang, for the diagnosis of losses. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabricmon.engine.domains.groups import Ints
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.topology.graph import Graph
from fabricmon.topology.ways import Ways, ways_of


@dataclass(frozen=True, slots=True)
class LeafCables:
    """ways    between the switches
    switch  per leaf group the number of its switch there, -1 unknown
    link    per cable its number among the links
    """

    ways: Ways
    switch: Ints
    link: Ints


def transit_of(graph: Graph | None, domains: RowDomains) -> LeafCables | None:
    """Of a topology, some of whose leaves are in no plane; None of others. Its cables become links with a number."""
    ids = domains.port.ids
    if graph is None or not ((ids["leaf"] >= 0) & (ids["plane"] < 0)).any() or (ways := ways_of(graph)) is None:
        return None
    guids = [domains.about("leaf", group).get("guid", "") for group in range(len(domains.names["leaf"]))]
    switch = np.array([ways.place.get(guid, -1) for guid in guids], np.int64)
    return LeafCables(ways, switch, np.array([domains.number_link(title) for title in ways.titles], np.int64))
