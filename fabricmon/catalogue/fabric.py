"""Counters of management datagrams, mostly of switch ports: the parts of receive errors and of discards.

They are read when their sum (`rcv_errors`, `xmit_discards`) has risen. Layout
and widths: IBA volume 1, chapter 16 (PortRcvErrorDetails, PortXmitDiscardDetails); all have 16 bits and stop at the top. No
rule uses them: the sweeping agent exports them only.
"""

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

_E, _C, _F, _M = Category.ERROR, Category.CONGESTION, Category.CONFIGURATION, Category.MANAGEMENT


def _row(name: str, category: Category, key: str, help: str) -> Counter:
    return Counter(name, Kind.PORT, "", 16, Growth.SATURATES, category, "mad", (key,), help, wire=False)


COUNTERS: tuple[Counter, ...] = (
    _row("qp1_dropped", _M, "qp1_dropped", "General management packets dropped for lack of buffers"),
    _row("rcv_local_physical_errors", _E, "local_physical_errors",
         "Receive errors with a bad checksum or bad symbols: damaged on this very link"),
    _row("rcv_malformed_packets", _E, "malformed_packet_errors",
         "Receive errors of packets with a wrong length, lane or version"),
    _row("rcv_buffer_overruns", _E, "buffer_overrun_errors", "Receive errors for lack of a buffer"),
    _row("rcv_dlid_mapping_errors", _F, "dlid_mapping_errors",
         "Packets a switch could not forward: no entry for the destination LID"),
    _row("rcv_vl_mapping_errors", _F, "vl_mapping_errors",
         "Packets a switch could not forward: their service level has no virtual lane"),
    _row("rcv_looping_errors", _F, "looping_errors", "Packets a switch would have had to send back whence they came"),
    _row("xmit_inactive_discards", _E, "inactive_discards", "Packets dropped because the port was not active"),
    _row("xmit_neighbour_mtu_discards", _F, "neighbor_mtu_discards",
         "Packets dropped because they are larger than the far end takes"),
    _row("xmit_lifetime_discards", _C, "sw_lifetime_limit_discards",
         "Packets dropped because they stayed in the switch for too long"),
    _row("xmit_head_of_queue_discards", _C, "sw_hoq_lifetime_limit_discards",
         "Packets dropped because the head of the queue did not move: the far end took nothing"),
)
