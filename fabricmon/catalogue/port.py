"""State of a port (sysfs attributes, RDMA netlink, rtnetlink).

State numbers: docs/methods.md#port-attributes (Linux drivers/infiniband/core/sysfs.c). A rate is exported in bytes per
second; the rate of a port that is down is unknown (InfiniBand allows invalid PortInfo then, C14-24.2.1).
"""

from collections.abc import Mapping

from fabricmon.catalogue.counter import UNNAMED, YES_NO, Category, Counter, Growth
from fabricmon.model import Kind

_S = Category.STATE

PORT_STATES = {0: "nop", 1: "down", 2: "init", 3: "armed", 4: "active", 5: "active_defer"}
PHYS_STATES = {1: "sleep", 2: "polling", 3: "disabled", 4: "training", 5: "link_up", 6: "error_recovery", 7: "phy_test"}
OPER_STATES = {
    0: "unknown", 1: "notpresent", 2: "down", 3: "lowerlayerdown", 4: "testing", 5: "dormant", 6: "up",
}


def _row(name: str, unit: str, growth: Growth, source: str, keys: tuple[str, ...], help: str, *,
         bits: int = 0, scale: float = 1.0, category: Category = _S, window: bool = False, cost: int = 0,
         states: Mapping[int, str] = UNNAMED) -> Counter:
    return Counter(name, Kind.PORT, unit, bits, growth, category, source, keys, help, scale, True, window, cost,
                   states=states)


COUNTERS: tuple[Counter, ...] = (
    _row("state", "", Growth.STATE, "port", ("state",),
         "Logical port state", cost=5, states=PORT_STATES),
    _row("phys_state", "", Growth.STATE, "port", ("phys_state",),
         "Physical port state", cost=5, states=PHYS_STATES),
    _row("rate", "bytes_per_second", Growth.LEVEL, "port", ("rate",),
         "Negotiated rate of the link (unknown while down)", cost=5),
    _row("width", "lanes", Growth.LEVEL, "port", ("rate",), "Negotiated width of the link in lanes", cost=0),
    _row("lid", "", Growth.STATE, "port", ("lid",), "Local identifier given by the subnet manager", cost=5),
    _row("sm_lid", "", Growth.STATE, "port", ("sm_lid",),
         "Local identifier of the subnet manager; 0 means none assigned yet", cost=5),
    _row("supported", "", Growth.STATE, "port", ("supported",),
         "1 when the device answers for its counters, 0 when it refused all of them and is left alone for a while",
         states=YES_NO),
    # of rtnetlink: the port's network interface
    _row("carrier", "", Growth.STATE, "netdev", ("IFLA_CARRIER",), "1 when the interface has a carrier, 0 when not",
         states=YES_NO),
    _row("operstate", "", Growth.STATE, "netdev", ("IFLA_OPERSTATE",),
         "RFC 2863 state", states=OPER_STATES),
    _row("admin_up", "", Growth.STATE, "netdev", ("IFF_UP",), "1 when an operator wants the interface up",
         states=YES_NO),
    _row("carrier_down_changes", "", Growth.WRAPS, "netdev", ("IFLA_CARRIER_DOWN_COUNT",),
         "Times the interface lost its carrier", bits=32, category=Category.ERROR, window=True),
    _row("carrier_up_changes", "", Growth.WRAPS, "netdev", ("IFLA_CARRIER_UP_COUNT",),
         "Times the interface gained a carrier", bits=32, category=Category.ERROR),
    _row("netdev_rate", "bytes_per_second", Growth.LEVEL, "netdev", ("speed",),
         "Speed of the interface (unknown while it has no carrier)"),
    _row("mtu", "bytes", Growth.LEVEL, "netdev", ("IFLA_MTU",), "Largest frame the interface sends",
         category=Category.CONFIGURATION),
    _row("netdev_rx", "bytes", Growth.WRAPS, "netdev", ("rx_bytes",), "Bytes received by the interface (not RDMA)",
         bits=64, category=Category.TRAFFIC),
    _row("netdev_tx", "bytes", Growth.WRAPS, "netdev", ("tx_bytes",), "Bytes sent by the interface (not RDMA)",
         bits=64, category=Category.TRAFFIC),
    _row("netdev_rx_packets", "", Growth.WRAPS, "netdev", ("rx_packets",), "Packets received by the interface",
         bits=64, category=Category.TRAFFIC),
    _row("netdev_tx_packets", "", Growth.WRAPS, "netdev", ("tx_packets",), "Packets sent by the interface",
         bits=64, category=Category.TRAFFIC),
    _row("netdev_rx_errors", "", Growth.WRAPS, "netdev", ("rx_errors",), "Packets received with an error",
         bits=64, category=Category.ERROR, window=True),
    _row("netdev_tx_errors", "", Growth.WRAPS, "netdev", ("tx_errors",), "Packets that could not be sent",
         bits=64, category=Category.ERROR),
    _row("netdev_rx_dropped", "", Growth.WRAPS, "netdev", ("rx_dropped",), "Received packets dropped by the host",
         bits=64, category=Category.CONGESTION),
    _row("netdev_tx_dropped", "", Growth.WRAPS, "netdev", ("tx_dropped",), "Packets dropped before sending",
         bits=64, category=Category.CONGESTION),
    _row("netdev_rx_crc_errors", "", Growth.WRAPS, "netdev", ("rx_crc_errors",),
         "Packets received with a wrong checksum", bits=64, category=Category.ERROR, window=True),
)
