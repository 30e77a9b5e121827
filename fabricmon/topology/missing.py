"""Dead switches by what is below them: switches with the same neighbours that all lack an uplink. Pure.

A switch that is down is in no discovery; what remains is that each switch below it lost one link
(docs/methods.md#missing-switches).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.topology.connect import joined
from fabricmon.topology.graph import Graph
from fabricmon.topology.infer import by_name, is_nvlink, neighbours

ALIKE = 0.8
"""Two switches have the same neighbours above when they share at least this part of the larger set; and this share of
such switches must lack an uplink."""
LEAST = 4
"""Switches that must lack an uplink: fewer are single cables."""

_NUMBERED = re.compile(r"^(.*?)(\d{1,6})$")


class MissingSwitch(NamedTuple):
    """`name`: of the missing switch, or several, by the gap in the numbers of its level; "" unknown
    `below`: switches that lack an uplink, in natural order; `peers`: switches with the same neighbours above."""

    name: str
    below: tuple[str, ...]
    peers: int


def missing_switches(graph: Graph, short: Iterable[str]) -> list[MissingSwitch]:
    """Groups of switches that most probably lack the same switch above them.

    short  switches that lack an uplink
    """
    lacking = set(short)
    if len(lacking) < LEAST:
        return []
    found = []
    for level in sorted({graph.switches[switch].level for switch in lacking}):
        above = _above(graph, level)
        for group in _alike(above):
            below = [switch for switch in group if switch in lacking]
            if len(below) >= LEAST and len(below) >= ALIKE * len(group):
                found.append(MissingSwitch(_gap(graph, level + 1), tuple(by_name(graph, below)), len(group)))
    return found


def empty_uplinks(graph: Graph, switch: str, peers: Iterable[str]) -> list[int]:
    """Ports of a switch without a cable that are uplinks on most of its peers."""
    wanted = set(peers)
    used: set[int] = set()
    uplinks: Counter[int] = Counter()
    for link in graph.cables:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node == switch:
                used.add(near.port)
            elif near.node in wanted and far.node in graph.switches:
                uplinks[near.port] += graph.switches[far.node].level > graph.switches[near.node].level
    return sorted(port for port, count in uplinks.items() if count >= ALIKE * (len(wanted) - 1) and port not in used)


def _alike(above: Mapping[str, set[str]]) -> list[list[str]]:
    """Switches that have the same neighbours above."""
    return joined(above, lambda a, b, shared: shared >= ALIKE * max(len(above[a]), len(above[b])))


def _above(graph: Graph, level: int) -> Mapping[str, set[str]]:
    """Switches of a level -> switches above that they are joined to."""
    around = neighbours(graph)
    return {
        switch.id: above
        for switch in graph.switches.values()
        if switch.level == level and not is_nvlink(switch) and not switch.labels.get("apart")
        and (above := {other for other in around[switch.id] if graph.switches[other].level > level})
    }  # fmt: skip


def _gap(graph: Graph, level: int) -> str:
    """Names that are missing in the numbered names of a level, where they are one or two; "" else."""
    series: dict[tuple[str, int], set[int]] = defaultdict(set)
    for switch in graph.switches.values():
        match = _NUMBERED.match(switch.name) if switch.level == level else None
        if match:
            series[match[1], len(match[2]) if match[2].startswith("0") else 0].add(int(match[2]))
    widths = {prefix: max(width for other, width in series if other == prefix) for prefix, _ in series}
    numbers: dict[str, set[int]] = defaultdict(set)
    for (prefix, _), found in series.items():
        numbers[prefix] |= found
    gaps = [
        f"{prefix}{number:0{widths[prefix]}d}"
        for prefix, found in numbers.items()
        if len(found) >= LEAST and max(found) - min(found) < 2 * len(found)
        for number in range(min(found), max(found))
        if number not in found
    ]
    return " or ".join(sorted(gaps, key=natural)) if len(gaps) <= 2 else ""
