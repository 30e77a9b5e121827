"""Lossless Ethernet and the physical port, from the statistics of drivers ("ethtool -S"). Source: ethtool.

One concept has one column for all drivers; `keys` holds each driver's name, best first. Concepts and names:
docs/methods.md#ethernet-counters. Concepts that are counted per priority are families of eight columns.
Durations come in microseconds from every driver that has them and are exported in seconds.

Metrics that no server rule uses are exported by the agent only (`wire=False`).

mlx5 shows the pause counters of a priority only while PFC is enabled on it: an absent one means "not enabled".
"""

from __future__ import annotations

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

_E, _C, _T, _S = Category.ERROR, Category.CONGESTION, Category.TRAFFIC, Category.STATE
SOURCE = "ethtool"
PRIORITIES = range(8)
_MICROSECONDS = 1e-6


def _row(name: str, category: Category, keys: tuple[str, ...], help: str, *, unit: str = "", bits: int = 64,
         scale: float = 1.0, growth: Growth = Growth.WRAPS, wire: bool = True,
         window: bool = False) -> Counter:
    return Counter(name, Kind.PORT, unit, bits, growth, category, SOURCE, keys, help, scale, wire, window)


def _each(family: str, label: str, members: range, category: Category, keys: tuple[str, ...], help: str, *,
          unit: str = "", scale: float = 1.0, wire: bool = True, window: bool = False) -> tuple[Counter, ...]:
    """One column for each member; `#` in the keys stands for its number."""
    return tuple(
        Counter(f"{family}_{label}{n}" if label != "priority" else f"{family}_prio{n}", Kind.PORT, unit, 64,
                Growth.WRAPS, category, SOURCE, tuple(key.replace("#", str(n)) for key in keys), help, scale, wire, window,
                family=family, labels=((label, str(n)),))
        for n in members
    )  # fmt: skip


def _prio(family: str, category: Category, keys: tuple[str, ...], help: str, *, unit: str = "",
          scale: float = 1.0, wire: bool = True, window: bool = False) -> tuple[Counter, ...]:
    return _each(family, "priority", PRIORITIES, category, keys, help, unit=unit, scale=scale, wire=wire,
                 window=window)


