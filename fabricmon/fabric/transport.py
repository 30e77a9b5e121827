"""Interface of a port of the fabric, by which datagrams are sent and received."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class TransportError(OSError):
    """The port cannot be used: absent, forbidden, or its device is gone. `errno` is the kernel's number, 0 unknown."""


class Request(NamedTuple):
    """One Get, as `mad` made it, and the LID it goes to (`mad.PERMISSIVE` for a directed route)."""

    lid: int
    datagram: bytes


class Packed(Protocol):
    """Requests laid out once, to be sent repeatedly."""

    def __len__(self) -> int: ...


class Transport(Protocol):
    """One port of the fabric. Used by one thread at a time.

    Every request that was sent is returned exactly once, as an answer or as an error after its timeout.

    inbox  the 256 bytes that `receive` last returned, valid until its next call
    """

    @property
    def inbox(self) -> memoryview: ...

    def pack(self, requests: Sequence[Request]) -> Packed: ...

    def send(self, packed: Packed, at: int, tid: int, timeout: float) -> None:
        """Send request number `at` under a number of 32 bits. TransportError where the port cannot be used."""

    def receive(self, wait: float) -> tuple[int, int] | None:
        """Result of one request: its number, and 0 or the kernel's error (ETIMEDOUT without an answer in time). None
        when nothing arrived within `wait` seconds."""

    def close(self) -> None: ...
