"""What sends, stamps and receives probes: ends of one backend (UDP sockets, queue pairs), behind one seam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from fabricmon.probe.packet import Offer
from fabricmon.probe.windows import KernelTimes


class Received(NamedTuple):
    """A packet: its bytes, from where, when it came, its traffic class (-1 unknown)."""

    data: bytes
    address: tuple[str, int]
    at: KernelTimes
    traffic_class: int


class Stamped(NamedTuple):
    """A transmit stamp of the end's packet of this number."""

    number: int
    at: KernelTimes


class ProbeEnd(Protocol):
    """One bound end. Its descriptor is readable when there are packets or stamps.

    headers  bytes of a packet besides its payload
    dropped  packets that were lost here as the program was too slow
    """

    dropped: int

    @property
    def headers(self) -> int: ...

    def fileno(self) -> int: ...

    def largest(self, to: str) -> int:
        """Bytes of payload that leave whole towards an address. OSError without a route."""
        ...

    def prepare(self, to: str) -> bool:
        """Whether a packet to an address can leave, or it is time to count it as lost; begins to find the way to it."""
        ...

    def send(self, data: bytes, to: tuple[str, int], stamp: bool = True) -> int | None:
        """The number of its transmit stamp, -1 for one without; None where it was not sent as the port is full.
        OSError otherwise: no route, too large. After either the numbers begin anew."""
        ...

    def received(self) -> list[Received]:
        """Packets that have come; those that are left keep the descriptor readable."""
        ...

    def stamps(self) -> list[Stamped]:
        """Stamps that have come; likewise."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Ends for the rows of PORT that it can probe."""

    def offers(self, rows: Iterable[ProbeRow]) -> dict[str, Offer]:
        """Where each row answers, of those that can probe now."""
        ...

    def refused(self) -> Mapping[str, str]:
        """Rows of the last offers that cannot probe though they should, and why."""
        ...

    def asker(self, row: str, source: int, dscp: int) -> ProbeEnd:
        """An end that asks, on a source port of its own. OSError."""
        ...

    def responder(self, row: str, dscp: int) -> ProbeEnd:
        """The end that answers where the row offers to. OSError."""
        ...


class ProbeRow(NamedTuple):
    """A row of PORT: its network interface, and its RDMA device and port, "" where it has none."""

    name: str
    netdev: str
    device: str = ""
    port: str = ""
