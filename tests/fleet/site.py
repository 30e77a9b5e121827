"""A fleet one can talk to in rows and names instead of bytes."""

from __future__ import annotations

import numpy as np

from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part


class Site:
    """A fleet, a clock, and per node what its agent would send."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.now = 1_700_000_000.0
        self.inventories: dict[str, Inventory] = {}
        self.frames = 0

    def inventory(self, node: str, *parts: Part, boot: str = "boot-1", started: float = 1.0) -> None:
        before = self.inventories.get(node)
        inventory = Inventory(before.id + 1 if before else 1, Identity(node, boot, node, "1", started), parts)
        self.inventories[node] = inventory
        self.fleet.inventory(node, inventory, self.now)

    def send(self, node: str, cells: dict[tuple[str, str], float], taken: float, default: float = 0.0) -> None:
        """A full frame: value by (component, column), all parts read at `taken`."""
        inventory = self.inventories[node]
        values = [
            cells.get((component.name, column), default)
            for part in inventory.parts
            for component in part.components
            for column in part.columns
        ]
        self.frames += 1
        times = np.full(len(inventory.parts), taken)
        frame = Frame(inventory.id, self.frames, self.now, times, None, np.array(values))
        assert self.fleet.frame(node, frame, self.now)

    def tick(self, seconds: float = 0.0) -> View:
        self.now += seconds
        self.fleet.advance(self.now)
        return View(self.fleet.tables[Kind.PORT], self.now)

    def row(self, node: str, name: str) -> int:
        row = self.fleet.tables[Kind.PORT].row(ComponentId(Kind.PORT, node, name))
        assert row is not None
        return row


def port_part(collector: str, columns: tuple[str, ...], *names: str, period: float = 10.0, **labels: str) -> Part:
    return Part(collector, Kind.PORT, columns, tuple(Component(n, dict(labels)) for n in names), period)
