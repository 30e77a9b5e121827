"""Places of ports that a map lacks, by the ports on both sides (docs/topology.md#ports-that-a-map-lacks). Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from fabricmon.forms.natural import natural
from fabricmon.model import ComponentId
from fabricmon.topology.graph import End
from fabricmon.topology.graph_index import CablePlace, GraphIndex
from fabricmon.topology.identity import short
from fabricmon.topology.infer import rail_index

Order = tuple[tuple[int, int, str], ...]
Slot = tuple[int, int]
"""Number of an adapter and of its port, the same on every host of a kind."""


class PortWithoutCable(NamedTuple):
    """A port of a host of which the map has no cable. `order`: its host's place among the names of hosts."""

    slot: Slot
    order: Order
    component: ComponentId


class _Cabled(NamedTuple):
    order: Order
    leaf: str
    socket: int


class _CabledPorts(NamedTuple):
    """The ports of a slot of which the map has the cable, in the order of their hosts' names; the first and last port
    of any leaf that one of them is on."""

    ports: Sequence[_Cabled]
    first: int
    last: int


def port_without_cable(component: ComponentId, device: str, port: str) -> PortWithoutCable | None:
    """None where the names of device and port have no number."""
    number = rail_index(device)
    if number is None or not port.isdecimal():
        return None
    return PortWithoutCable((number, int(port)), natural(short(component.node)), component)


class PortsBetween:
    """Places by the ports of one graph."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._cabled: dict[Slot, _CabledPorts] | None = None

    def places(self, lacking: Mapping[int, PortWithoutCable]) -> dict[int, CablePlace]:
        """Places of those rows of which they are certain.

        Hosts that lack a cable go on with the ports of the leaf of the host before them, or come before those of the
        host after them, at the distance that the next two ports there have. Their places are known where that can be in
        one way only: the ports are free, and no other leaf has hosts beyond them.
        """
        slots: dict[Slot, list[int]] = defaultdict(list)
        for row, port in lacking.items():
            slots[port.slot].append(row)
        found: dict[int, CablePlace] = {}
        for slot, rows in slots.items():
            if (cabled := self._of(slot)) is None:
                continue
            gaps: dict[int, list[int]] = defaultdict(list)
            for row in sorted(rows, key=lambda row: lacking[row].order):
                gaps[bisect_left(cabled.ports, (lacking[row].order,))].append(row)
            for gap, within in gaps.items():
                ways = list(self._ways(cabled, gap, gaps, [lacking[row].order for row in within]))
                if len(ways) == 1:
                    places = zip(within, ways[0], strict=True)
                    found.update(
                        (row, self._index.below(leaf, str(lacking[row].component), socket))
                        for row, (leaf, socket) in places
                    )
        return found

    def _of(self, slot: Slot) -> _CabledPorts | None:
        if self._cabled is None:
            slots: dict[Slot, list[_Cabled]] = defaultdict(list)
            for key, port in self._ends():
                slots[key].append(port)
            self._cabled = {
                key: _CabledPorts(sorted(ports), min(p.socket for p in ports), max(p.socket for p in ports))
                for key, ports in slots.items()
            }
        return self._cabled.get(slot)

    def _ends(self) -> Iterator[tuple[Slot, _Cabled]]:
        graph, orders = self._index.graph, dict[str, Order]()
        for near, far in self._index.far.items():
            adapter = graph.adapters.get(near.node)
            number = rail_index(adapter.name) if adapter is not None and adapter.host else None
            if adapter is None or number is None or far.node not in graph.switches:
                continue
            if adapter.host not in orders:
                orders[adapter.host] = natural(short(adapter.host))
            yield (number, near.port), _Cabled(orders[adapter.host], far.node, far.port)

    def _ways(
        self, cabled: _CabledPorts, gap: int, gaps: Mapping[int, object], orders: Sequence[Order]
    ) -> Iterator[list[tuple[str, int]]]:
        """The ways in which the hosts between two neighbours may have their ports: leaf and its port of each.

        gap   position of the neighbour after them
        gaps  all positions before which hosts lack a cable
        """
        ports, many = cabled.ports, len(orders)
        before, after = ports[gap - 1] if gap else None, ports[gap] if gap < len(ports) else None
        if any(one == other for one, other in pairwise([*orders, *([after.order] if after else [])])):
            return  # a host is there twice, or has another port in this place
        up, down = _distance(ports, gap - 1, gaps), _distance(ports, gap + 1, gaps)
        if before is not None and after is not None and before.leaf == after.leaf:
            step, span = up or down, after.socket - before.socket
            agree = down in (0, step) and span == (many + 1) * step
            ways = [_beside(before, step, range(1, many + 1), orders)] if agree else []
        else:
            ways = [
                _beside(before, up, range(1, first + 1), orders[:first])
                + _beside(after, down, range(first - many, 0), orders[first:])
                for first in range(many + 1)
            ]
        for places in ways:
            if len(places) == many and all(self._is_free(cabled, *place) for place in places):
                yield places

    def _is_free(self, cabled: _CabledPorts, leaf: str, socket: int) -> bool:
        return cabled.first <= socket <= cabled.last and End(leaf, socket) not in self._index.cable_at


def _distance(ports: Sequence[_Cabled], at: int, gaps: Container[int]) -> int:
    """Of a port from the one before it, on one leaf; 0 unknown."""
    near = 0 < at < len(ports) and at not in gaps and ports[at - 1].leaf == ports[at].leaf
    return ports[at].socket - ports[at - 1].socket if near else 0


def _beside(
    port: _Cabled | None, distance: int, steps: Iterable[int], orders: Iterable[Order]
) -> list[tuple[str, int]]:
    """Leaf and its port some steps from another one, for hosts whose names are like its host's; else none, also where
    no distance is known."""
    if port is None or not distance or any(_words(order) != _words(port.order) for order in orders):
        return []
    return [(port.leaf, port.socket + distance * n) for n in steps]


def _words(order: Order) -> list[str]:
    """What is not a number in a name: "r07n12" and "r00n02" have the same words."""
    return [text if is_text else "" for is_text, _, text in order]
