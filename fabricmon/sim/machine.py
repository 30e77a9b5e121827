"""One simulated node as its agent sees it: inventory and snapshots in the shapes of model.py. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fabricmon import __version__
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.sim.plant import COUNTER_COLUMNS, STATE_COLUMNS, Plant


class Columns:
    """The plant's columns at one moment, side by side: float64[ports, columns] a collector, cut once for all nodes."""

    def __init__(self, plant: Plant) -> None:
        self.state = np.column_stack([plant.column(column) for column in STATE_COLUMNS])
        self.counters = np.column_stack([plant.column(column) for column in COUNTER_COLUMNS])


class Machine:
    """A node with its own pace: states are read at each `read`, counters every `interval` seconds.

    Its GPUs, one beside each adapter, are in the inventory without counters.
    """

    def __init__(self, plant: Plant, host: int, interval: float = 10.0, state_interval: float = 1.0) -> None:
        self._plant, self.host, self._interval, self._state_interval = plant, host, interval, state_interval
        self.name = plant.fabric.hosts[host]
        rails = plant.fabric.shape.rails
        self._rows = slice(host * rails, (host + 1) * rails)
        self._components = tuple(
            Component(f"{labels['device']}/1", labels)
            for labels in (plant.fabric.port_labels(row) for row in plant.fabric.host_rows(host))
        )
        self._gpus = tuple(
            Component(f"gpu{rail}", {"model": "NVIDIA H100 80GB HBM3", "nic": component.name})
            for rail, component in enumerate(self._components)
        )
        self._due = -math.inf
        self.snapshot = Snapshot(self._inventory(0.0), 0, 0.0, [], array("d"))
        self._boots = -1

    def read(self, columns: Columns, wall: float) -> Snapshot:
        """The newest snapshot after reading what is due; after a boot it starts a new one, all parts read."""
        plant = self._plant
        if self._boots != plant.boots[self.host]:
            self._boots = int(plant.boots[self.host])
            inventory = self._inventory(wall)
            self.snapshot = Snapshot(inventory, 0, wall, [math.nan] * 3, array("d", [math.nan]) * inventory.size)
            # each node has its own moment within the interval, as real agents have
            self._due = plant.now - self._interval * (self.host % 16) / 16
        now, snapshot = plant.monotonic(self.host), self.snapshot
        size = snapshot.inventory.parts[0].size
        self._put(0, columns.state)
        snapshot.taken[0] = snapshot.taken[2] = now
        if plant.now >= self._due or math.isnan(snapshot.taken[1]):
            self._put(size, columns.counters)
            snapshot.taken[1] = now
            self._due += self._interval * max(1, math.ceil((plant.now - self._due) / self._interval))
        snapshot.seq += 1
        snapshot.wall = wall
        return snapshot

    def _put(self, base: int, matrix: NDArray[np.float64]) -> None:
        values = np.ascontiguousarray(matrix[self._rows]).ravel()
        self.snapshot.values[base : base + values.size] = array("d", values.tobytes())

    def _inventory(self, wall: float) -> Inventory:
        boot = int(self._plant.boots[self.host])
        identity = Identity(self.name, f"{self.name}-boot-{boot}", f"simulated-{self.name}", __version__, wall)
        return Inventory(
            1 + boot,
            identity,
            (
                Part("infiniband_state", Kind.PORT, STATE_COLUMNS, self._components, self._state_interval),
                Part("infiniband", Kind.PORT, COUNTER_COLUMNS, self._components, self._interval),
                Part("gpu", Kind.GPU, (), self._gpus, self._interval),
            ),
        )


def values_of(snapshot: Snapshot) -> Mapping[str, Mapping[str, float]]:
    """Component name -> column -> value, for people and tests."""
    found: dict[str, dict[str, float]] = {}
    at = 0
    for part in snapshot.inventory.parts:
        for component in part.components:
            row: Sequence[float] = snapshot.values[at : at + len(part.columns)]
            found.setdefault(component.name, {}).update(zip(part.columns, row, strict=True))
            at += len(part.columns)
    return found
