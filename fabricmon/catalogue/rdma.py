"""RDMA transport counters: hw_counters of a port (sysfs or RDMA netlink STAT_GET) and of a whole device.

One row per concept; `keys` holds the name each driver gives it, best first: where a port offers two of them, the first
fills the concept and the other one is shown under the raw family. Concepts and names:
docs/methods.md#rdma-transport-counters.

Widths: the queue counters of mlx5 are 32 bits wide and wrap (docs/methods.md#rdma-transport-counters), so a concept
that mlx5 has as a queue counter is declared 32 bits wide here. Other drivers count the same concept in 64 bits: a
value of 2**32 or more shows that, and such a row never wraps.
"""

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

_E, _C, _T, _R, _F, _M = (
    Category.ERROR,
    Category.CONGESTION,
    Category.TRAFFIC,
    Category.RETRANSMISSION,
    Category.CONFIGURATION,
    Category.MANAGEMENT,
)
_COST = 3  # one refresh on mlx5: QUERY_Q_COUNTER, PPCNT, QUERY_CONG_STATISTICS (docs/methods.md#firmware-commands)


def _hw(
    name: str,
    category: Category,
    keys: tuple[str, ...],
    help: str,
    *,
    bits: int = 64,
    unit: str = "",
    growth: Growth = Growth.WRAPS,
    window: bool = False,
    source: str = "hw_counters",
) -> Counter:
    return Counter(name, Kind.PORT, unit, bits, growth, category, source, keys, help, 1.0, True, window, _COST)


def _level(name: str, keys: tuple[str, ...], help: str) -> Counter:
    return _hw(name, Category.STATE, keys, help, bits=0, growth=Growth.LEVEL)


def _device(name: str, category: Category, keys: tuple[str, ...], help: str) -> Counter:
    return _hw(name, category, keys, help, source="device_hw_counters")


