"""Ownership of GUIDs, so that an agent cannot report on links of other nodes. No I/O.

Rows find their place in the topology by GUID. A GUID belongs to the node that reported it first, until that node no
longer reports it, is no longer a target, or its agent has sent nothing for KEPT. The row of another node with the same
GUID is placed by host and device name.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fabricmon.model import Component, Inventory, Kind, Part
from fabricmon.topology.names import guid_number

GUIDS = ("node_guid", "port_guid")

KEPT = 600.0
"""Seconds for which a node without messages keeps its GUIDs (design choice): longer than a reboot or an upgrade; after
it an adapter that was moved belongs to its new machine."""


class Claims:
    """GUIDs, as numbers, by node. `received` returns the time of the last message of a node's agent."""

    def __init__(self, received: Callable[[str], float]) -> None:
        self._received = received
        self._owner: dict[int, str] = {}
        self._of: dict[str, set[int]] = {}
        self._disputed: dict[str, set[int]] = {}

    @property
    def disputed(self) -> dict[str, int]:
        """Node -> number of GUIDs it reports that belong to another node."""
        return {node: len(guids) for node, guids in self._disputed.items()}

    def settle(self, node: str, inventory: Inventory, now: float) -> Inventory:
        """The inventory without GUIDs of other nodes; the same object where there are none."""
        reported = _reported(inventory)
        for guid in self._of.get(node, set()) - reported:
            del self._owner[guid]
        others = {guid for guid in reported if self._anothers(guid, node, now)}
        for guid in reported - others:
            before = self._owner.get(guid, node)
            if before != node:
                self._of[before].discard(guid)
            self._owner[guid] = node
        self._of[node] = reported - others
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
        """Nodes with a disputed GUID that has become free: settle their inventory again."""
        return [
            node
            for node, guids in self._disputed.items()
            if any(not self._anothers(guid, node, now) for guid in guids)
        ]

    def _anothers(self, guid: int, node: str, now: float) -> bool:
        owner = self._owner.get(guid, node)
        return owner != node and now - self._received(owner) < KEPT


def _reported(inventory: Inventory) -> set[int]:
    """GUIDs of the node's own ports; a component that several parts share is looked at once."""
    own = {id(c): c for part in inventory.parts if part.kind is Kind.PORT for c in part.components
           if "port_guid" in c.labels or "node_guid" in c.labels}  # fmt: skip
    return {guid for c in own.values() if not c.labels.get("swept") for guid in _guids(c)}


def _own_ports(part: Part) -> list[Component]:
    if part.kind is not Kind.PORT:
        return []
    return [component for component in part.components if not component.labels.get("swept")]


def _guids(component: Component) -> list[int]:
    """GUIDs other than zero; a virtual function may have none."""
    labels = component.labels
    return [guid for label in GUIDS if label in labels and (guid := guid_number(labels[label]))]


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
