"""What agents of this world read: one tuple of catalogue names a collector, and where counters stop counting."""

from __future__ import annotations

PORT_STATE = ("state", "phys_state", "lid", "sm_lid", "rate", "width", "link_downed")
PORT_TRAFFIC = ("supported", "symbol_errors", "xmit_wait_ticks", "xmit", "rcv")
PORT_ERRORS = (
    "link_error_recoveries", "rcv_errors", "xmit_discards", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "rdma_rx_write_requests", "out_of_buffer", "seq_nak_rx", "out_of_sequence_rx",
    "ack_timeout", "implied_nak", "duplicate_request", "rnr_nak_rx", "req_cqe_error", "resp_cqe_error",
    "req_cqe_flush_error", "resp_cqe_flush_error", "req_remote_access_error", "retries_exceeded",
    "rnr_retries_exceeded",
)  # fmt: skip
PORT_OPTICS = (
    "module_temperature", "module_rx_power_lane0", "module_rx_power_lane1", "module_rx_power_lane2",
    "module_rx_power_lane3", "module_temperature_limit_high_alarm", "module_temperature_limit_high_warning",
    "module_rx_power_limit_low_alarm", "module_rx_power_limit_low_warning", "module_rx_power_limit_high_alarm",
)  # fmt: skip
PORT_TEMPERATURE = ("nic_temperature", "nic_temperature_limit")
PORT_KERNEL_LOG = ("log_firmware_faults", "log_pcie_fatal_errors")
SWEPT_PORT = (
    "state", "phys_state", "width", "rate", "symbol_errors", "link_error_recoveries", "link_downed", "rcv_errors",
    "rcv_remote_physical_errors", "rcv_switch_relay_errors", "xmit_discards", "xmit_constraint_errors",
    "rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "vl15_dropped",
    "xmit_wait_ticks", "xmit", "rcv", "xmit_packets", "rcv_packets",
)  # fmt: skip
"""What a sweep of the subnet reads of each port of switches and adapters."""

GPU_FABRIC = (
    "gpu_fabric_state", "gpu_fabric_status", "gpu_fabric_health_verdict", "gpu_fabric_degraded_bandwidth",
    "gpu_fabric_route_recovery", "gpu_fabric_route_unhealthy", "gpu_fabric_access_timeout_recovery",
    "gpu_fabric_partition_assigned", "gpu_fabric_incorrect_configuration",
)  # fmt: skip
GPU = (
    "gpu_pcie_generation", "gpu_pcie_max_generation", "gpu_pcie_width", "gpu_pcie_max_width", "gpu_xid_events",
    "gpu_last_xid", "gpu_recovery_action", "gpu_pcie_replays",
)  # fmt: skip
NVLINK = (
    "gpu_nvlinks", "gpu_nvlinks_active", "gpu_nvlinks_to_switch", "gpu_nvlinks_inactive_mask", "gpu_nvlink_worst",
    "gpu_nvlink_crc_errors", "gpu_nvlink_replay_errors", "gpu_nvlink_recoveries", "gpu_nvlink_critical_errors",
    "gpu_nvlink_effective_ber", "gpu_nvlink_tx", "gpu_nvlink_rx",
)  # fmt: skip
PCIE = (
    "pcie_speed", "pcie_max_speed", "pcie_width", "pcie_max_width", "pcie_path_width", "pcie_path_speed",
    "pcie_unread_files", "pcie_aer_correctable_errors", "pcie_aer_nonfatal_errors", "pcie_aer_fatal_errors",
)  # fmt: skip
NODE = (
    "node_hcas_expected", "node_hcas_found", "node_hcas_lost", "node_hcas_certainty", "node_gpus_expected",
    "node_gpus_found", "node_gpus_lost", "node_uverbs_missing", "node_umad_missing", "node_netdevs_misplaced",
    "node_machine",
)  # fmt: skip

OF_PORTS = tuple(
    dict.fromkeys(
        PORT_STATE + PORT_TRAFFIC + PORT_ERRORS + PORT_OPTICS + PORT_TEMPERATURE + PORT_KERNEL_LOG + SWEPT_PORT
    )
)
OF_GPUS = GPU_FABRIC + GPU + NVLINK

STOPS_AT = {
    "symbol_errors": 65535, "link_downed": 255, "link_error_recoveries": 255, "rcv_errors": 65535,
    "xmit_discards": 65535, "local_link_integrity_errors": 15, "excessive_buffer_overrun_errors": 15,
    "xmit_wait_ticks": 2**32 - 1, "rcv_remote_physical_errors": 65535,
}  # fmt: skip
"""Counters of the PortCounters attribute do not wrap: they stay at their highest value until somebody clears them."""
