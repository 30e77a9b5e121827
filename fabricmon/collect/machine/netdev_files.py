"""Network interfaces from /sys/class/net, where rtnetlink cannot be asked: a tree of another machine."""

from __future__ import annotations

from fabricmon.catalogue.port import OPER_STATES
from fabricmon.collect.machine.files import names, number, pci_address, text
from fabricmon.host.protocol import Host, Link

CLASS = "/sys/class/net"
_MOST = 4096  # interfaces of one machine
_STATISTICS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "rx_crc_errors",
)  # fmt: skip
_IFF_UP = 0x1


def links(host: Host) -> list[Link]:
    """All interfaces; None where a file has no value. HostError where the class is not readable."""
    found = ((name, names(host, f"{CLASS}/{name}")) for name in host.list(CLASS)[:_MOST])
    return [_link(host, name, entries) for name, entries in found if entries]  # "bonding_masters" is a file


def _link(host: Host, name: str, entries: list[str]) -> Link:
    at = f"{CLASS}/{name}"
    flags = number(host, f"{at}/flags")
    operstate = text(host, f"{at}/operstate")
    stats = {key: number(host, f"{at}/statistics/{key}") for key in _STATISTICS}
    return Link(
        index=number(host, f"{at}/ifindex") or 0,
        name=name,
        operstate=operstate if operstate in OPER_STATES.values() else "unknown",
        # a tree without readable flags: an interface that is up is administratively up
        admin_up=bool(flags & _IFF_UP) if flags is not None else operstate == "up",
        carrier=number(host, f"{at}/carrier"),
        carrier_up_count=number(host, f"{at}/carrier_up_count"),
        carrier_down_count=number(host, f"{at}/carrier_down_count"),
        mtu=number(host, f"{at}/mtu"),
        master=number(host, f"{at}/master/ifindex"),
        kind="bond" if "bonding" in entries else "bridge" if "bridge" in entries else "",
        address=text(host, f"{at}/address"),
        parent=pci_address(host, f"{at}/device"),
        port_name=text(host, f"{at}/phys_port_name"),
        stats={key: value for key, value in stats.items() if value is not None},
    )
