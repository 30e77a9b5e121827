"""InfiniBand port counters of /sys/class/infiniband/D/ports/N/counters (and counters_ext of old devices).

Where a port offers two names for one counter (32 bits in counters/, 64 bits in counters_ext/), the first key is taken.

Widths and behaviour at the top: docs/methods.md#infiniband-port-counters, from Linux 6.12
drivers/infiniband/core/sysfs.c PORT_PMA_ATTR. Counters of the performance management class stop at all ones; they never
wrap.
"""

from fabricmon.catalogue.counter import Category, Counter, Growth
from fabricmon.model import Kind

_E, _C, _T, _M, _F = (
    Category.ERROR,
    Category.CONGESTION,
    Category.TRAFFIC,
    Category.MANAGEMENT,
    Category.CONFIGURATION,
)


def _pma(
    name: str,
    unit: str,
    bits: int,
    category: Category,
    keys: tuple[str, ...],
    help: str,
    *,
    scale: float = 1.0,
    growth: Growth = Growth.SATURATES,
    window: bool = False,
) -> Counter:
    return Counter(name, Kind.PORT, unit, bits, growth, category, "counters", keys, help, scale, True, window, 1)


COUNTERS: tuple[Counter, ...] = (
    _pma("symbol_errors", "", 16, _E, ("symbol_error",), "Minor errors on one or more lanes", window=True),
    _pma("link_error_recoveries", "", 8, _E, ("link_error_recovery",),
         "Times the link went through retraining and came back", window=True),
    _pma("link_downed", "", 8, _E, ("link_downed",), "Times retraining failed and the link went down", window=True),
    _pma("rcv_errors", "", 16, _E, ("port_rcv_errors",), "Packets received with an error", window=True),
    _pma("rcv_remote_physical_errors", "", 16, _E, ("port_rcv_remote_physical_errors",),
         "Packets already marked bad by an earlier hop: the fault is on another link"),
    _pma("rcv_switch_relay_errors", "", 16, _M, ("port_rcv_switch_relay_errors",),
         "Packets a switch could not forward"),
    _pma("xmit_discards", "", 16, _C, ("port_xmit_discards",),
         "Outbound packets dropped: port down, or head-of-queue lifetime expired", window=True),
    _pma("xmit_constraint_errors", "", 8, _F, ("port_xmit_constraint_errors",),
         "Packets dropped on transmit by partition or raw filter"),
    _pma("rcv_constraint_errors", "", 8, _F, ("port_rcv_constraint_errors",),
         "Packets dropped on receive by partition or raw filter"),
    _pma("local_link_integrity_errors", "", 4, _E, ("local_link_integrity_errors",),
         "Times local physical errors passed a threshold", window=True),
    _pma("excessive_buffer_overrun_errors", "", 4, _E, ("excessive_buffer_overrun_errors",),
         "Input buffer overruns that passed a threshold", window=True),
    _pma("vl15_dropped", "", 16, _M, ("VL15_dropped",), "Management packets dropped for lack of buffers"),
    _pma("xmit_wait_ticks", "", 32, _C, ("port_xmit_wait",),
         "Device ticks in which there was data to send and nothing was sent; the tick's length depends on the device",
         growth=Growth.TICKS, window=True),
    _pma("xmit", "bytes", 64, _T, ("port_xmit_data_64", "port_xmit_data"),
         "Bytes sent (source counts 4-byte words)", scale=4.0, growth=Growth.WRAPS, window=True),
    _pma("rcv", "bytes", 64, _T, ("port_rcv_data_64", "port_rcv_data"),
         "Bytes received (source counts 4-byte words)", scale=4.0, growth=Growth.WRAPS, window=True),
    _pma("xmit_packets", "", 64, _T, ("port_xmit_packets_64", "port_xmit_packets"), "Packets sent",
         growth=Growth.WRAPS),
    _pma("rcv_packets", "", 64, _T, ("port_rcv_packets_64", "port_rcv_packets"), "Packets received",
         growth=Growth.WRAPS),
    _pma("unicast_xmit_packets", "", 64, _T, ("unicast_xmit_packets", "port_unicast_xmit_packets"),
         "Unicast packets sent", growth=Growth.WRAPS),
    _pma("unicast_rcv_packets", "", 64, _T, ("unicast_rcv_packets", "port_unicast_rcv_packets"),
         "Unicast packets received", growth=Growth.WRAPS),
    _pma("multicast_xmit_packets", "", 64, _T, ("multicast_xmit_packets", "port_multicast_xmit_packets"),
         "Multicast packets sent", growth=Growth.WRAPS),
    _pma("multicast_rcv_packets", "", 64, _T, ("multicast_rcv_packets", "port_multicast_rcv_packets"),
         "Multicast packets received", growth=Growth.WRAPS),
)
