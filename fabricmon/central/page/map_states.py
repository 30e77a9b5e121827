"""States on the map: one digit per node, cell, leaf and switch, in the order of the layout. Pure.

The worst state wins. A component without current data is unknown, which ranks above a symptom and is never OK; only an
open incident that names it ranks above unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabricmon.central.page.components import ACTIVE, fresh_ports
from fabricmon.central.page.map_layout import FabricMap
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.model import Incident, Kind, NodeView, Presence, Severity, Symptom

STATES = ("none", "off", "ok", "maintenance", "symptom", "unknown", "warning", "critical")
"""Names of the digits, from least to most important."""

NONE, OFF, OK, MAINTENANCE, SYMPTOM, UNKNOWN, WARNING, CRITICAL = range(len(STATES))
OF_SEVERITY = {Severity.INFO: SYMPTOM, Severity.WARNING: WARNING, Severity.CRITICAL: CRITICAL}
DOMAINS = ("leaf", "rail", "host", "power", "plane", "pod")
"""Fault domains of ports whose incidents colour every port in them that has a symptom: an incident names only some."""

Digits = NDArray[np.uint8]


def map_states(
    plan: FabricMap,
    fleet: Fleet,
    nodes: Sequence[NodeView],
    incidents: Iterable[Incident],
    symptoms: Sequence[Symptom],
    now: float,
) -> dict[str, Any]:
    """As JSON: strings of digits. `switches` are those of the tiers."""
    firing = [i for i in incidents if i.status == "firing"]
    ports = _ports(fleet, nodes, firing, symptoms, now)
    standing = np.append(ports, np.uint8(NONE))[plan.rows]
    table = fleet.tables[Kind.PORT]
    moved = (plan.rows >= 0) & (plan.generation != np.append(table.generation, -1)[plan.rows])
    standing[moved] = UNKNOWN
    named = _named(firing)
    states = _nodes(nodes, firing)
    return {
        "states": STATES,
        "nodes": _text([states.get(node, UNKNOWN) for node in plan.nodes]),
        "ports": (standing + ord("0")).astype(np.uint8).tobytes().decode(),
        "leaves": _text(_leaves(plan, standing, named)),
        "switches": _text([named.get(name, NONE) for _, names in plan.tiers for name in names]),
    }


def _text(digits: Iterable[int]) -> str:
    return "".join(map(str, digits))


def _ports(
    fleet: Fleet, nodes: Sequence[NodeView], firing: Sequence[Incident], symptoms: Sequence[Symptom], now: float
) -> Digits:
    """Every PORT row."""
    view = View(fleet.tables[Kind.PORT], now)
    live = np.zeros(1 + max((n.number for n in fleet.nodes.values()), default=0), np.bool_)
    live[[fleet.nodes[n.node].number for n in nodes if n.presence is Presence.LIVE and n.node in fleet.nodes]] = True
    found = np.full(view.n, UNKNOWN, np.uint8)
    seen = fresh_ports(view) & (view.node >= 0) & live[view.node]
    state, carrier = view.value("state"), view.value("carrier")
    down = np.where(np.isnan(state), carrier == 0, state != ACTIVE)
    found[seen] = OK
    found[seen & down] = OFF
    found[seen & view.quiet] = MAINTENANCE
    struck = np.zeros(view.n, np.bool_)
    rows = [
        row
        for s in symptoms
        if s.component.kind is Kind.PORT and (row := view.table.row(s.component)) is not None and row < view.n
    ]
    struck[rows] = True
    found[struck] = np.maximum(found[struck], SYMPTOM)
    for incident in firing:
        state_of = OF_SEVERITY[incident.severity]
        if state_of == SYMPTOM:
            continue
        hit = [row for part in incident.parts if (row := fleet.port(part)) is not None and row < view.n]
        found[hit] = np.maximum(found[hit], state_of)
        domain, names = _component(incident.component)
        if domain in DOMAINS and incident.members.bad > len(incident.parts):
            group = _group(view, domain, names)
            if group is not None:
                inside = struck & (view.group(domain) == group)
                found[inside] = np.maximum(found[inside], state_of)
    return found


def _group(view: View, domain: str, names: Sequence[str]) -> int | None:
    domains = view.table.domains
    known = domains.names.get(domain, []) if domains is not None else []
    return known.index(names[0]) if names and names[0] in known else None


def _component(word: str) -> tuple[str, list[str]]:
    """ "leaf(su1/rail2)" -> "leaf", ["su1/rail2"]."""
    match = re.fullmatch(r"(\w+)\((.*)\)", word)
    return (match[1], [name.strip() for name in match[2].split(",")]) if match else ("", [])


def _named(firing: Sequence[Incident]) -> dict[str, int]:
    """Switch or fault domain of an incident -> state."""
    found: dict[str, int] = {}
    for incident in firing:
        domain, names = _component(incident.component)
        if domain not in ("link", "nic", "gpu", "pcie", "host"):
            for name in names:
                found[name] = max(found.get(name, NONE), OF_SEVERITY[incident.severity])
    return found


def _nodes(nodes: Sequence[NodeView], firing: Sequence[Incident]) -> dict[str, int]:
    """State of each node, without its ports."""
    found = {}
    for node in nodes:
        state = OK if node.presence is Presence.LIVE else UNKNOWN
        found[node.node] = MAINTENANCE if node.maintenance else state
    for incident in firing:
        domain, names = _component(incident.component)
        inside = domain in ("gpu", "pcie", "nvlink", "nvswitch")
        own = [n.partition("/")[0] for n in names] if domain == "host" or inside else []
        own += [part for part in incident.parts if "/" not in part]
        for name in own:
            if name in found:
                found[name] = max(found[name], OF_SEVERITY[incident.severity])
    return found


def _leaves(plan: FabricMap, cells: Digits, named: Mapping[str, int]) -> list[int]:
    """One per line: the worst incident of its leaf; else OK if any of its ports is OK, else unknown."""
    found, at = [], 0
    for unit in plan.units:
        for line in unit.lines:
            mine = cells[at : at + len(line.rows)]
            at += len(line.rows)
            if not line.leaf:
                found.append(NONE)
            elif line.leaf in named:
                found.append(named[line.leaf])
            else:
                found.append(OK if bool((mine == OK).any()) else UNKNOWN)
    return found