_PFC: tuple[Counter, ...] = (
    *_prio("pfc_rx_frames", _C,
           ("rx_prio#_pause", "rx_pfc_ena_frames_pri#", "rx_priority_#_xoff.nic", "mac_rx_pfc_pri#_pkt_num"),
           "PFC pause frames received: the switch stops this port", window=True),
    *_prio("pfc_tx_frames", _C,
           ("tx_prio#_pause", "tx_pfc_ena_frames_pri#", "tx_priority_#_xoff.nic", "mac_tx_pfc_pri#_pkt_num"),
           "PFC pause frames sent: this host is too slow and stops the switch", window=True),
    *_prio("pfc_rx_pause", _C,
           ("rx_prio#_pause_duration", "pfc_pri#_rx_duration_us", "rx_pripause_#_1us_count"),
           "Time this port was not allowed to send on the priority", unit="seconds", scale=_MICROSECONDS,
           window=True),
    *_prio("pfc_tx_pause", _C,
           ("tx_prio#_pause_duration", "pfc_pri#_tx_duration_us", "tx_pripause_#_1us_count"),
           "Time this port kept the switch from sending on the priority", unit="seconds", scale=_MICROSECONDS,
           window=True),
    *_prio("pfc_rx_transitions", _C, ("rx_prio#_pause_transition", "pfc_pri#_rx_transitions"),
           "Ends of received pauses: pause time over transitions is the mean length of a pause"),
    *_prio("pfc_tx_transitions", _C, ("pfc_pri#_tx_transitions",), "Ends of pauses this port imposed", wire=False),
    *_prio("pfc_rx_xon_frames", _C, ("rx_priority_#_xon.nic",), "Frames received that ended a pause", wire=False),
    *_prio("pfc_tx_xon_frames", _C, ("tx_priority_#_xon.nic",), "Frames sent that ended a pause", wire=False),
    _row("pfc_rx_frames_all", _C, ("rx_pfc_frames", "frames_rx_pripause"),
         "Priority pause frames received, of all priorities together"),
    _row("pfc_tx_frames_all", _C, ("tx_pfc_frames", "frames_tx_pripause"),
         "Priority pause frames sent, of all priorities together"),
    _row("pfc_storm_warning", _C, ("tx_pause_storm_warning_events",),
         "Times the adapter noticed that it had been pausing the switch for too long", window=True),
    _row("pfc_storm_error", _E, ("tx_pause_storm_error_events",),
         "Times the adapter gave up pausing the switch, because its host does not take what arrives", window=True),
    _row("pause_storm", _C, ("continuous_pause_events",), "Times the port was paused without a break (global pause)"),
    _row("pause_storm_ends", _C, ("resume_pause_events",), "Ends of pauses without a break (global pause)", wire=False),
    _row("roce_pause_storm", _C, ("continuous_roce_pause_events",), "Times RoCE was paused without a break"),
    _row("roce_pause_storm_ends", _C, ("resume_roce_pause_events",), "Ends of pauses of RoCE without a break", wire=False),
    _row("pause_rx_frames", _C, ("rx_pause_ctrl_phy", "frames_rx_pause", "link_xoff_rx.nic", "rx_global_pause"),
         "Global pause frames received: on a RoCE fabric pause should be per priority"),
    _row("pause_tx_frames", _C, ("tx_pause_ctrl_phy", "frames_tx_pause", "link_xoff_tx.nic", "tx_global_pause"),
         "Global pause frames sent"),
    _row("pause_rx_pause", _C, ("rx_global_pause_duration", "rx_pause_1us_count"),
         "Time this port was not allowed to send (global pause)", unit="seconds", scale=_MICROSECONDS,
         window=True),
    _row("pause_tx_pause", _C, ("tx_global_pause_duration",),
         "Time this port kept the switch from sending (global pause)", unit="seconds", scale=_MICROSECONDS,
         window=True),
    _row("pause_rx_transitions", _C, ("rx_global_pause_transition",), "Ends of received pauses (global pause)"),
)

_PRIORITY_TRAFFIC: tuple[Counter, ...] = (
    *_prio("prio_rx", _T, ("rx_prio#_bytes", "rx_bytes_pri#"), "Bytes received on the priority, RDMA included",
           unit="bytes", wire=False),
    *_prio("prio_tx", _T, ("tx_prio#_bytes", "tx_bytes_pri#"), "Bytes sent on the priority, RDMA included",
           unit="bytes", wire=False),
    *_prio("prio_rx_packets", _T, ("rx_prio#_packets", "rx_packets_pri#", "frames_rx_pri_#"),
           "Packets received on the priority, RDMA included", wire=False),
    *_prio("prio_tx_packets", _T, ("tx_prio#_packets", "tx_packets_pri#", "frames_tx_pri_#"),
           "Packets sent on the priority, RDMA included", wire=False),
    *_prio("prio_rx_discards", _E, ("rx_prio#_discards",),
           "Packets of the priority lost for lack of a receive buffer: with PFC enabled this must stay 0"),
    *_prio("prio_rx_buffer_discards", _E, ("rx_prio#_buf_discard",),
           "Packets of the priority lost because this host's share of the buffer was full"),
    *_prio("prio_rx_congestion_discards", _E, ("rx_prio#_cong_discard",),
           "Packets of the priority dropped early because this host was congested"),
    *_prio("prio_ecn_marked", _C, ("rx_prio#_marked",),
           "Packets of the priority that this adapter marked, because its own host was congested"),
    *_each("cos_rx", "queue", PRIORITIES, _T, ("rx_bytes_cos#",), "Bytes received on the class of service", unit="bytes",
           wire=False),
    *_each("cos_tx", "queue", PRIORITIES, _T, ("tx_bytes_cos#",), "Bytes sent on the class of service", unit="bytes",
           wire=False),
    *_each("cos_rx_packets", "queue", PRIORITIES, _T, ("rx_packets_cos#",), "Packets received on the class of service",
           wire=False),
    *_each("cos_tx_packets", "queue", PRIORITIES, _T, ("tx_packets_cos#",), "Packets sent on the class of service",
           wire=False),
    *_each("cos_rx_discards", "queue", PRIORITIES, _E, ("rx_discard_packets_cos#",),
           "Packets lost on a receive queue of the class of service"),
    *_each("cos_rx_discarded", "queue", PRIORITIES, _E, ("rx_discard_bytes_cos#",),
           "Bytes lost on a receive queue of the class of service", unit="bytes", wire=False),
)

