"""Collectors, one file each; the table below lists all."""

from __future__ import annotations

from fabricmon.catalogue.unique import by_name
from fabricmon.collect import (
    bond,
    ethernet,
    ethernet_phy,
    fabric,
    gpu,
    infiniband,
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
from fabricmon.collect.collector import Collector, CollectorConfig, CollectorKind
from fabricmon.collect.devices import each_gpu, each_interface, each_machine
from fabricmon.collect.machine.port_counters import Tier
from fabricmon.host.protocol import Host


def _open_fabric(host: Host, config: fabric.FabricConfig) -> Collector[None]:
    """Imports NumPy and the topology, only where a fabric is swept."""
    from fabricmon.collect.fabric_session import open

    return open(host, config)


_KINDS = (
    CollectorKind(Tier.FAST.value, infiniband.InfinibandConfig, infiniband.open_tier(Tier.FAST)),
    CollectorKind(Tier.ERRORS.value, infiniband.InfinibandErrorsConfig, infiniband.open_tier(Tier.ERRORS)),
    CollectorKind(Tier.RARE.value, infiniband.InfinibandRareConfig, infiniband.open_tier(Tier.RARE)),
    CollectorKind(infiniband_state.NAME, infiniband_state.InfinibandStateConfig, infiniband_state.open),
    CollectorKind(ethernet.NAME, ethernet.EthernetConfig, ethernet.open),
    CollectorKind(bond.NAME, bond.BondConfig, each_machine(bond.BondSession)),
    CollectorKind(roce.NAME, roce.RoceConfig, each_interface(roce.NAME, roce.RoceSession)),
    CollectorKind(
        ethernet_phy.NAME, ethernet_phy.EthernetPhyConfig,
        each_interface(ethernet_phy.NAME, ethernet_phy.EthernetPhySession),
    ),
    CollectorKind(qos.NAME, qos.QosConfig, each_interface(qos.NAME, qos.QosSession)),
    CollectorKind(
        optics.NAME, optics.OpticsConfig, each_interface(optics.NAME, optics.OpticsSession, infiniband=True)
    ),
    CollectorKind(neighbours.NAME, neighbours.NeighboursConfig, each_machine(neighbours.NeighboursSession)),
    CollectorKind(gpu.NAME, gpu.GpuConfig, gpu.open),
    CollectorKind(nvlink.NAME, nvlink.NvlinkConfig, each_gpu(nvlink.NvlinkSession)),
    CollectorKind(pcie.NAME, CollectorConfig, each_machine(pcie.PcieSession)),
    CollectorKind(fabric.NAME, fabric.FabricConfig, _open_fabric, wide=True),
    CollectorKind(kernel_log.NAME, kernel_log.KernelLogConfig, kernel_log.open),
    CollectorKind(inventory.NAME, inventory.InventoryConfig, each_machine(inventory.InventorySession)),
)  # fmt: skip

COLLECTORS: dict[str, CollectorKind] = by_name(_KINDS, "COLLECTORS (fabricmon/collect/__init__.py)")
"""Section of the configuration -> collector. Where several collectors set one label of a row, the last one counts."""
