"""Collectors: how each sort of reading is taken. One file each; the table below is all there is."""

from __future__ import annotations

from types import ModuleType

from fabricmon.collect import (
    bond,
    ethernet,
    ethernet_phy,
    fabric,
    gpu,
    infiniband,
    infiniband_errors,
    infiniband_rare,
    infiniband_state,
    inventory,
    kernel_log,
    neighbours,
    nvlink,
    optics,
    pcie,
    qos,
    roce,
)

COLLECTORS: dict[str, ModuleType] = {
    infiniband.NAME: infiniband,
    infiniband_errors.NAME: infiniband_errors,
    infiniband_rare.NAME: infiniband_rare,
    infiniband_state.NAME: infiniband_state,
    ethernet.NAME: ethernet,
    bond.NAME: bond,
    roce.NAME: roce,
    ethernet_phy.NAME: ethernet_phy,
    qos.NAME: qos,
    optics.NAME: optics,
    neighbours.NAME: neighbours,
    gpu.NAME: gpu,
    nvlink.NAME: nvlink,
    pcie.NAME: pcie,
    fabric.NAME: fabric,
    kernel_log.NAME: kernel_log,
    inventory.NAME: inventory,
}