_PORT: tuple[Counter, ...] = (
    _row("phy_rx", _T, ("rx_bytes_phy", "octets_rx_ok", "rx_bytes.nic"), "Bytes received on the wire", unit="bytes",
         window=True),
    _row("phy_tx", _T, ("tx_bytes_phy", "octets_tx_ok", "tx_bytes.nic"), "Bytes sent on the wire", unit="bytes",
         window=True),
    _row("phy_rx_packets", _T, ("rx_packets_phy", "frames_rx_ok"), "Packets received on the wire", wire=False),
    _row("phy_tx_packets", _T, ("tx_packets_phy", "frames_tx_ok"), "Packets sent on the wire", wire=False),
    _row("vport_rdma_rx", _T, ("rx_vport_rdma_unicast_bytes",), "RDMA bytes received by this function", unit="bytes", wire=False),
    _row("vport_rdma_tx", _T, ("tx_vport_rdma_unicast_bytes",), "RDMA bytes sent by this function", unit="bytes", wire=False),
    _row("vport_rdma_rx_packets", _T, ("rx_vport_rdma_unicast_packets",), "RDMA packets received by this function", wire=False),
    _row("vport_rdma_tx_packets", _T, ("tx_vport_rdma_unicast_packets",), "RDMA packets sent by this function", wire=False),
    _row("eth_fcs_errors", _E, ("rx_crc_errors_phy", "rx_fcs_err_frames", "frames_rx_bad_fcs", "rx_crc_errors.nic",
          "mac_rx_fcs_err_pkt_num"),
         "Frames received with a wrong checksum", window=True),
    _row("eth_stomped_crc", _E, ("frames_rx_stomped_crc",),
         "Frames received whose checksum a switch had spoilt on purpose: the damage is further away"),
    _row("eth_symbol_errors", _E, ("rx_symbol_err_phy", "illegal_bytes.nic"), "Invalid symbols received", window=True),
    _row("eth_length_errors", _E, ("rx_in_range_len_errors_phy", "frames_rx_bad_length"),
         "Frames received whose length field is wrong", wire=False),
    _row("eth_oversize", _E, ("rx_oversize_pkts_phy", "frames_rx_oversized"), "Frames received that were too long", wire=False),
    _row("eth_undersize", _E, ("rx_undersize_pkts_phy", "frames_rx_undersized"), "Frames received that were too short", wire=False),
    _row("eth_fragments", _E, ("rx_fragments_phy", "frames_rx_fragments"),
         "Frames received that were too short and damaged", wire=False),
    _row("eth_jabbers", _E, ("rx_jabbers_phy", "frames_rx_jabber"), "Frames received that were too long and damaged", wire=False),
    _row("mac_local_faults", _E, ("mac_local_faults.nic",), "Times this end lost the link's signal"),
    _row("mac_remote_faults", _E, ("mac_remote_faults.nic",), "Times the other end reported a loss of signal"),
    _row("link_down_events", _E, ("link_down_events_phy", "link_down_events"),
         "Times the adapter lost its link, administrative downs excluded: counts flaps that a poll misses", bits=32),
    _row("phy_rx_discards", _E,
         ("rx_discards_phy", "rx_stat_discard", "hw_rx_dropped", "frames_rx_dropped", "rx_dropped.nic"),
         "Packets lost for lack of a buffer of the port"),
    _row("phy_tx_discards", _E, ("tx_discards_phy", "hw_tx_dropped", "tx_dropped_link_down.nic"),
         "Packets the port dropped before sending"),
    _row("phy_tx_errors", _E, ("tx_errors_phy", "frames_tx_bad"), "Packets the port could not send"),
    _row("host_buffer_pressure", _C, ("rx_buffer_passed_thres_phy", "rx_buffer_passed_threshold"),
         "Times the receive buffer of the port was more than 85 % full: the host does not take what arrives"),
    _row("netdev_out_of_buffer", _C, ("rx_out_of_buffer", "rx_total_oom_discards"),
         "Packets dropped because the kernel had posted no receive buffer", bits=32),
    _row("steering_missed", _E, ("rx_steer_missed_packets",), "Packets received that no steering rule wanted", wire=False),
    _row("if_down_packets", _E, ("rx_if_down_packets",), "Packets received while the interface was down", wire=False),
    _row("internal_queue_oob", _E, ("dev_internal_queue_oob",), "Drops of the adapter's own queues", wire=False),
)

