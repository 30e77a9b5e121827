"""What has a name and ports: leaf, rail, unit, switch, adapter, cable, job, and every other fault domain of ports.

One table of kinds; a kind finds the PORT rows of a name. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fabricmon.central.page.map_layout import UNIT_LABELS
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.row_state import Numbers
from fabricmon.fleet.table import Table
from fabricmon.forms.cables import cables_of
from fabricmon.forms.natural import natural
from fabricmon.jobs.model import Job, Jobs, host_name
from fabricmon.model import Incident, Kind
from fabricmon.topology.graph import End, Graph, Switch


class Surroundings(NamedTuple):
    """What names are looked up in."""

    fleet: Fleet
    graph: Graph | None
    jobs: Sequence[Jobs] = ()


@dataclass(slots=True)
class NamedThing:
    """A thing with its ports.

    word    of its incidents: "leaf" of leaf(su1/rail2)
    rows    PORT rows of hosts in it
    swept   PORT rows in it that a fabric sweep reads
    about   facts in words
    switch  the switch that it is, None for another thing
    nodes   of which it consists, where these are known without ports
    """

    kind: str
    word: str
    name: str
    rows: Numbers
    swept: Numbers = field(default_factory=lambda: np.zeros(0, np.intp))
    about: dict[str, str] = field(default_factory=dict)
    switch: Switch | None = None
    nodes: dict[str, None] = field(default_factory=dict)

    def concerns(self, incident: Incident, rows: Container[int], fleet: Fleet) -> bool:
        """Whether an incident names it, one of its ports (`rows`), or a node that it consists of."""
        inside = incident.component.partition("(")[2].removesuffix(")")
        names = (inside, inside.partition(", ")[0], *cables_of(incident.component))
        if incident.component.startswith(f"{self.word}(") and self.name in names:
            return True
        if self.switch is not None and self.switch.name and f"{self.switch.name}/" in inside:
            return True
        return any(part.partition("/")[0] in self.nodes or fleet.port(part) in rows for part in incident.parts)


class NamedKind(NamedTuple):
    """A kind of named things. `find` returns one, None where nothing has that name."""

    title: str
    find: Callable[[str, Surroundings], NamedThing | None]


def find_named(kind: str, name: str, around: Surroundings) -> NamedThing | None:
    """The thing of that name, None where there is none."""
    known = KINDS.get(kind)
    return known.find(name, around) if known is not None and name else None


def _members(table: Table, domain: str, name: str) -> tuple[Numbers, Numbers, dict[str, str]] | None:
    """Host rows, swept rows and details of a group of a fault domain."""
    if table.domains is None or name not in table.domains.names.get(domain, ()):
        return None
    group = table.domains.names[domain].index(name)
    rows = np.flatnonzero(table.domains.ids[domain][: table.n] == group)
    swept = table.domains.swept[rows]
    about = table.domains.about.get(domain, [])
    return rows[~swept], rows[swept], about[group] if group < len(about) else {}


def _of_domain(kind: str, domain: str) -> Callable[[str, Surroundings], NamedThing | None]:
    def find(name: str, around: Surroundings) -> NamedThing | None:
        found = _members(around.fleet.tables[Kind.PORT], domain, name)
        if found is None:
            return None
        rows, swept, about = found
        switch = around.graph.switches.get(about.get("guid", "")) if around.graph is not None else None
        return NamedThing(kind, domain, name, rows, swept, about, switch)

    return find


def _rows_of_nodes(fleet: Fleet, nodes: Iterable[str]) -> Numbers:
    own = (fleet.nodes[node].rows.get(Kind.PORT, {}).values() for node in nodes if node in fleet.nodes)
    table = fleet.tables[Kind.PORT]
    rows = np.array([row for some in own for row in some], np.intp)
    return rows if table.domains is None else rows[~table.domains.swept[rows]]


def _unit(name: str, around: Surroundings) -> NamedThing | None:
    hosts = around.graph.hosts if around.graph is not None else {}
    nodes = [host for host, labels in hosts.items() if name in (labels.get(key) for key in UNIT_LABELS)]
    if not nodes:
        return None
    nodes.sort(key=natural)
    return NamedThing("unit", "unit", name, _rows_of_nodes(around.fleet, nodes), nodes=dict.fromkeys(nodes))


def _switch(name: str, around: Surroundings) -> NamedThing | None:
    graph, table = around.graph, around.fleet.tables[Kind.PORT]
    if graph is None:
        return None
    found = graph.switches.get(name) or next((s for s in graph.switches.values() if s.name == name), None)
    if found is None:
        return None
    about = table.domains.about.get("leaf", []) if table.domains is not None else []
    leaf = next((at for at, each in enumerate(about) if each.get("guid") == found.id), None)
    if leaf is not None and table.domains is not None:
        whole = _of_domain("switch", "leaf")(table.domains.names["leaf"][leaf], around)
        if whole is not None:
            whole.about = {**_facts(found), **whole.about, "leaf": whole.name}
            whole.word, whole.name = "switch", graph.name(found.id)
            return whole
    rows = _swept_of(table, found.id)
    return NamedThing("switch", "switch", graph.name(found.id), np.zeros(0, np.intp), rows, _facts(found), found)


def _swept_of(table: Table, switch: str) -> Numbers:
    """Rows of a sweep of the switch with this id."""
    return np.array([row for end, row in swept_ends(table).items() if end.node == switch], np.intp)


def swept_ends(table: Table) -> dict[End, int]:
    """Port of a switch -> the PORT row of a sweep or exporter that reads it, the first of several."""
    found: dict[End, int] = {}
    for row in np.flatnonzero(table.domains.swept[: table.n]).tolist() if table.domains is not None else ():
        labels = table.labels[row]
        if (port := labels.get("port", "")).isdecimal():
            found.setdefault(End(labels.get("node_guid", ""), int(port)), row)
    return found


def _facts(switch: Switch) -> dict[str, str]:
    level = {-1: "unknown", 0: "leaf", 1: "spine", 2: "core"}.get(switch.level, str(switch.level))
    labels = {key: value for key, value in switch.labels.items() if not key.startswith("port/") and key != "sources"}
    facts = {"level": level, "model": switch.model, "ports": str(switch.ports or ""), "id": switch.id, **labels}
    return {key: value for key, value in facts.items() if value}


def find_job(word: str, jobs: Sequence[Jobs]) -> tuple[Jobs, Job] | None:
    """The job of this title, id or name; the title or id first."""
    listed = [(source, job) for source in jobs for job in source.jobs]
    for same in (lambda job: word in (job.title, job.id), lambda job: word == job.name):
        for source, job in listed:
            if same(job):
                return source, job
    return None


def _job(name: str, around: Surroundings) -> NamedThing | None:
    found = find_job(name, around.jobs)
    if found is None:
        return None
    source, job = found
    wanted = set(job.nodes)
    nodes = dict.fromkeys(sorted((node for node in around.fleet.nodes if host_name(node) in wanted), key=natural))
    about = {"name": job.name, "id": job.id, "user": job.user, "queue": job.queue, "source": source.source,
             "nodes": str(len(job.nodes))}  # fmt: skip
    about = {key: value for key, value in about.items() if value}
    return NamedThing("job", "job", job.title, _rows_of_nodes(around.fleet, nodes), about=about, nodes=nodes)


def _same(*domains: str) -> dict[str, NamedKind]:
    return {domain: NamedKind(domain.replace("_", " "), _of_domain(domain, domain)) for domain in domains}


KINDS: dict[str, NamedKind] = {
    "switch": NamedKind("switch", _switch),
    "unit": NamedKind("unit", _unit),
    "job": NamedKind("job", _job),
    "cable": NamedKind("cable", _of_domain("cable", "link")),
    **_same("leaf", "rail", "nic", "power", "plane", "pod", "network", "tier", "module", "cage", "feed"),
    **_same("firmware", "board"),
}
"""Word in the address -> kind. Nodes, ports, GPUs and the other rows have pages of their own (node.py)."""

OF_WORD = {"link": "cable", "uplinks": "leaf"} | {kind: kind for kind in KINDS if kind != "cable"}
"""Word of a component of an incident -> kind."""
