"""Agents of a simulated site: what their nodes have, and what they would send. Data, in simulated time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Presence

RATE = 50e9
STATE = ("state", "phys_state", "link_downed")
SLOW = ("rate", "symbol_errors")
PERIOD = 10.0


@dataclass
class Port:
    """One adapter with one port. `guid` is its hardware."""

    guid: str
    up: bool = True
    half: bool = False
    downs: int = 0

    def labels(self, device: str) -> dict[str, str]:
        return {
            "device": device, "port": "1", "link_layer": "InfiniBand", "role": "compute", "port_guid": self.guid,
            "node_guid": self.guid,
        }  # fmt: skip


@dataclass
class Agent:
    """One machine.

    name     its node name now
    ports    by device: "mlx5_0"
    removed  devices that its configuration lists as removed on purpose
    down     None: it answers
    shape    raised with each change of its inventory
    boot     raised at each boot; its clock begins anew
    """

    name: str
    machine: str
    ports: dict[str, Port]
    removed: set[str] = field(default_factory=set)
    down: Presence | None = None
    shape: int = 1
    boot: int = 1
    booted: float = 0.0
    started: float = 0.0

    def reboot(self, now: float) -> None:
        self.boot, self.booted, self.started, self.shape = self.boot + 1, now, now, self.shape + 1
        for port in self.ports.values():
            port.downs = 0

    def restart(self, now: float) -> None:
        self.started, self.shape = now, self.shape + 1

    def inventory(self) -> Inventory:
        ports = tuple(Component(f"{device}/1", port.labels(device)) for device, port in sorted(self.ports.items()))
        removed = ", ".join(sorted(self.removed))
        return Inventory(
            self.shape,
            Identity(self.name, f"{self.machine}-{self.boot}", self.machine, "1", self.started),
            (
                Part("inventory", Kind.NODE, (), (Component("", {"removed": removed} if removed else {}),), PERIOD),
                Part("infiniband_state", Kind.PORT, STATE, ports, 1.0),
                Part("infiniband", Kind.PORT, SLOW, ports, PERIOD),
            ),
        )

    def frame(self, now: float) -> Frame:
        ports = [port for _, port in sorted(self.ports.items())]
        states = [v for p in ports for v in (4.0 if p.up else 1.0, 5.0 if p.up else 2.0, float(p.downs))]
        slow = [v for p in ports for v in ((RATE / 2 if p.half else RATE) if p.up else np.nan, 0.0)]
        return Frame(self.shape, 1, now, np.full(3, now - self.booted + 100.0), None, np.array(states + slow))