_PCIE: tuple[Counter, ...] = (
    _row("pcie_rx_signal_errors", _E, ("rx_pci_signal_integrity",),
         "Errors the adapter saw on its PCIe link, receiving", bits=32),
    _row("pcie_tx_signal_errors", _E, ("tx_pci_signal_integrity",),
         "Errors the adapter saw on its PCIe link, sending", bits=32),
    _row("pcie_stalled_read", _C, ("outbound_pci_stalled_rd",),
         "Share of the last second in which the adapter waited for PCIe reads: the host cannot feed it",
         unit="ratio", bits=0, scale=0.01, growth=Growth.LEVEL),
    _row("pcie_stalled_write", _C, ("outbound_pci_stalled_wr",),
         "Share of the last second in which the adapter waited for PCIe writes: the host cannot drain it",
         unit="ratio", bits=0, scale=0.01, growth=Growth.LEVEL),
    _row("pcie_stalled_read_time", _C, ("outbound_pci_stalled_rd_events",),
         "Seconds in which reads were stalled for more than 30 %", unit="seconds", wire=False),
    _row("pcie_stalled_write_time", _C, ("outbound_pci_stalled_wr_events",),
         "Seconds in which writes were stalled for more than 30 %", unit="seconds", wire=False),
    _row("pcie_buffer_overflow", _C, ("outbound_pci_buffer_overflow",), "Packets dropped for lack of PCIe buffers"),
)

_CLOUD: tuple[Counter, ...] = (
    _row("allowance_rx_bandwidth_exceeded", _C, ("bw_in_allowance_exceeded",),
         "Packets queued or dropped: more arrived than the instance may receive"),
    _row("allowance_tx_bandwidth_exceeded", _C, ("bw_out_allowance_exceeded",),
         "Packets queued or dropped: more was sent than the instance may send"),
    _row("allowance_packets_exceeded", _C, ("pps_allowance_exceeded",),
         "Packets queued or dropped: more packets a second than the instance may have"),
    _row("allowance_connections_exceeded", _C, ("conntrack_allowance_exceeded",),
         "Packets dropped: more connections than the instance may have"),
    _row("allowance_connections_available", _S, ("conntrack_allowance_available",),
         "Connections the instance may still open", bits=0, growth=Growth.LEVEL, wire=False),
    _row("allowance_link_local_exceeded", _C, ("linklocal_allowance_exceeded",),
         "Packets to services of the instance (names, time, metadata) dropped: too many a second"),
    _row("device_watchdog", _E, ("wd_expired",), "Times the adapter missed its heartbeat"),
    _row("device_resets", _E, ("total_resets",), "Times the driver reset the adapter"),
    _row("tx_timeouts", _E, ("tx_timeout",), "Transmit queues that stood still"),
)

_KEPT: tuple[Counter, ...] = (
    _row("statistics_left_out", _S, (), "Statistics of the driver that are unknown here and beyond the number that is kept",
         bits=0, growth=Growth.LEVEL, wire=False),
)

COUNTERS: tuple[Counter, ...] = (*_PFC, *_PRIORITY_TRAFFIC, *_PORT, *_PCIE, *_CLOUD, *_KEPT)
