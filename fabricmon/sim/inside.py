"""Hardware inside the simulated hosts: GPUs and their NVLinks, PCIe links, expected devices. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fabricmon.catalogue.machines import Certainty
from fabricmon.sim.chance import Chance
from fabricmon.sim.layout import Layout
from fabricmon.sim.registers import Floats, Registers

NVLINK_RATE = 25e9
"""Bytes per second of one NVLink 4 in one direction (18 of them: 450 GB/s)."""
GEN5 = 32e9
"""Transfers per second of a PCIe 5 lane."""
LANES = 16.0
SHARE_OF_WIRE = 128 / 130 / 8
"""Payload bytes per transfer and lane: the 128b/130b code of PCIe 3 and later."""
MACHINE = 7351.0  # number of the hosts' machine type


class Internals:
    """GPU rows host by host, NVLink rows GPU by GPU, PCIe rows host by host: adapters first, GPUs after them.

    linked        bool[gpus, nvlinks]: the NVLink is active
    crc, replays  float64[gpus, nvlinks]: errors per second on it
    speed, width  of PCIe links, as trained
    saving        bool: the PCIe link runs slowly to save power, while its host is idle
    """

    def __init__(self, layout: Layout, random: np.random.Generator) -> None:
        self.layout = layout
        links = layout.nvlinks
        self.linked = np.ones((layout.gpus, links), np.bool_)
        self.crc, self.replays = np.zeros((layout.gpus, links)), np.zeros((layout.gpus, links))
        self.gpus = Registers(layout.gpus, ("gpu_xid_events", "gpu_nvlink_tx", "gpu_nvlink_rx"))
        self.nvlinks = Registers(
            layout.gpus * links, ("nvlink_crc_errors", "nvlink_replay_errors", "nvlink_recovery_errors")
        )
        for column in ("gpu_nvlink_tx", "gpu_nvlink_rx"):
            self.gpus.grow(column, random.uniform(1e13, 1e15, layout.gpus))
        self.speed, self.width = np.full(layout.pcie, GEN5), np.full(layout.pcie, LANES)
        self.saving = np.zeros(layout.pcie, np.bool_)
        self.gpus_lost = np.zeros(len(layout.hosts))

    def advance(self, dt: float, load: Floats, chance: Chance, start: float) -> None:
        """Count `dt` seconds from `start` on. `load`: share of the time that a GPU does collectives, per GPU."""
        moved = load * dt * NVLINK_RATE * self.linked.sum(axis=1)
        self.gpus.grow("gpu_nvlink_tx", moved)
        self.gpus.grow("gpu_nvlink_rx", moved)
        for column, rates in (("nvlink_crc_errors", self.crc), ("nvlink_replay_errors", self.replays)):
            rows = np.flatnonzero(rates.reshape(-1) * self.linked.reshape(-1))
            if len(rows):
                self.nvlinks.count(column, chance.poisson(column, start, rows, rates.reshape(-1)[rows] * dt), rows)

    def clear(self, host: int) -> None:
        """Set the counters of a host's GPUs to zero, as after a boot."""
        gpus, links = self.layout.gpu_rows(host), self.layout.nvlinks
        if len(gpus):
            self.gpus.clear(gpus)
            self.nvlinks.clear(slice(int(gpus[0]) * links, (int(gpus[-1]) + 1) * links))

    def save_power(self, hosts: Iterable[int], speed: float) -> None:
        """PCIe links of idle hosts lower their speed; those that run at another one than usual stay as they are."""
        for host in hosts:
            links = self.pcie_rows(host)
            usual = links[self.speed[links] == GEN5]
            self.speed[usual], self.saving[usual] = speed, True

    def wake(self, hosts: Iterable[int]) -> None:
        """PCIe links of hosts that saved power train to their usual speed, as work begins."""
        for host in hosts:
            links = self.pcie_rows(host)
            saved = links[self.saving[links]]
            self.speed[saved], self.saving[saved] = GEN5, False

    def pcie_rows(self, host: int) -> NDArray[np.intp]:
        """Rows of the PCIe links of a host."""
        return np.arange(self.layout.pcie_first[host], self.layout.pcie_first[host + 1])

    # --- reading

    def gpu(self, column: str) -> Floats:
        """A column of the GPUs' rows."""
        n, links = self.layout.gpus, self.layout.nvlinks
        if column in self.gpus.raw:
            return self.gpus.column(column)
        if column in LEVELS_OF_GPU:
            return np.full(n, LEVELS_OF_GPU[column])
        if column in ("gpu_nvlinks", "gpu_nvlinks_to_switch"):
            return np.full(n, float(links))
        if column == "gpu_nvlinks_active":
            return self.linked.sum(axis=1).astype(float)
        if column == "gpu_nvlinks_inactive_mask":
            return (~self.linked) @ (2.0 ** np.arange(links))
        if column == "gpu_nvlink_worst":
            errors = self.nvlinks.raw["nvlink_crc_errors"].reshape(n, links)
            errors = errors + self.nvlinks.raw["nvlink_replay_errors"].reshape(n, links)
            return np.where(errors.any(axis=1), errors.argmax(axis=1).astype(float), np.nan)
        of = {"gpu_nvlink_recoveries": "nvlink_recovery_errors"}.get(column, column.removeprefix("gpu_"))
        return self.nvlinks.raw[of].reshape(n, links).sum(axis=1).astype(float)

    def nvlink(self, column: str) -> Floats:
        """A column of the NVLinks' rows."""
        if column in self.nvlinks.raw:
            return self.nvlinks.column(column)
        linked = self.linked.reshape(-1)
        if column == "nvlink_state":
            return linked.astype(float)
        if column == "nvlink_speed":
            return np.where(linked, NVLINK_RATE, np.nan)
        total = self.gpus.column(f"gpu_{column}")  # a GPU spreads its traffic over all its links
        return np.repeat(np.floor(total / max(1, self.layout.nvlinks)), self.layout.nvlinks)

    def pcie(self, column: str) -> Floats:
        """A column of the PCIe links' rows. A GPU lowers its speed to save power: its share is unknown."""
        if column in ("pcie_speed", "pcie_width"):
            return (self.speed if column == "pcie_speed" else self.width).copy()
        if column in ("pcie_max_speed", "pcie_max_width"):
            return np.full(self.layout.pcie, GEN5 if column == "pcie_max_speed" else LANES)
        if column == "pcie_path_width":
            return self.width / LANES
        return np.where(self.layout.pcie_gpu, math.nan, self.speed / GEN5)

    def pcie_rate(self) -> Floats:
        """Bytes per second that each PCIe link carries in one direction."""
        return self.speed * self.width * SHARE_OF_WIRE

    def node(self, column: str, present: NDArray[np.bool_]) -> Floats:
        """A column of the hosts' rows. `present`: ports whose device is there."""
        layout, hosts = self.layout, len(self.layout.hosts)
        compute = ~layout.storage & layout.lowest
        every = np.bincount(layout.host_of[compute], minlength=hosts).astype(float)
        found = np.bincount(layout.host_of[compute & present], minlength=hosts).astype(float)
        gpus = np.diff(layout.gpu_first).astype(float)
        return {
            "node_hcas_expected": every,
            "node_hcas_found": found,
            "node_hcas_lost": every - found,
            "node_hcas_certainty": np.full(hosts, float(Certainty.CONFIGURED)),
            "node_gpus_expected": gpus,
            "node_gpus_found": gpus - self.gpus_lost,
            "node_gpus_lost": self.gpus_lost.copy(),
            "node_uverbs_missing": np.zeros(hosts),
            "node_umad_missing": np.zeros(hosts),
            "node_netdevs_misplaced": np.zeros(hosts),
            "node_machine": np.full(hosts, MACHINE),
        }[column]


LEVELS_OF_GPU = {
    "gpu_fabric_state": 3.0,
    "gpu_fabric_status": 0.0,
    "gpu_fabric_health_verdict": 1.0,
    "gpu_recovery_action": 0.0,
}
"""Values of a healthy GPU."""
