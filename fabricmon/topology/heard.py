"""Switches that ports hear by LLDP: the first hop of each port, where no map has its cable. Pure.

What it shows and what not: docs/methods.md#leaves-by-lldp. Labels of a PORT row: lldp_chassis (name, else id),
lldp_chassis_id, lldp_port.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.model import ComponentId
from fabricmon.topology.identity import short

HOSTS_LEAST = 2
"""Hosts that hear a switch: what only one hears may be its own adapter or DPU, or another host (design choice)."""
MOST_TEXT = 64
"""Characters of a name, an id or a port that count (design choice): an agent may send anything."""

_ODD = re.compile(r"[^\w.:/@#+-]+", re.ASCII)  # also commas and brackets, which part the names of an incident


class HeardPort(NamedTuple):
    """chassis  id of the neighbour: the same for all of its ports
    name     its system name; the id where it has none
    port     its port, "" unknown
    """

    chassis: str
    name: str
    port: str

    def title(self, near: ComponentId, switch: str) -> str:
        """Both ends of the cable: "host-007/eth3, leaf-3/swp12"."""
        return f"{near}, {switch}/{self.port}" if self.port else f"{near}, {switch}"


class HeardSwitch(NamedTuple):
    """name  unique among those that are heard
    ports number of ports that hear it
    """

    name: str
    ports: int


def heard_by(labels: Mapping[str, str]) -> HeardPort | None:
    """The neighbour that the labels of a port name; None where they name none."""
    name = _plain(labels.get("lldp_chassis", ""))
    chassis = _plain(labels.get("lldp_chassis_id", "")).lower() or name
    return HeardPort(chassis, name or chassis, _plain(labels.get("lldp_port", ""))) if chassis else None


class HeardSwitches:
    """The last neighbour that each port named. A port that is down hears nothing and is plugged in where it was: its
    neighbour stays until it names another one, or the row stands for another port or none."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[ComponentId, HeardPort]] = {}

    def hear(self, row: int, component: ComponentId, labels: Mapping[str, str]) -> HeardPort | None:
        """Take over the labels of a row; returns its neighbour, None unknown."""
        before = self._last.get(row)
        found = heard_by(labels)
        if found is None and before is not None and before[0] == component:
            found = before[1]
        if found is None or not component.node or labels.get("swept"):
            self._last.pop(row, None)
            return None
        self._last[row] = component, found
        return found

    def switches(self, nodes: Iterable[str], taken: Collection[str] = ()) -> dict[str, HeardSwitch]:
        """Chassis id -> the switch, of all neighbours that are one: HOSTS_LEAST hosts hear it, and it is no host of the
        fleet.

        nodes  names of all nodes of the fleet
        taken  names of other switches; one of these, or of two chassis, is no name, and the id stands for it
        """
        hosts: dict[str, set[str]] = defaultdict(set)
        names: dict[str, Counter[str]] = defaultdict(Counter)
        for component, (chassis, name, _) in self._last.values():
            hosts[chassis].add(component.node)
            names[chassis][name] += 1
        known = {short(node) for node in nodes}
        named = {
            chassis: _usual(names[chassis])
            for chassis, near in hosts.items()
            if len(near) >= HOSTS_LEAST and not any(short(name) in known for name in names[chassis])
        }
        count = Counter([*named.values(), *taken])
        return {
            chassis: HeardSwitch(name if count[name] == 1 else chassis, names[chassis].total())
            for chassis, name in named.items()
        }


def _usual(names: Counter[str]) -> str:
    """The name that most ports give: a switch that was renamed has two for a while."""
    return min(names, key=lambda name: (-names[name], natural(name)))


def _plain(text: str) -> str:
    return _ODD.sub("_", text.strip()[:MOST_TEXT])