_TRAFFIC: tuple[Counter, ...] = (
    _hw("rdma_tx_bytes", _T,
        ("rdma_tx_bytes", "tx_roce_only_bytes", "tx_rdma_ucast_bytes", "tx_bytes", "tx_bytes_cnt"),
        "RDMA bytes sent, headers included", unit="bytes", window=True),
    _hw("rdma_rx_bytes", _T,
        ("rdma_rx_bytes", "rx_roce_only_bytes", "rx_rdma_ucast_bytes", "rx_bytes", "rx_bytes_cnt"),
        "RDMA bytes received, headers included", unit="bytes", window=True),
    _hw("rdma_tx_packets", _T,
        ("rdma_tx_packets", "tx_roce_only_pkts", "tx_rdma_ucast_pkts", "tx_pkts", "tx_packets", "tx_pkt",
         "tx_packets_cnt", "sent_pkts"),
        "RDMA packets sent", window=True),
    _hw("rdma_rx_packets", _T,
        ("rdma_rx_packets", "rx_roce_only_pkts", "rx_rdma_ucast_pkts", "rx_pkts", "rx_packets", "rx_pkt",
         "rx_packets_cnt", "rcvd_pkts"),
        "RDMA packets received", window=True),
    _hw("rdma_rx_good_bytes", _T, ("rx_roce_good_bytes",), "RoCE bytes received in good packets", unit="bytes"),
    _hw("rdma_rx_good_packets", _T, ("rx_roce_good_pkts",), "RoCE packets received without an error"),
    _hw("rdma_tx_multicast_bytes", _T, ("tx_rdma_mcast_bytes",), "RDMA multicast bytes sent", unit="bytes"),
    _hw("rdma_rx_multicast_bytes", _T, ("rx_rdma_mcast_bytes",), "RDMA multicast bytes received", unit="bytes"),
    _hw("rdma_tx_multicast_packets", _T, ("tx_rdma_mcast_pkts",), "RDMA multicast packets sent"),
    _hw("rdma_rx_multicast_packets", _T, ("rx_rdma_mcast_pkts",), "RDMA multicast packets received"),
    _hw("rdma_rx_write_requests", _T, ("rx_write_requests", "rx_write_req", "iwInRdmaWrites"),
        "RDMA writes served as responder", bits=32),
    _hw("rdma_rx_read_requests", _T, ("rx_read_requests", "rx_read_req", "iwInRdmaReads"),
        "RDMA reads served as responder", bits=32),
    _hw("rdma_rx_atomic_requests", _T, ("rx_atomic_requests", "rx_atomic_req"),
        "RDMA atomic operations served as responder", bits=32),
    _hw("rdma_rx_send_requests", _T, ("rx_send_requests", "rx_send_req", "iwInRdmaSends", "rdma_recvs", "recv_wrs"),
        "RDMA sends received"),
    _hw("rdma_tx_write_requests", _T, ("tx_write_req", "iwOutRdmaWrites", "rdma_write_wrs"),
        "RDMA writes issued as requester"),
    _hw("rdma_tx_read_requests", _T, ("tx_read_req", "iwOutRdmaReads", "rdma_read_wrs"),
        "RDMA reads issued as requester"),
    _hw("rdma_tx_atomic_requests", _T, ("tx_atomic_req",), "RDMA atomic operations issued as requester"),
    _hw("rdma_tx_send_requests", _T, ("tx_send_req", "iwOutRdmaSends", "rdma_sends", "send_wrs", "tx_reqs_cnt"),
        "RDMA sends issued as requester"),
    _hw("rdma_tx_read_responses", _T, ("tx_read_resp",), "RDMA read responses sent"),
    _hw("rdma_rx_read_responses", _T, ("rx_read_resp",), "RDMA read responses received"),
    _hw("rdma_rx_dct_connects", _T, ("rx_dct_connect",), "Connections of the dynamic transport served", bits=32),
    _hw("rdma_tx_send_bytes", _T, ("send_bytes",), "Bytes of send operations issued", unit="bytes"),
    _hw("rdma_rx_send_bytes", _T, ("recv_bytes",), "Bytes of receive operations completed", unit="bytes"),
    _hw("rdma_tx_read_bytes", _T, ("rdma_read_bytes",), "Bytes fetched by RDMA reads issued here", unit="bytes"),
    _hw("rdma_rx_read_bytes", _T, ("rdma_read_resp_bytes",), "Bytes served to RDMA reads of peers", unit="bytes"),
    _hw("rdma_tx_write_bytes", _T, ("rdma_write_bytes",), "Bytes of RDMA writes issued here", unit="bytes"),
    _hw("rdma_rx_write_bytes", _T, ("rdma_write_recv_bytes",), "Bytes written here by peers", unit="bytes"),
    _hw("rdma_tx_udp_packets", _T, ("TxUDP",), "UDP (RoCEv2) packets sent"),
    _hw("rdma_rx_udp_packets", _T, ("RxUDP",), "UDP (RoCEv2) packets received"),
    _hw("rdma_tx_tcp_segments", _T, ("tcpOutSegs",), "iWARP TCP segments sent"),
    _hw("rdma_rx_tcp_segments", _T, ("tcpInSegs",), "iWARP TCP segments received"),
    _hw("rdma_tx_ip4_bytes", _T, ("ip4OutOctets",), "IPv4 bytes sent by the RDMA function", unit="bytes"),
    _hw("rdma_rx_ip4_bytes", _T, ("ip4InOctets",), "IPv4 bytes received by the RDMA function", unit="bytes"),
    _hw("rdma_tx_ip4_packets", _T, ("ip4OutPkts",), "IPv4 packets sent by the RDMA function"),
    _hw("rdma_rx_ip4_packets", _T, ("ip4InPkts",), "IPv4 packets received by the RDMA function"),
    _hw("rdma_tx_ip6_bytes", _T, ("ip6OutOctets",), "IPv6 bytes sent by the RDMA function", unit="bytes"),
    _hw("rdma_rx_ip6_bytes", _T, ("ip6InOctets",), "IPv6 bytes received by the RDMA function", unit="bytes"),
    _hw("rdma_tx_ip6_packets", _T, ("ip6OutPkts",), "IPv6 packets sent by the RDMA function"),
    _hw("rdma_rx_ip6_packets", _T, ("ip6InPkts",), "IPv6 packets received by the RDMA function"),
)

