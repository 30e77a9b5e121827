"""Switches that ports name by LLDP: the first hop of each port, where no map has its cable. Pure.

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
"""Hosts that name a switch: what only one names may be its own adapter or DPU, or another host (design choice)."""
MOST_TEXT = 64
"""Characters of a name, an id or a port that count (design choice): an agent may send anything."""

_ODD = re.compile(r"[^\w.:/@#+-]+", re.ASCII)  # also commas and brackets, which part the names of an incident


class LldpNeighbour(NamedTuple):
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


class LldpSwitch(NamedTuple):
    """name  unique among these switches
    ports number of ports that name it
    """

    name: str
    ports: int


def neighbour_of(labels: Mapping[str, str]) -> LldpNeighbour | None:
    """The neighbour that the labels of a port name; None where they name none."""
    name = _plain(labels.get("lldp_chassis", ""))
    chassis = _plain(labels.get("lldp_chassis_id", "")).lower() or name
    return LldpNeighbour(chassis, name or chassis, _plain(labels.get("lldp_port", ""))) if chassis else None


class LldpSwitches:
    """The last neighbour that each port named. A port that is down receives no LLDP and is plugged in where it was: its
    neighbour stays until it names another one, or the row stands for another port or none."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[ComponentId, LldpNeighbour]] = {}
        self._rows: dict[str, dict[int, None]] = {}  # chassis -> rows
        self._changed: set[str] = set()  # chassis since `switches` last counted them
        self._known: dict[str, _Counted] = {}

    def take(self, row: int, component: ComponentId, labels: Mapping[str, str]) -> LldpNeighbour | None:
        """Take over the labels of a row; returns its neighbour, None unknown."""
        before = self._last.pop(row, None)
        found = neighbour_of(labels) if component.node and not labels.get("swept") else None
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
        """Rows of the ports that name it."""
        return self._rows.get(chassis, ())

    def switches(self, nodes: Iterable[str], taken: Collection[str] = ()) -> dict[str, LldpSwitch]:
        """Chassis id -> the switch, of all neighbours that are one: HOSTS_LEAST hosts name it, and it is no host of the
        fleet.

        nodes  names of all nodes of the fleet
        taken  names of other switches; one of these, or of two chassis, is no name, and the id stands for it
        """
        for chassis in self._changed:
            self._known.pop(chassis, None)
            if rows := self._rows[chassis]:
                self._known[chassis] = _Counted.of(self._last[row] for row in rows)
            else:
                del self._rows[chassis]
        self._changed.clear()
        called = {short(node) for node in nodes}
        named = {
            chassis: counted
            for chassis, counted in self._known.items()
            if counted.hosts >= HOSTS_LEAST and short(counted.name) not in called
        }
        count = Counter([*(counted.name for counted in named.values()), *taken])
        return {
            chassis: LldpSwitch(counted.name if count[counted.name] == 1 else chassis, counted.ports)
            for chassis, counted in named.items()
        }


class _Counted(NamedTuple):
    """hosts  that name it, and their `ports`
    name   that most ports give: a switch that was renamed has two for a while, and an agent may lie
    """

    hosts: int
    ports: int
    name: str

    @classmethod
    def of(cls, named: Iterable[tuple[ComponentId, LldpNeighbour]]) -> _Counted:
        every = list(named)
        names = Counter(port.name for _, port in every)
        usual = min(names, key=lambda name: (-names[name], natural(name)))
        return cls(len({component.node for component, _ in every}), len(every), usual)


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    return _ODD.sub("_", text.strip()[:MOST_TEXT])
