"""Columns of a simulated node's collectors, by kind and link layer: the parts of its inventory. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fabricmon.catalogue import CATALOGUE
from fabricmon.catalogue.inventory import COLUMNS as NODE_COLUMNS
from fabricmon.model import Kind
from fabricmon.sim.optics import COLUMNS as OPTICS

PRIORITY = 3
"""The lossless priority: RoCE traffic is on it, and pause counters exist of it only."""


@dataclass(frozen=True)
class PartOf:
    """One part of every node's inventory. `state`: read at every state poll, else at the node's interval."""

    collector: str
    kind: Kind
    columns: tuple[str, ...]
    state: bool = False
    wire: bool = True


_TRANSPORT = (
    "rdma_rx_write_requests", "rdma_rx_read_requests", "out_of_buffer", "ack_timeout", "seq_nak_rx", "implied_nak",
    "out_of_sequence_rx", "duplicate_request", "rnr_nak_rx", "retries_exceeded", "unrecoverable_error",
)  # fmt: skip

_INFINIBAND_STATE = PartOf(
    "infiniband_state", Kind.PORT,
    ("state", "phys_state", "lid", "sm_lid", "rate", "width", "link_downed"), state=True,
)  # fmt: skip

_INFINIBAND = PartOf(
    "infiniband", Kind.PORT,
    ("supported", "symbol_errors", "link_error_recoveries", "rcv_errors", "rcv_remote_physical_errors",
     "xmit_discards", "xmit_constraint_errors", "rcv_constraint_errors", "local_link_integrity_errors",
     "excessive_buffer_overrun_errors", "vl15_dropped", "xmit_wait_ticks", "xmit", "rcv", "xmit_packets",
     "rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets", *_TRANSPORT),
)  # fmt: skip

_ROCE_STATE = PartOf("infiniband_state", Kind.PORT, ("state", "phys_state", "rate", "width"), state=True)
_ETHERNET = PartOf(
    "ethernet", Kind.PORT,
    ("carrier", "operstate", "admin_up", "carrier_down_changes", "carrier_up_changes", "netdev_rate", "mtu"),
    state=True,
)  # fmt: skip
_ROCE_RDMA = PartOf(
    "infiniband", Kind.PORT,
    ("supported", "xmit", "rcv", "xmit_packets", "rcv_packets", "cnp_sent", "cnp_handled", "ecn_marked_rx",
     "rdma_tx_bytes", "rdma_rx_bytes", "rdma_tx_packets", "rdma_rx_packets", *_TRANSPORT),
)  # fmt: skip
_ROCE = PartOf(
    "roce", Kind.PORT,
    (*(f"{family}_prio{PRIORITY}" for family in
       ("pfc_rx_frames", "pfc_tx_frames", "pfc_rx_pause", "pfc_tx_pause", "pfc_rx_transitions", "prio_rx_discards")),
     "pfc_storm_warning", "pfc_storm_error", "phy_rx", "phy_tx", "phy_rx_discards", "host_buffer_pressure",
     "eth_symbol_errors", "eth_fcs_errors", "link_down_events"),
)  # fmt: skip
_ETHERNET_PHY = PartOf(
    "ethernet_phy", Kind.PORT,
    ("fec_corrected_blocks", "fec_uncorrectable_blocks", "phy_corrected_bit_errors", "phy_uncorrected_symbols"),
)

_EFA_STATE = PartOf("infiniband_state", Kind.PORT, ("state", "phys_state"), state=True)
_EFA = PartOf(
    "infiniband", Kind.PORT,
    ("rdma_tx_bytes", "rdma_rx_bytes", "rdma_tx_packets", "rdma_rx_packets", "retrans_packets", "retrans_bytes",
     "ack_timeout", "remote_unresponsive", "remote_impaired", "rdma_rx_drops"),
)  # fmt: skip

_OPTICS = PartOf("optics", Kind.PORT, OPTICS)

_GPU = PartOf(
    "gpu", Kind.GPU,
    ("gpu_fabric_state", "gpu_fabric_status", "gpu_fabric_health_verdict", "gpu_recovery_action", "gpu_xid_events"),
)
_GPU_LINKS = PartOf(
    "nvlink", Kind.GPU,
    ("gpu_nvlinks", "gpu_nvlinks_active", "gpu_nvlinks_to_switch", "gpu_nvlinks_inactive_mask", "gpu_nvlink_worst",
     "gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries", "gpu_nvlink_tx", "gpu_nvlink_rx"),
)  # fmt: skip
_NVLINK = PartOf(
    "nvlink", Kind.NVLINK,
    ("nvlink_state", "nvlink_speed", "nvlink_tx", "nvlink_rx", "nvlink_crc_errors", "nvlink_replay_errors",
     "nvlink_recovery_errors"), wire=False,
)  # fmt: skip
_PCIE = PartOf(
    "pcie", Kind.PCIE,
    ("pcie_speed", "pcie_max_speed", "pcie_width", "pcie_max_width", "pcie_path_width", "pcie_path_speed"),
)
_NODE = PartOf("inventory", Kind.NODE, NODE_COLUMNS, state=True)

FLOW = PartOf("flow", Kind.FLOW, ("flow_packets", "flow_lost"))
"""Delivered by worlds whose nodes report each flow."""

_INSIDE = (_NODE, _GPU, _GPU_LINKS, _NVLINK, _PCIE)
PARTS: dict[str, tuple[PartOf, ...]] = {
    "InfiniBand": (_INFINIBAND_STATE, _INFINIBAND, _OPTICS, *_INSIDE),
    "Ethernet": (_ROCE_STATE, _ETHERNET, _ROCE_RDMA, _ROCE, _ETHERNET_PHY, _OPTICS, *_INSIDE),
    "EFA": (_EFA_STATE, _EFA, *_INSIDE),
}
"""By link layer, in the order of a node's values."""


def columns_of(kind: Kind, link_layer: str) -> tuple[str, ...]:
    parts = (*PARTS[link_layer], FLOW)
    return tuple(column for part in parts if part.kind is kind for column in part.columns)


def counting(kind: Kind, link_layer: str) -> tuple[str, ...]:
    """Columns that a device counts."""
    return tuple(name for name in columns_of(kind, link_layer) if CATALOGUE[name].growth.counts)
