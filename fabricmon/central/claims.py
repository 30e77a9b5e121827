"""What an agent may say of others: nothing. A row is its own node's by construction; what could reach further is a
GUID, by which rows find their place in the topology. Decides only.

A GUID belongs to the node that said it first, until that node says it no more, is no target any more, or its agent was
not heard for KEPT. Another node that says it keeps its row, which then finds its place by host and device name, and
cannot speak on somebody else's cable.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fabricmon.model import Component, Inventory, Kind, Part
from fabricmon.topology.names import guid_number

GUIDS = ("node_guid", "port_guid")

KEPT = 600.0
"""Seconds for which a node that is not heard keeps its GUIDs [D]: a reboot or an upgrade of its agent gives nothing
away, an adapter that was put into another machine is that machine's after it."""


class Claims:
    """GUIDs, as numbers, by node. `heard` gives the time at which a node's agent was last heard."""

    def __init__(self, heard: Callable[[str], float]) -> None:
        self._heard = heard
        self._owner: dict[int, str] = {}
        self._of: dict[str, set[int]] = {}
        self._disputed: dict[str, set[int]] = {}

    @property
    def disputed(self) -> dict[str, int]:
        """Node -> GUIDs it says and another node said before it."""
        return {node: len(guids) for node, guids in self._disputed.items()}

    def settle(self, node: str, inventory: Inventory, now: float) -> Inventory:
        """The inventory without the GUIDs that are another node's: the same object where there are none."""
        said = {guid for part in inventory.parts for c in _own_ports(part) for guid in _guids(c)}
        for guid in self._of.get(node, set()) - said:
            del self._owner[guid]
        others = {guid for guid in said if self._anothers(guid, node, now)}
        for guid in said - others:
            before = self._owner.get(guid, node)
            if before != node:
                self._of[before].discard(guid)
            self._owner[guid] = node
        self._of[node] = said - others
        if not others:
            self._disputed.pop(node, None)
            return inventory
        self._disputed[node] = others
        parts = tuple(_without(part, others) for part in inventory.parts)
        return msgspec.structs.replace(inventory, parts=parts)

    def forget(self, node: str) -> None:
        """The node is no longer a target."""
        for guid in self._of.pop(node, set()):
            del self._owner[guid]
        self._disputed.pop(node, None)

    def freed(self, now: float) -> list[str]:
        """Nodes that were refused a GUID which is nobody else's any more: their inventory is to be settled anew."""
        return [
            node
            for node, guids in self._disputed.items()
            if any(not self._anothers(guid, node, now) for guid in guids)
        ]

    def _anothers(self, guid: int, node: str, now: float) -> bool:
        owner = self._owner.get(guid, node)
        return owner != node and now - self._heard(owner) < KEPT


def swept(inventory: Inventory) -> int:
    """How many rows tell of ports elsewhere, as an agent has that sweeps the fabric."""
    return sum(bool(c.labels.get("swept")) for part in inventory.parts for c in part.components)


def _own_ports(part: Part) -> list[Component]:
    if part.kind is not Kind.PORT:
        return []
    return [component for component in part.components if not component.labels.get("swept")]


def _guids(component: Component) -> list[int]:
    """GUIDs that name something; a virtual function without one of its own has zeros."""
    return [guid for label in GUIDS if (guid := guid_number(component.labels.get(label)))]


def _without(part: Part, others: set[int]) -> Part:
    if not any(others.intersection(_guids(c)) for c in _own_ports(part)):
        return part
    own = {id(component) for component in _own_ports(part)}
    return msgspec.structs.replace(
        part, components=tuple(_stripped(c, others) if id(c) in own else c for c in part.components)
    )


def _stripped(component: Component, others: set[int]) -> Component:
    labels = {k: v for k, v in component.labels.items() if k not in GUIDS or guid_number(v) not in others}
    return msgspec.structs.replace(component, labels=labels)
