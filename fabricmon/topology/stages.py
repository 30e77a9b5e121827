"""Groups of switches above a leaf that its ports cannot distinguish: pod, plane, network. Pure.

A port that loses packets above its leaf does not show on which switch: those that its traffic may take are one group
(docs/methods.md#limits-of-localization). In a tree that is a level of switches within a connected part: the spines of a
pod, the cores or the only spines of a plane. Fabrics whose switches all carry hosts (dragonfly, torus) have only a
network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.topology.connect import connected
from fabricmon.topology.graph import Graph
from fabricmon.topology.network import Network, networks

LEVELS = ("leaf", "spine", "core")
"""Names of levels; those above are cores, too."""
NAMED_MOST = 64
"""Switches of a group that `about` names."""


class Stage(NamedTuple):
    """A group of switches.

    name   "5" for plane(5)
    about  {"tier": "spine" | "core" | "switch", "switches": how many, "names": their names, parted by blanks}; of a
           network none of whose switches has a cable to another the tier is "leaf"
    """

    name: str
    about: dict[str, str]


def stages(graph: Graph) -> dict[str, dict[str, Stage]]:
    """Per switch that carries hosts: "pod", "plane", "network" -> the group of it. Names are unique in their domain."""
    found: dict[str, dict[str, Stage]] = {}
    every = networks(graph)
    spare = {"plane": 0, "pod": 0}
    for number, network in enumerate(every):
        joined = any(network.joined.values()) or not network.counted
        whole = Stage(str(number), _about(graph, "switch" if joined else "leaf", network.switches))
        for switch in network.switches | network.apart:
            if network.carried.get(switch, 1):
                found.setdefault(switch, {})["network"] = whole
        top = network.top
        if top < 1:
            continue
        parts = sorted(network.planes, key=lambda part: natural(min(graph.name(s) for s in part)))
        names = _names(graph, network, parts, top, len(every) > 1)
        for part, name in zip(parts, names, strict=True):
            above = [switch for switch in part if network.level[switch] == top]
            if not above:
                continue
            plane = Stage(name or str(spare["plane"]), _about(graph, level_word(top), above))
            spare["plane"] += 1
            pods = _pods(network, part) if top > 1 else []
            for switch in part:
                if network.level[switch] == 0:
                    found.setdefault(switch, {})["plane"] = plane
            for pod in sorted(pods, key=lambda pod: natural(min(graph.name(s) for s in pod))):
                spines = [switch for switch in pod if network.level[switch] == 1]
                stage = Stage(str(spare["pod"]), _about(graph, level_word(1), spines))
                spare["pod"] += 1
                for switch in pod:
                    if network.level[switch] == 0 and spines:
                        found.setdefault(switch, {})["pod"] = stage
    return found


def level_word(level: int) -> str:
    return LEVELS[min(level, len(LEVELS) - 1)]


def _pods(network: Network, part: Iterable[str]) -> list[list[str]]:
    """Connected parts of the leaves and the level above them."""
    low = {switch for switch in part if 0 <= network.level[switch] <= 1}
    return connected({switch: [other for other in network.joined[switch] if other in low] for switch in sorted(low)})


def _names(graph: Graph, network: Network, parts: list[frozenset[str]], top: int, several: bool) -> list[str]:
    """Names of planes: the label of their switches, else the rail of all their leaves, else "" for a number.

    With several networks numbers go on, so that no two planes have one name.
    """
    found: list[str] = []
    for part in parts:
        labels = {graph.switches[switch].labels.get("plane", "") for switch in part if network.level[switch] == top}
        rails = {graph.switches[switch].labels.get("rail", "") for switch in part if network.level[switch] == 0}
        own = labels if len(labels) == 1 and "" not in labels else rails
        found.append(next(iter(own)) if len(own) == 1 and len(parts) > 1 else "")
    count: Mapping[str, int] = Counter(found)
    return [name if name and count[name] == 1 and not several else "" for name in found]


def _about(graph: Graph, word: str, switches: Iterable[str]) -> dict[str, str]:
    names = sorted((graph.name(switch) for switch in switches), key=natural)
    return {"tier": word, "switches": str(len(names)), "names": " ".join(names[:NAMED_MOST])}