_CONGESTION: tuple[Counter, ...] = (
    _hw("cnp_sent", _C, ("np_cnp_sent", "cc_tx_cnp_pkts", "tx_cnp_pkts", "tx_cnp_pkt", "cnpSent", "tx_rdma_cnp_pkts"),
        "Congestion notifications sent: packets arrived here with a congestion mark", window=True),
    _hw("cnp_handled", _C,
        ("rp_cnp_handled", "cc_rx_cnp_pkts", "rx_cnp_pkts", "rx_cnp_pkt", "cnpHandled", "rx_rdma_cnp_pkts",
         "received_cnps"),
        "Congestion notifications received and acted on by slowing down", window=True),
    _hw("cnp_ignored", _F, ("rp_cnp_ignored", "cnpIgnored"),
        "Congestion notifications received and not acted on: a hint at mismatched ECN settings", window=True),
    _hw("ecn_marked_rx", _C,
        ("np_ecn_marked_roce_packets", "cc_rx_ce_pkts", "rx_ecn_marked_pkts", "RxECNMrkd", "rx_rdma_ecn_pkts"),
        "RoCEv2 packets received with a congestion mark", window=True),
    _hw("rnr_nak_rx", _C,
        ("rnr_nak_retry_err", "rnr_naks_rcvd", "requester_rnr_nak", "req_rx_rnr_retry_err", "rcvd_rnr_err", "sq_num_rnr"),
        "Peer answered that it had no receive buffer ready", bits=32, window=True),
    _hw("rnr_nak_tx", _C, ("responder_rnr_nak", "resp_tx_rnr_retry_err", "send_rnr_err", "rq_num_rnr"),
        "RNR NAKs sent: no receive buffer was ready", window=True),
    _hw("out_of_buffer", _C, ("out_of_buffer", "rx_out_of_buffer", "resp_rx_outof_buf"),
        "Packets dropped because no receive work request was posted", bits=32, window=True),
    _hw("slow_restart", _C, ("roce_slow_restart",), "Times RoCE slow restart was used", bits=32),
    _hw("slow_restart_cnps", _C, ("roce_slow_restart_cnps",),
        "Congestion notifications made by RoCE slow restart", bits=32),
    _hw("slow_restart_transitions", _C, ("roce_slow_restart_trans",), "Entries into RoCE slow restart", bits=32),
    _hw("doorbell_pacing_rescheduled", _C, ("pacing_reschedule",), "Times doorbell pacing was postponed"),
    _hw("doorbell_pacing_completed", _C, ("pacing_complete",), "Times doorbell pacing completed"),
    _hw("doorbell_pacing_alerts", _C, ("pacing_alerts",), "Times the doorbell queue passed its alarm level"),
    _hw("cc_rate_increases", _C, ("rate_inc_events",), "Congestion control raised a rate"),
    _hw("cc_qps_recovered", _C, ("num_qps_recovered",), "Queue pairs that left congestion"),
)

_RETRANSMISSION: tuple[Counter, ...] = (
    _hw("ack_timeout", _R,
        ("local_ack_timeout_err", "to_retransmits", "retrans_timeout_events", "requester_timeout", "sq_num_to",
         "tx_rdma_ack_timeout"),
        "Requester waited for an acknowledgement until its timer fired: loss, dead peer or very long pause",
        bits=32, window=True),
    _hw("seq_nak_rx", _R,
        ("packet_seq_err", "seq_err_naks_rcvd", "requester_oos_nak", "req_rx_pkt_seq_err", "rcvd_seq_err", "sq_num_oos"),
        "Peer reported a hole in our packet sequence: loss or reordering on the path", bits=32, window=True),
    _hw("out_of_sequence_rx", _R,
        ("out_of_sequence", "oos_drop_count", "responder_oos", "resp_rx_outouf_seq", "out_of_seq_request", "rq_num_oos"),
        "Packets received out of order; normal with adaptive routing", bits=32, window=True),
    _hw("seq_nak_tx", _R, ("resp_tx_pkt_seq_err",), "Sequence error NAKs sent"),
    _hw("implied_nak", _R,
        ("implied_nak_seq_err", "missing_resp", "requester_implicit_nak", "req_rx_impl_nak_seq_err"),
        "An acknowledgement skipped ahead: an earlier response was lost", bits=32, window=True),
    _hw("duplicate_request", _R,
        ("duplicate_request", "dup_req", "responder_dup_request", "dup_rx_requests", "resp_rx_dup_request", "rq_num_dup"),
        "Duplicate requests of a peer", bits=32, window=True),
    _hw("duplicate_response", _R, ("req_rx_dup_response",), "A response arrived twice"),
    _hw("requester_retries", _R, ("completer_retry_err",), "Retransmissions after a missing answer"),
    _hw("retrans_packets", _R, ("retrans_pkts", "tcpRetransSegs", "tx_rdma_retx_pkts"), "Packets retransmitted", window=True),
    _hw("retrans_bytes", _R, ("retrans_bytes", "tx_rdma_retx_bytes"), "Bytes retransmitted", unit="bytes", window=True),
    _hw("adaptive_retrans", _R, ("roce_adp_retrans",), "Adaptive retransmissions", bits=32, window=True),
    _hw("adaptive_retrans_timeout", _R, ("roce_adp_retrans_to",), "Timeouts of adaptive retransmission",
        bits=32, window=True),
)

