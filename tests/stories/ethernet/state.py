"""What stories change: the condition of cables, leaves, adapters and hosts at this moment."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.wiring import Wiring

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class State:
    """Arrays are [hosts, ports], [hosts, legs], [leaves], [spines] or [hosts]; a new one has no fault.

    A loss is the share of packets that are lost; a rate of errors is per second.
    """

    def __init__(self, cluster: Cluster, wiring: Wiring, rng: np.random.Generator) -> None:
        self._shape = (cluster.hosts, cluster.ports)
        self._legs = (cluster.hosts, cluster.legs)
        self._optics(rng)
        self._switches(len(wiring.names), cluster.spines)
        self._cables(cluster)
        self._adapters()
        self._settings()
        self._hosts(cluster.hosts, rng)

    def _switches(self, leaves: int, spines: int) -> None:
        self.leaf_up: Flags = np.ones(leaves, bool)
        self.spine_up: Flags = np.ones(spines, bool)
        self.loss_to_spine: Floats = np.zeros((leaves, spines))
        self.loss_from_spine: Floats = np.zeros((spines, leaves))
        self.congestion: Floats = np.zeros(leaves)
        """Queues of the leaf towards its hosts, 0 to 1, besides what its hosts cause."""

    def _cables(self, cluster: Cluster) -> None:
        self.up: Flags = np.ones(self._legs, bool)
        self.rate: Floats = np.array([[cluster.rate(host)] * cluster.legs for host in range(cluster.hosts)])
        """Bytes per second."""
        self.loss_to_switch: Floats = np.zeros(self._legs)
        self.loss_from_switch: Floats = np.zeros(self._legs)
        self.fcs_errors: Floats = np.zeros(self._legs)
        self.fec_uncorrectable: Floats = np.zeros(self._legs)
        self.paused: Floats = np.zeros(self._legs)
        """Share of time that the switch pauses the leg, besides what the stories' receivers cause."""

    def _optics(self, rng: np.random.Generator) -> None:
        self.fec_corrected: Floats = rng.lognormal(math.log(3e3), 0.8, self._legs)
        self.temperature: Floats = rng.normal(52, 3, self._legs)
        """Celsius, of the module."""
        self.rx_power: Floats = rng.normal(1.0, 0.12, (*self._legs, 4)).clip(0.5) * 1e-3
        """Watt, of each lane."""
        self.tx_power: Floats = rng.normal(1.1, 0.08, (*self._legs, 4)).clip(0.6) * 1e-3

    def _adapters(self) -> None:
        self.capacity: Floats = np.ones(self._shape)
        """Share of its rate that the adapter passes on to the host's memory."""
        self.storm: Floats = np.zeros(self._shape)
        """Share of time that the adapter pauses its switch whatever it receives."""
        self.hangs: Flags = np.zeros(self._shape, bool)
        self.counters_stand: Flags = np.zeros(self._shape, bool)
        self.keep_alives_stop: Flags = np.zeros(self._shape, bool)
        self.pcie_width: Floats = np.full(self._shape, 16.0)
        self.pcie_corrected: Floats = np.zeros(self._shape)
        self.pcie_stalled_writes: Floats = np.zeros(self._shape)
        """Percent of the last second, as the driver shows it."""
        self.rnr_naks: Floats = np.zeros(self._shape)
        self.retransmits: Floats = np.zeros(self._shape)
        """Share of an EFA device's packets."""
        self.peers_unresponsive: Floats = np.zeros(self._shape)
        """Peers per second that an EFA device gives up."""
        self.firmware_faults: Floats = np.zeros(self._shape)
        """Lines of the kernel log that the next step adds."""

    def _settings(self) -> None:
        self.mtu: Floats = np.full(self._legs, 9000.0)
        self.pfc_priorities: Floats = np.full(self._legs, 8.0)
        """Bit mask of the priorities with PFC."""
        self.dscp_trusted: Floats = np.ones(self._legs)
        self.priority_map: Floats = np.full(self._legs, 771.0)
        """Fingerprint of the map from applications to priorities."""

    def _hosts(self, hosts: int, rng: np.random.Generator) -> None:
        self.dead: Flags = np.zeros(hosts, bool)
        self.agent_silent: Flags = np.zeros(hosts, bool)
        self.lossy_class: Floats = np.zeros(hosts)
        """Loss of the host's packets under full load, because they are in a class without PFC."""
        self.started: Floats = rng.uniform(1e5, 9e6, hosts)
        """Monotonic clock of the host when the story's clock was zero, seconds."""
        self.firmware = ["28.39.1002"] * hosts


def stray_symptoms(state: State, driver_of: list[str]) -> None:
    """Some hosts of every fabric have symptoms that are no fault: no notification is to be about them."""
    hosts = np.random.default_rng(99).choice(len(driver_of), 4, replace=False)
    state.fec_corrected[hosts[0], 0] *= 30  # a long cable: many corrected bits, none uncorrected
    if driver_of[hosts[1]] != "efa":
        state.rnr_naks[hosts[1], 1] = 0.05  # an application that is late sometimes
    state.fcs_errors[hosts[2], 0] = 0.002
    state.temperature[hosts[3], 0] += 9
