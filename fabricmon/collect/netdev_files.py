"""Network interfaces from /sys/class/net, where rtnetlink cannot be asked: a tree of another machine."""

from __future__ import annotations

from fabricmon.host.protocol import Host, HostError, Link

CLASS = "/sys/class/net"
_MOST = 4096  # interfaces of one machine
_STATISTICS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "rx_crc_errors",
)  # fmt: skip
_OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_IFF_UP = 0x1


def links(host: Host) -> list[Link]:
    """Every interface there is; what a file does not say is None. HostError where the class is not readable."""
    names = host.list(CLASS)[:_MOST]
    return [_link(host, name) for name in names if _is_directory(host, name)]


def _is_directory(host: Host, name: str) -> bool:
    try:
        host.list(f"{CLASS}/{name}")
    except HostError:
        return False  # "bonding_masters" is a file
    return True


def _link(host: Host, name: str) -> Link:
    at = f"{CLASS}/{name}"
    flags = _integer(_text(host, f"{at}/flags"))
    operstate = _text(host, f"{at}/operstate")
    stats = {key: _integer(_text(host, f"{at}/statistics/{key}")) for key in _STATISTICS}
    return Link(
        index=_integer(_text(host, f"{at}/ifindex")) or 0,
        name=name,
        operstate=operstate if operstate in _OPERSTATES else "unknown",
        # a tree without readable flags: an interface that is up was wanted up
        admin_up=bool(flags & _IFF_UP) if flags is not None else operstate == "up",
        carrier=_integer(_text(host, f"{at}/carrier")),
        carrier_up_count=_integer(_text(host, f"{at}/carrier_up_count")),
        carrier_down_count=_integer(_text(host, f"{at}/carrier_down_count")),
        mtu=_integer(_text(host, f"{at}/mtu")),
        master=_integer(_text(host, f"{at}/master/ifindex")),
        kind=_kind(host, at),
        address=_text(host, f"{at}/address"),
        parent=_parent(host, at),
        port_name=_text(host, f"{at}/phys_port_name"),
        stats={key: value for key, value in stats.items() if value is not None},
    )


def _text(host: Host, path: str) -> str:
    try:
        return host.read(path, 256).decode("utf-8", "replace").strip()
    except HostError:
        return ""


def _integer(text: str) -> int | None:
    try:
        value = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        return None
    return value if 0 <= value < 2**64 else None


def _kind(host: Host, at: str) -> str:
    for kind in ("bonding", "bridge"):
        try:
            host.list(f"{at}/{kind}")
        except HostError:
            continue
        return "bond" if kind == "bonding" else kind
    return ""


def _parent(host: Host, at: str) -> str:
    try:
        last = host.realpath(f"{at}/device").rsplit("/", 1)[-1]
    except HostError:
        return ""
    return last if last.count(":") == 2 and "." in last else ""
