"""Switches that ports hear by LLDP: the first hop of each port, where no map has its cable. Pure.

What it shows and what not: docs/methods.md#leaves-by-lldp. Labels of a PORT row: lldp_chassis (name, else id),
lldp_chassis_id, lldp_port.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
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
        self._rows: dict[str, dict[int, None]] = {}  # chassis -> rows
        self._changed: set[str] = set()  # chassis since `switches` last counted them
        self._known: dict[str, _Heard] = {}

    def hear(self, row: int, component: ComponentId, labels: Mapping[str, str]) -> HeardPort | None:
        """Take over the labels of a row; returns its neighbour, None unknown."""
        before = self._last.pop(row, None)
        found = heard_by(labels) if component.node and not labels.get("swept") else None
        if before is not None:
            if found is None and before[0] == component:
                found = before[1]
            del self._rows[before[1].chassis][row]
            self._changed.add(before[1].chassis)
        if found is not None:
            self._last[row] = component, found
            self._rows.setdefault(found.chassis, {})[row] = None
            self._changed.add(found.chassis)
        return found

    def rows(self, chassis: str) -> Iterable[int]:
        """Rows of the ports that hear it."""
        return self._rows.get(chassis, ())

    def switches(self, nodes: Iterable[str], taken: Collection[str] = ()) -> dict[str, HeardSwitch]:
        """Chassis id -> the switch, of all neighbours that are one: HOSTS_LEAST hosts hear it, and it is no host of the
        fleet.

        nodes  names of all nodes of the fleet
        taken  names of other switches; one of these, or of two chassis, is no name, and the id stands for it
        """
        for chassis in self._changed:
            self._known.pop(chassis, None)
            if rows := self._rows[chassis]:
                self._known[chassis] = _Heard.of(self._last[row] for row in rows)
            else:
                del self._rows[chassis]
        self._changed.clear()
        called = {short(node) for node in nodes}
        named = {
            chassis: heard
            for chassis, heard in self._known.items()
            if heard.hosts >= HOSTS_LEAST and short(heard.name) not in called
        }
        count = Counter([*(heard.name for heard in named.values()), *taken])
        return {
            chassis: HeardSwitch(heard.name if count[heard.name] == 1 else chassis, heard.ports)
            for chassis, heard in named.items()
        }


class _Heard(NamedTuple):
    """hosts  that hear it, and their `ports`
    name   that most ports give: a switch that was renamed has two for a while, and an agent may lie
    """

    hosts: int
    ports: int
    name: str

    @classmethod
    def of(cls, heard: Iterable[tuple[ComponentId, HeardPort]]) -> _Heard:
        every = list(heard)
        names = Counter(port.name for _, port in every)
        usual = min(names, key=lambda name: (-names[name], natural(name)))
        return cls(len({component.node for component, _ in every}), len(every), usual)


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    return _ODD.sub("_", text.strip()[:MOST_TEXT])
