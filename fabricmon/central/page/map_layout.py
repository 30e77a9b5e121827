"""Layout of the map: units of nodes, in each one line per rail, in each line one cell per node. Pure.

A unit comes from the topology (scalable unit, block, rack); without one, the nodes below the same leaf; else nodes by
name, CHUNK at a time. Below the rails of a unit follow its ports without a rail, by role. The layout changes with
nodes, ports and topology; `map_states.py` gives the states, cell by cell in the same order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabricmon.fleet.table import Table
from fabricmon.forms.natural import natural
from fabricmon.topology.graph import Graph

CHUNK = 32  # nodes of a unit by name
MAX_LINES = 24  # of a unit; ports beyond are on the node's page
MAX_SWITCHES = 4096  # above the leaves; further ones are not drawn
UNIT_LABELS = ("unit", "block", "rack")
NO_ROW = -1


@dataclass(slots=True)
class MapLine:
    """One line of cells. `port` is the most frequent port name, `odd` the other names by cell; `leaf` the most
    frequent leaf, "" for none."""

    name: str
    leaf: str
    port: str
    odd: dict[int, str]
    rows: NDArray[np.int32]


@dataclass(slots=True)
class MapUnit:
    name: str
    nodes: list[str]
    lines: list[MapLine] = field(default_factory=list)


@dataclass(slots=True)
class FabricMap:
    """The map. `rows` and `generation` are of all cells in order: unit, line, node."""

    units: list[MapUnit]
    tiers: list[tuple[str, list[str]]]
    rows: NDArray[np.int32]
    generation: NDArray[np.int64]

    @property
    def nodes(self) -> list[str]:
        """All nodes in the order of the map."""
        return [node for unit in self.units for node in unit.nodes]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "units": [
                {
                    "name": unit.name,
                    "nodes": unit.nodes,
                    "lines": [
                        {"name": line.name, "leaf": line.leaf, "port": line.port, "odd": line.odd}
                        for line in unit.lines
                    ],
                }
                for unit in self.units
            ],
            "tiers": [{"name": name, "switches": switches} for name, switches in self.tiers],
        }


def lay_out_map(nodes: Sequence[str], table: Table, graph: Graph | None) -> FabricMap:
    """The map of these nodes from the PORT table, without rows of a fabric sweep and idle ports."""
    cells = _cells(table)
    hosts = graph.hosts if graph is not None else {}
    units = [_unit(name, names, cells, table) for name, names in _grouped(nodes, hosts, cells)]
    rows = [line.rows for unit in units for line in unit.lines]
    every = np.concatenate(rows) if rows else np.zeros(0, np.int32)
    return FabricMap(units, _tiers(graph), every, table.generation[every] if len(every) else np.zeros(0, np.int64))


class _MapCell(NamedTuple):
    row: int
    line: str
    leaf: str


def _cells(table: Table) -> dict[str, list[_MapCell]]:
    """Node -> its ports, by name."""
    found = defaultdict(list)
    rails, leaves = _groups(table, "rail"), _groups(table, "leaf")
    present = table.present[: table.n].tolist()
    for row, (component, labels) in enumerate(zip(table.ids, table.labels, strict=True)):
        role = labels.get("role", "")
        if not component.node or "swept" in labels or role == "idle" or not present[row]:
            continue
        line = rails[row].rpartition("/")[2] or f"{role or 'unknown'} ports"
        found[component.node].append(_MapCell(row, line, leaves[row]))
    for cells in found.values():
        cells.sort(key=lambda cell: natural(table.ids[cell.row].name))
    return found


def _groups(table: Table, domain: str) -> list[str]:
    """Per row the name of its group in a fault domain, "" for none; a new row has no domains yet."""
    if table.domains is None:
        return [""] * table.n
    names = [*table.domains.names[domain], ""]
    known = [names[group] for group in table.domains.ids[domain][: table.n].tolist()]
    return known + [""] * (table.n - len(known))


def _grouped(
    nodes: Sequence[str], hosts: Mapping[str, Mapping[str, str]], cells: Mapping[str, list[_MapCell]]
) -> list[tuple[str, list[str]]]:
    """Units with their nodes, by name; nodes without a unit last."""
    units: dict[str, list[str]] = defaultdict(list)
    for node in sorted(nodes, key=natural):
        labels = hosts.get(node, {})
        name = next((labels[key] for key in UNIT_LABELS if labels.get(key)), "")
        if not name:
            leaf = next((cell.leaf for cell in cells.get(node, ()) if cell.leaf), "")
            name = re.sub(r"/rail[^/]*$", "", leaf)
        units[name].append(node)
    loose = units.pop("", [])
    found = [(name, units[name]) for name in sorted(units, key=natural)]
    for at in range(0, len(loose), CHUNK):
        part = loose[at : at + CHUNK]
        found.append((part[0] if len(part) == 1 else f"{part[0]} … {part[-1]}", part))
    return found


def _unit(name: str, nodes: list[str], cells: Mapping[str, list[_MapCell]], table: Table) -> MapUnit:
    lines: dict[tuple[str, int], list[tuple[int, _MapCell]]] = defaultdict(list)
    for at, node in enumerate(nodes):
        met: Counter[str] = Counter()
        for cell in cells.get(node, ()):
            lines[cell.line, met[cell.line]].append((at, cell))
            met[cell.line] += 1
    unit = MapUnit(name, nodes)
    for key in sorted(lines, key=lambda key: (key[0].endswith("ports"), natural(key[0]), key[1]))[:MAX_LINES]:
        unit.lines.append(_line(key, lines[key], len(nodes), table))
    return unit


def _line(key: tuple[str, int], found: Sequence[tuple[int, _MapCell]], width: int, table: Table) -> MapLine:
    rows = np.full(width, NO_ROW, np.int32)
    for at, cell in found:
        rows[at] = cell.row
    names = {at: table.ids[cell.row].name for at, cell in found}
    port = Counter(names.values()).most_common(1)[0][0]
    leaves = Counter(cell.leaf for _, cell in found if cell.leaf).most_common(1)
    name = key[0] if key[0].endswith("ports") else f"rail {key[0]}"
    odd = {at: other for at, other in names.items() if other != port}
    return MapLine(name, leaves[0][0] if leaves else "", port, odd, rows)


def _tiers(graph: Graph | None) -> list[tuple[str, list[str]]]:
    """Switches above the leaves, the highest level first."""
    if graph is None:
        return []
    levels: dict[int, list[str]] = defaultdict(list)
    for switch in graph.switches.values():
        if switch.level is not None and switch.level > 0 and switch.labels.get("network") != "nvlink":
            levels[switch.level].append(graph.name(switch.id))
    found, room = [], MAX_SWITCHES
    for level in sorted(levels, reverse=True):
        names = sorted(levels[level], key=natural)[:room]
        room -= len(names)
        words = {1: "spines", 2: "cores"}.get(level, f"level {level}")
        found.append((words, names))
    return [(name, names) for name, names in found if names]
