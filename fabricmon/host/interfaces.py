"""What drivers of network interfaces tell beyond rtnetlink: own statistics, FEC, pause, lossless settings, the module.

Every question takes rtnl_lock in the kernel and may be one or many firmware commands; none needs a privilege but
`module` (netlink.md section 1). A fact that the driver leaves out is None or an empty tuple, never 0.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Fec(Struct, frozen=True):
    """Forward error correction: the port's total first, then one value a lane where the driver has them."""

    active: int | None = None  # bit number of enum ethtool_link_mode_bit_indices; None: not told, or off
    corrected: tuple[int, ...] = ()  # blocks
    uncorrectable: tuple[int, ...] = ()  # blocks
    corrected_bits: tuple[int, ...] = ()


class LinkState(Struct, frozen=True):
    """Whether there is a link, and if not why (enum ethtool_link_ext_state and its substates)."""

    link: bool | None = None
    quality: int | None = None  # signal quality index of a PHY that has one
    reason: int | None = None
    detail: int | None = None
    downs: int | None = None  # link-down events the PHY saw


class Pause(Struct, frozen=True):
    """Global pause (802.3x); never per priority."""

    autonegotiated: bool | None = None
    receives: bool | None = None
    sends: bool | None = None
    received: int | None = None  # frames
    sent: int | None = None


class Dcb(Struct, frozen=True):
    """Settings of a lossless Ethernet port, as the driver applies them (IEEE 802.1Qaz, dcbnl IEEE_GET).

    pfc_enabled  bitmap: bit = priority
    delay        what the port allows for the cable, in bit times
    bandwidth    percent of each traffic class; algorithm: 0 strict, 1 credit-based shaper, 2 ETS, 255 vendor
    class_of     traffic class of each priority
    apps         (selector, protocol, priority); selector 5: protocol is a DSCP value
    buffer_of    receive buffer of each priority; buffers: bytes of each
    """

    dcbx: int | None = None
    pfc_classes: int | None = None
    pfc_enabled: int | None = None
    delay: int | None = None
    willing: bool | None = None
    bandwidth: tuple[int, ...] = ()
    algorithm: tuple[int, ...] = ()
    class_of: tuple[int, ...] = ()
    apps: tuple[tuple[int, int, int], ...] | None = None
    max_rate: tuple[int, ...] = ()  # of each traffic class, kbit/s, 0 none
    buffer_of: tuple[int, ...] = ()
    buffers: tuple[int, ...] = ()


class Interfaces(Protocol):
    """Questions about one interface of this network namespace, by its name.

    HostError as the driver says (EOPNOTSUPP where it cannot answer, ENODEV where the interface has gone); Unsupported
    where the host cannot ask at all.
    """

    def statistics_names(self, name: str) -> tuple[str, ...]:
        """Names of the driver's own statistics now; the same tuple object as long as they are the same."""

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        """Their values, `count` of them in the order of the names. EAGAIN where the driver has another number now."""

    def standard_statistics(self, name: str) -> dict[str, int]:
        """IEEE 802.3 counts by their name in the standard, those the driver has."""

    def fec(self, name: str) -> Fec: ...

    def link_state(self, name: str) -> LinkState: ...

    def pause(self, name: str) -> Pause: ...

    def dcb(self, name: str) -> Dcb: ...

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        """Bytes of the pluggable module's memory, within one half (0..127 or 128..255). Needs CAP_NET_ADMIN."""

    def neighbours(self) -> bytes:
        """What lldpd knows, in its own JSON ("lldpctl -f json"). Unsupported where there is no lldpd."""

    def close(self) -> None: ...
