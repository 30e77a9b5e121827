"""Where an incident is: its rails, leaves and nodes, from its labels and its members. Pure.

The labels of an incident name a place only where its component is in one; an incident of many links is in all of the
places of its bad members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.fleet.fleet import Fleet
from fabricmon.model import Incident, Kind
from fabricmon.notify.matchers import nodes_of


class Whereabouts(NamedTuple):
    """Names of rails ("su1/3"), leaves ("su1/rail3") and nodes, each sorted."""

    rails: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def domain(self) -> str:
        """The smallest place that it is in as a whole: its leaf, else its node, else its rail; "" for none."""
        for word, names in (("leaf", self.leaves), ("node", self.nodes), ("rail", self.rails)):
            if len(names) == 1:
                return f"{word} {names[0]}"
        return ""


def rail_number(rail: str) -> str:
    """The rail within its unit: "3" of "su1/3"."""
    return rail.rpartition("/")[2]


def by_labels(incident: Incident) -> Whereabouts:
    """From labels, component and names of members alone."""
    nodes = {*nodes_of(incident), *(part.partition("/")[0] for part in incident.parts)}
    rail, leaf = incident.labels.get("rail"), incident.labels.get("leaf")
    return Whereabouts((rail,) if rail else (), (leaf,) if leaf else (), tuple(sorted(nodes)))


class PlacesOfIncidents:
    """The places of each incident, found again only where the incident or the topology changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Incident, Whereabouts]] = {}
        self._of: object = None

    def of(self, incidents: Iterable[Incident], fleet: Fleet) -> Mapping[str, Whereabouts]:
        """By incident id."""
        domains = fleet.tables[Kind.PORT].domains
        if domains is not self._of:
            self._kept, self._of = {}, domains
        before, self._kept = self._kept, {}
        for incident in incidents:
            kept = before.get(incident.id)
            place = kept[1] if kept is not None and kept[0] is incident else _found(incident, fleet)
            self._kept[incident.id] = incident, place
        return {id: place for id, (_, place) in self._kept.items()}


def _found(incident: Incident, fleet: Fleet) -> Whereabouts:
    named, table = by_labels(incident), fleet.tables[Kind.PORT]
    rails, leaves = set(named.rails), set(named.leaves)
    for part in incident.parts:
        row = fleet.port(part)
        if row is None or table.domains is None:
            continue
        for domain, found in (("rail", rails), ("leaf", leaves)):
            ids = table.domains.ids[domain]
            if row < len(ids) and ids[row] >= 0:
                found.add(table.domains.names[domain][int(ids[row])])
    return Whereabouts(tuple(sorted(rails)), tuple(sorted(leaves)), named.nodes)
