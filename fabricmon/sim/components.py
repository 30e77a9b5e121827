"""The components of a simulated cluster and their present state. Pure. `effects` and `background` change it, `world`
advances it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fabricmon.model import Event
from fabricmon.sim.chance import Chance
from fabricmon.sim.hosts import Hosts
from fabricmon.sim.inside import Internals
from fabricmon.sim.layout import Layout
from fabricmon.sim.links import Links
from fabricmon.sim.optics import Optics
from fabricmon.sim.overlay import Overlay
from fabricmon.sim.ports import PortRegisters
from fabricmon.sim.traffic import Traffic, TrafficJob


class Components:
    """All components of a layout.

    now        seconds since the start of the simulation
    chance     random numbers by row and moment
    rows       numbers of all ports
    hosts      state of hosts and agents
    sent       bytes that each port sent since the start, independent of its counters
    links      states, rates and error ratios of all ports' links
    ports      counters of the ports' devices
    optics     the modules in the ports
    inside     GPUs, NVLinks, PCIe
    present    bool[ports]: the device is there
    stall      share of the time in which a port cannot transmit, on top of its own traffic's waiting
    pausing    share of the time in which a port pauses its switch
    speed      share of its usual rate that a port reaches
    arrives    share of the usual traffic to a port that its peers send
    marked     share of received packets that are ECN-marked
    notified   CNPs per second that a port handles
    ailing     unrecoverable errors per second of a port's device
    events     kernel messages not yet fetched: (host, event)
    """

    def __init__(self, layout: Layout, seed: int, steady: float, jobs: Iterable[TrafficJob]) -> None:
        n = layout.ports
        self.layout, self.seed, self.now = layout, seed, 0.0
        random = np.random.default_rng(seed)
        self.chance = Chance(seed)
        self.rows = np.arange(n)
        self.traffic = Traffic(layout, seed, steady, tuple(jobs))
        self.hosts = Hosts(len(layout.hosts), random)
        self.sent = np.zeros(n)
        self.links = Links(layout.rate)
        self.ports = PortRegisters(layout, self.links, random, self.chance)
        self.optics = Optics(n, np.random.default_rng((seed, 0x0071C5)), self.chance)
        self.inside = Internals(layout, random)
        self.present = np.ones(n, np.bool_)
        self.stall = Overlay(n, 0.0, np.maximum)
        self.pausing = Overlay(n, 0.0, np.maximum)
        self.speed = Overlay(n, 1.0, np.multiply)
        self.arrives = Overlay(n, 1.0, np.multiply)
        self.marked = Overlay(n, 0.0, np.maximum)
        self.notified = Overlay(n, 0.0, np.add)
        self.ailing = Overlay(n, 0.0, np.add)
        self.events: list[tuple[int, Event]] = []

    @property
    def ethernet(self) -> bool:
        return self.ports.ethernet