_ERROR: tuple[Counter, ...] = (
    _hw("retries_exceeded", _E,
        ("req_transport_retries_exceeded", "max_retry_exceeded", "requester_retries_exceeded", "req_tx_retry_excd_err",
         "retry_exceeded_err", "sq_num_tree"),
        "Queue pairs that gave up after their last retry: the job has an error now", bits=32, window=True),
    _hw("rnr_retries_exceeded", _E,
        ("req_rnr_retries_exceeded", "requester_rnr_nak_retries_exceeded", "retry_rnr_exceeded_err", "sq_num_rree"),
        "Queue pairs that gave up because the peer never was ready to receive", bits=32, window=True),
    _hw("remote_unresponsive", _E, ("unresponsive_remote_events",), "A peer stopped answering", window=True),
    _hw("remote_impaired", _E, ("impaired_remote_conn_events",), "The connection to a peer got worse", window=True),
    _hw("icrc_error", _E, ("rx_icrc_encapsulated",), "RoCE packets received with a damaged payload", window=True),
    _hw("rdma_rx_drops", _E, ("rx_drops", "rx_roce_discards"), "RDMA packets received and dropped", window=True),
    _hw("rdma_tx_drops", _E, ("tx_roce_discards", "tx_disable_drop_cnt"), "RDMA packets dropped before sending"),
    _hw("rdma_rx_errors", _E, ("rx_roce_errors", "rx_err_pkt"), "RDMA packets received with an error", window=True),
    _hw("rdma_tx_errors", _E, ("tx_roce_errors", "tx_err_pkt", "send_err"), "RDMA packets that could not be sent"),
    _hw("rdma_rx_invalid_packets", _E, ("req_rx_inval_pkts",), "Invalid responses received"),
    _hw("rdma_rx_ip4_discards", _E, ("ip4InDiscards",), "IPv4 packets discarded on receive by the RDMA function"),
    _hw("rdma_rx_ip6_discards", _E, ("ip6InDiscards",), "IPv6 packets discarded on receive by the RDMA function"),
    _hw("rdma_rx_tcp_option_errors", _E, ("tcpInOptErrors",), "iWARP TCP segments with a bad option"),
    _hw("rdma_rx_tcp_protocol_errors", _E, ("tcpInProtoErrors",), "iWARP TCP segments that broke the protocol"),
    _hw("rdma_rx_vlan_errors", _E, ("rxVlanErrors",), "Packets received by the RDMA function with a wrong VLAN"),
    _hw("req_cqe_error", _E, ("req_cqe_error", "req_rx_cqe_err"), "Requests completed with an error", bits=32),
    _hw("resp_cqe_error", _E, ("resp_cqe_error", "resp_rx_cqe_err"), "Responses completed with an error", bits=32),
    _hw("req_cqe_flush_error", _E, ("req_cqe_flush_error", "req_rx_cqe_flush"),
        "Requests flushed when a queue pair closed: noise at the end of a job", bits=32),
    _hw("resp_cqe_flush_error", _E, ("resp_cqe_flush_error", "resp_rx_cqe_flush"),
        "Receives flushed when a queue pair closed: noise at the end of a job", bits=32),
    _hw("req_remote_access_error", _E,
        ("req_remote_access_errors", "remote_access_err", "req_rx_rmt_acc_err", "sq_num_rae"),
        "Requests refused by the peer: no right to that memory", bits=32),
    _hw("resp_remote_access_error", _E,
        ("resp_remote_access_errors", "resp_tx_rmt_acc_err", "rq_num_rae"),
        "Requests of peers refused here: no right to that memory", bits=32),
    _hw("req_invalid_request", _E,
        ("req_remote_invalid_request", "remote_invalid_req_err", "req_rx_rmt_req_err", "sq_num_rire"),
        "Requests the peer called invalid", bits=32),
    _hw("resp_invalid_request", _E, ("resp_rx_inval_request", "resp_tx_rmt_inval_req_err", "rq_num_rire"),
        "Requests of peers that were invalid"),
    _hw("req_remote_operation_error", _E, ("remote_op_err", "req_rx_oper_err", "sq_num_roe"),
        "Requests the peer could not carry out"),
    _hw("resp_local_length_error", _E, ("resp_local_length_error", "resp_rx_loc_len_err", "rq_num_lle"),
        "Messages longer than the receive posted for them", bits=32),
    _hw("req_local_length_error", _E, ("sq_num_lle",), "Requests longer than their queue pair allows"),
    _hw("local_protection_error", _E, ("local_protection_err", "req_tx_loc_acc_err", "sq_num_lpe"),
        "Requests that named local memory without a right to it"),
    _hw("local_qp_operation_error", _E, ("local_qp_op_err", "req_tx_loc_oper_err", "sq_num_lqpoe"),
        "Queue pairs that failed an operation of their own"),
    _hw("bad_response", _E, ("bad_resp_err", "sq_num_bre"), "Responses that were not what was asked for"),
    _hw("memory_management_error", _E, ("mem_mgmt_op_err", "req_tx_mem_mgmt_err"),
        "Memory registrations by work request that failed"),
    _hw("unrecoverable_error", _E, ("unrecoverable_err", "total_fatal_error"), "Errors the device cannot recover from",
        window=True),
    _hw("recoverable_errors", _E, ("recoverable_errors",), "Errors the device recovered from"),
    _hw("rdma_read_errors", _E, ("rdma_read_wr_err",), "RDMA read work requests that failed"),
    _hw("rdma_write_errors", _E, ("rdma_write_wr_err",), "RDMA write work requests that failed"),
    _hw("rdma_link_downed", _E, ("link_downed",), "Times the link below a software RDMA device went down"),
)

