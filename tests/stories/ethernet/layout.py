"""What the agents of each driver report: parts, their columns, and where each value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fabricmon.model import Kind
from tests.stories.ethernet import readings
from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.readings import Reading, constant, counter

Columns = dict[str, Reading]


class Rows(Enum):
    """What a row of a part stands for."""

    PORT = Kind.PORT, "RDMA port"
    LEG = Kind.PORT, "physical port"
    ADAPTER = Kind.PCIE, "PCIe function"
    NODE = Kind.NODE, "the host"

    @property
    def kind(self) -> Kind:
        return self.value[0]


@dataclass(frozen=True)
class PartLayout:
    """One part of an inventory. `period`: its name in Cluster.periods."""

    collector: str
    rows: Rows
    period: str
    columns: Columns


def parts(cluster: Cluster, driver: str) -> list[PartLayout]:
    """The parts of an agent whose host has adapters of this driver."""
    found = [PartLayout("infiniband_state", Rows.PORT, "state", _STATE)]
    if driver != "efa":
        found.append(PartLayout("ethernet", Rows.LEG, "ethernet", _ETHERNET))
    found.append(PartLayout("infiniband", Rows.PORT, "traffic", _TRAFFIC[driver]))
    if driver == "mlx5":
        found.append(PartLayout("infiniband_errors", Rows.PORT, "errors", _ERRORS))
    if driver in _ROCE:
        found.append(PartLayout("roce", Rows.LEG, "roce", _ROCE[driver]))
    if driver in ("mlx5", "bnxt"):
        found.append(PartLayout("ethernet_phy", Rows.LEG, "phy", _PHY))
        found.append(PartLayout("optics", Rows.LEG, "optics", _OPTICS))
        found.append(PartLayout("qos", Rows.LEG, "qos", _QOS))
    if cluster.bonded:
        found.append(PartLayout("bond", Rows.LEG, "bond", _BOND_LEGS))
        found.append(PartLayout("bond", Rows.PORT, "bond", _BONDS))
    found.append(PartLayout("pcie", Rows.ADAPTER, "pcie", _PCIE))
    found.append(PartLayout("kernel_log", Rows.PORT, "ethernet", _KERNEL_LOG))
    found.append(PartLayout("inventory", Rows.NODE, "inventory", _inventory(cluster)))
    if cluster.lldp and driver != "efa":
        found.append(PartLayout("neighbours", Rows.LEG, "neighbours", {"lldp_neighbours": constant(1)}))
    return found


def _inventory(cluster: Cluster) -> Columns:
    return {
        "node_hcas_expected": constant(cluster.ports),
        "node_hcas_found": constant(cluster.ports),
        "node_hcas_lost": constant(0),
        "node_hcas_certainty": constant(2),
        "node_gpus_expected": constant(8),
        "node_gpus_found": constant(8),
        "node_gpus_lost": constant(0),
    }


def _counters(**columns: str) -> Columns:
    """Column -> name of its counter."""
    return {column: counter(name) for column, name in columns.items()}


_STATE: Columns = {
    "state": readings.port_state,
    "phys_state": readings.physical_state,
    "rate": readings.port_rate,
}

_ETHERNET: Columns = {
    "carrier": readings.carrier,
    "operstate": readings.operstate,
    "admin_up": constant(1),
    **_counters(carrier_down_changes="carrier_down", carrier_up_changes="carrier_up"),
    "netdev_rate": readings.link_rate,
    "mtu": readings.mtu,
    **_counters(netdev_rx="kernel_rx_bytes", netdev_tx="kernel_tx_bytes"),
}

_ERRORS: Columns = _counters(
    out_of_sequence_rx="out_of_sequence", seq_nak_rx="naks", ack_timeout="timeouts",
    retries_exceeded="retries_exceeded", ecn_marked_rx="ecn_marked", cnp_sent="cnps_sent", cnp_handled="cnps_handled",
    adaptive_retrans="adaptive_retransmissions", rnr_nak_rx="rnr_naks", duplicate_request="duplicates",
    implied_nak="implied_naks", out_of_buffer="out_of_buffer",
)  # fmt: skip

_TRAFFIC: dict[str, Columns] = {
    "mlx5": {"supported": constant(1), **_counters(xmit="tx_bytes", rcv="rx_bytes")},
    "bnxt": {
        "supported": constant(1),
        **_counters(
            rdma_tx_bytes="tx_bytes", rdma_rx_bytes="rx_bytes", rdma_tx_packets="tx_packets",
            rdma_rx_packets="rx_packets", out_of_sequence_rx="out_of_sequence", seq_nak_rx="naks",
            ack_timeout="timeouts", retries_exceeded="retries_exceeded", ecn_marked_rx="ecn_marked",
            cnp_sent="cnps_sent", cnp_handled="cnps_handled", rnr_nak_rx="rnr_naks", rdma_rx_drops="drops",
        ),
    },
    "irdma": {
        "supported": constant(1),
        **_counters(
            rdma_rx_ip4_bytes="rx_bytes", rdma_tx_ip4_bytes="tx_bytes", rdma_tx_udp_packets="tx_packets",
            rdma_rx_udp_packets="rx_packets", retrans_packets="retransmitted_packets", ecn_marked_rx="ecn_marked",
            cnp_sent="cnps_sent", cnp_handled="cnps_handled", cnp_ignored="out_of_buffer", rdma_rx_ip4_discards="drops",
        ),
    },
    "efa": {
        "supported": constant(1),
        **_counters(
            rdma_tx_bytes="tx_bytes", rdma_rx_bytes="rx_bytes", rdma_tx_packets="tx_packets",
            rdma_rx_packets="rx_packets", rdma_tx_write_bytes="tx_bytes", rdma_rx_write_bytes="rx_bytes",
            rdma_rx_drops="drops", retrans_packets="retransmitted_packets", retrans_bytes="retransmitted_bytes",
            ack_timeout="timeouts", remote_impaired="peers_impaired", remote_unresponsive="peers_unresponsive",
            device_keep_alives="keep_alives",
        ),
    },
}  # fmt: skip

_ROCE_COUNTERS: Columns = _counters(
    pfc_rx_frames_prio3="pause_rx_frames", pfc_tx_frames_prio3="pause_tx_frames",
    pfc_rx_pause_prio3="pause_rx_seconds", pfc_tx_pause_prio3="pause_tx_seconds",
    pfc_rx_transitions_prio3="pause_rx_transitions", phy_rx="wire_rx_bytes", phy_tx="wire_tx_bytes",
    eth_fcs_errors="fcs_errors", link_down_events="link_down", phy_rx_discards="discards",
    host_buffer_pressure="buffer_pressure", phy_corrected_bit_errors="fec_corrected",
    phy_uncorrected_symbols="fec_uncorrectable",
)  # fmt: skip

_ROCE: dict[str, Columns] = {
    "bnxt": _ROCE_COUNTERS,
    "mlx5": {
        **_ROCE_COUNTERS,
        "pcie_stalled_write": readings.pcie_stalled_writes,
        "pcie_stalled_read": constant(0),
        "prio_rx_discards_prio3": counter("discards"),
    },
    "irdma": _counters(
        pfc_rx_frames_prio3="pause_rx_frames", pfc_tx_frames_prio3="pause_tx_frames", phy_rx="wire_rx_bytes",
        phy_tx="wire_tx_bytes", eth_fcs_errors="fcs_errors", phy_rx_discards="discards",
    ),
}  # fmt: skip

_PHY: Columns = _counters(
    fec_corrected_blocks="fec_corrected", fec_uncorrectable_blocks="fec_uncorrectable", phy_link_down_events="link_down"
)

_OPTICS: Columns = {
    "module_temperature": readings.temperature,
    **{f"module_rx_power_lane{lane}": readings.rx_power(lane) for lane in range(4)},
    **{f"module_tx_power_lane{lane}": readings.tx_power(lane) for lane in range(4)},
    "module_temperature_limit_high_alarm": constant(75),
    "module_temperature_limit_high_warning": constant(70),
    "module_rx_power_limit_low_alarm": constant(2e-4),
    "module_rx_power_limit_low_warning": constant(3e-4),
}

_QOS: Columns = {
    "pfc_enabled": readings.pfc_priorities,
    "dscp_trusted": readings.dscp_trusted,
    "app_fingerprint": readings.priority_map,
    "pause_rx_enabled": constant(0),
    "pause_tx_enabled": constant(0),
    "qos_mtu": readings.mtu,
    "qos_fingerprint": readings.qos_fingerprint,
}

_BOND_LEGS: Columns = {
    "bond_leg_up": readings.carrier,
    "bond_leg_active": readings.carrier,
    "bond_leg_failures": counter("link_down"),
    "bond_leg_aggregated": readings.carrier,
}

_BONDS: Columns = {"bond_legs": constant(2), "bond_legs_up": readings.legs_up}

_PCIE: Columns = {
    "pcie_speed": constant(32e9),
    "pcie_max_speed": constant(32e9),
    "pcie_width": readings.pcie_width,
    "pcie_max_width": constant(16),
    "pcie_path_width": readings.pcie_path_width,
    "pcie_path_speed": constant(1),
    "pcie_unread_files": constant(0),
    "pcie_aer_correctable_errors": counter("pcie_corrected"),
    "pcie_aer_nonfatal_errors": constant(0),
    "pcie_aer_fatal_errors": constant(0),
}

_KERNEL_LOG: Columns = _counters(log_firmware_faults="firmware_faults", log_pcie_fatal_errors="pcie_fatal_logs")
