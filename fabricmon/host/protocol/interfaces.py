"""Network interfaces beyond rtnetlink: driver statistics, FEC, pause, lossless settings, pluggable module.

Every question takes rtnl_lock in the kernel and may cost firmware commands; only `module` needs a privilege
(docs/methods.md#kernel-interfaces). A value that the driver leaves out is None or an empty tuple, never 0.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Fec(Struct, frozen=True):
    """Forward error correction: the port's total, then one value a lane where the driver has them."""

    active: int | None = None  # bit number of enum ethtool_link_mode_bit_indices; None: unknown, or off
    corrected: tuple[int, ...] = ()  # blocks
    uncorrectable: tuple[int, ...] = ()  # blocks
    corrected_bits: tuple[int, ...] = ()


class LinkState(Struct, frozen=True):
    """Link state, and the reason of a link-down (enum ethtool_link_ext_state and its substates)."""

    link: bool | None = None
    quality: int | None = None  # signal quality index
    reason: int | None = None
    detail: int | None = None
    downs: int | None = None  # link-down events of the PHY


class Pause(Struct, frozen=True):
    """Global pause (802.3x); never per priority."""

    autonegotiated: bool | None = None
    receives: bool | None = None
    sends: bool | None = None
    received: int | None = None  # frames
    sent: int | None = None


class Dcb(Struct, frozen=True):
    """Applied settings of a lossless Ethernet port (IEEE 802.1Qaz, dcbnl IEEE_GET).

    pfc_enabled  bitmap: bit = priority
    delay        allowance for the cable, in bit times
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
    """Questions about one interface of this network namespace, by name.

    HostError with the driver's errno (EOPNOTSUPP: no answer, ENODEV: the interface has gone); Unsupported where the
    host cannot ask.
    """

    def statistics_names(self, name: str) -> tuple[str, ...]:
        """Names of the driver statistics; the same tuple object while they are equal."""

    def statistics(self, name: str, count: int) -> tuple[int, ...]:
        """The `count` values in the order of the names. EAGAIN where the driver now has another number of them."""

    def standard_statistics(self, name: str) -> dict[str, int]:
        """IEEE 802.3 counts of the driver by their name in the standard."""

    def fec(self, name: str) -> Fec: ...

    def link_state(self, name: str) -> LinkState: ...

    def pause(self, name: str) -> Pause: ...

    def dcb(self, name: str) -> Dcb: ...

    def module(self, name: str, page: int, offset: int, length: int, address: int = 0x50) -> bytes:
        """Bytes of the pluggable module's memory, within one half (0..127 or 128..255). Needs CAP_NET_ADMIN."""

    def neighbours(self) -> bytes:
        """The output of `lldpctl -f json`. Unsupported without lldpd."""

    def close(self) -> None: ...
