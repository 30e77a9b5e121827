"""What an agent may say of others: nothing. A row is its own node's by construction; what could reach further is a
GUID, by which rows find their place in the topology. Decides only.

A GUID belongs to the node that said it first, for as long as that node's agent is heard. Another node that says it
keeps its row, which then finds its place by host and device name, and cannot speak on somebody else's cable.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fabricmon.model import Component, Inventory, Kind, Part

GUIDS = ("node_guid", "port_guid")


class Claims:
    """GUIDs by node. `heard` says whether a node's agent is heard at present."""

    def __init__(self, heard: Callable[[str], bool]) -> None:
        self._heard = heard
        self._owner: dict[str, str] = {}
        self._of: dict[str, set[str]] = {}
        self._disputed: dict[str, set[str]] = {}

    @property
    def disputed(self) -> dict[str, int]:
        """Node -> GUIDs it says and another node said before it."""
        return {node: len(guids) for node, guids in self._disputed.items()}

    def settle(self, node: str, inventory: Inventory) -> Inventory:
        """The inventory without the GUIDs that are another node's: the same object where there are none."""
        said = {guid for part in inventory.parts for c in _own_ports(part) for guid in _guids(c)}
        for guid in self._of.get(node, set()) - said:
            del self._owner[guid]
        others = {g for g in said if self._owner.get(g, node) != node and self._heard(self._owner[g])}
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
            self._owner.pop(guid, None)
        self._disputed.pop(node, None)


def swept(inventory: Inventory) -> int:
    """How many rows tell of ports elsewhere, as an agent has that sweeps the fabric."""
    return sum(bool(c.labels.get("swept")) for part in inventory.parts for c in part.components)


def _own_ports(part: Part) -> list[Component]:
    if part.kind is not Kind.PORT:
        return []
    return [component for component in part.components if not component.labels.get("swept")]


def _guids(component: Component) -> list[str]:
    """GUIDs that name something; a virtual function without one of its own has zeros."""
    return [guid for label in GUIDS if (guid := component.labels.get(label, "")).strip("0x:")]


def _without(part: Part, others: set[str]) -> Part:
    if not any(others.intersection(_guids(c)) for c in _own_ports(part)):
        return part
    own = {id(component) for component in _own_ports(part)}
    return msgspec.structs.replace(
        part, components=tuple(_stripped(c, others) if id(c) in own else c for c in part.components)
    )


def _stripped(component: Component, others: set[str]) -> Component:
    labels = {k: v for k, v in component.labels.items() if k not in GUIDS or v not in others}
    return msgspec.structs.replace(component, labels=labels)