_BNXT_OBJECTS = {
    "pds": "Protection domains", "ahs": "Address handles", "qps": "Queue pairs", "rc_qps": "Reliable-connected queue pairs",
    "ud_qps": "Datagram queue pairs", "srqs": "Shared receive queues", "cqs": "Completion queues", "mrs": "Memory regions",
    "mws": "Memory windows",
}  # fmt: skip
_LEVELS: tuple[Counter, ...] = (
    *(_level(f"rdma_active_{what}", (f"active_{what}",), f"{objects} in use now")
      for what, objects in _BNXT_OBJECTS.items()),
    *(_level(f"rdma_watermark_{what}", (f"watermark_{what}",), f"{objects} in use at one time, the maximum")
      for what, objects in _BNXT_OBJECTS.items()),
    _level("doorbell_fifo", ("db_fifo_register",), "Fill register of the doorbell queue, device's own unit"),
    _level("cc_qps_congested", ("num_qps_congested",), "Queue pairs that congestion control slows down now"),
    _level("cc_rate", ("current_rate",), "Rate congestion control allows now, device's own unit"),
)

_DEVICE: tuple[Counter, ...] = (
    _device("device_submitted_commands", _M, ("submitted_cmds",), "Administrative commands given to the device"),
    _device("device_completed_commands", _M, ("completed_cmds",), "Administrative commands the device completed"),
    _device("device_command_errors", _E, ("cmds_err",), "Administrative commands that failed"),
    _device("device_uncompleted_commands", _E, ("no_completion_cmds",), "Administrative commands never answered"),
    _device("device_keep_alives", _M, ("keep_alive_rcvd",), "Heartbeats of the device: must grow"),
    _device("device_alloc_pd_errors", _E, ("alloc_pd_err",), "Protection domains that could not be created"),
    _device("device_create_qp_errors", _E, ("create_qp_err",), "Queue pairs that could not be created"),
    _device("device_create_cq_errors", _E, ("create_cq_err",), "Completion queues that could not be created"),
    _device("device_create_ah_errors", _E, ("create_ah_err",), "Address handles that could not be created"),
    _device("device_register_mr_errors", _E, ("reg_mr_err",), "Memory regions that could not be registered"),
    _device("device_alloc_mr_errors", _E, ("alloc_mr_err",), "Memory regions that could not be allocated"),
    _device("device_dma_mr_errors", _E, ("get_dma_mr_err",), "DMA memory regions that could not be obtained"),
    _device("device_alloc_ucontext_errors", _E, ("alloc_ucontext_err",), "User contexts that could not be created"),
    _device("device_mmap_errors", _E, ("mmap_err",), "Device memory that could not be mapped"),
    _device("device_cnps_sent", _C, ("sent_cnps",), "Congestion notifications sent by the whole device"),
    _device("device_cnps_received", _C, ("received_cnp_count",), "Congestion notifications the whole device received"),
    _device("device_ecn_marked_rx", _C, ("received_ecns",), "Packets with a congestion mark the whole device received"),
    _device("device_cc_qps_congested", _C, ("qp_congested_events",), "Queue pairs that entered congestion"),
    _device("device_cc_qps_recovered", _C, ("qp_recovered_events",), "Queue pairs that left congestion"),
    _device("device_cc_rate_increases", _C, ("rate_inc_events",), "Congestion control raised a rate"),
)

COUNTERS: tuple[Counter, ...] = (*_TRAFFIC, *_CONGESTION, *_RETRANSMISSION, *_ERROR, *_LEVELS, *_DEVICE)
