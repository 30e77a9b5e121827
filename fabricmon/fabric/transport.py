"""How datagrams leave this machine and come back: what the sweep asks of a port of the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class TransportError(OSError):
    """The port cannot be used: absent, forbidden, or its device has gone. `errno` is the kernel's number, 0 without."""


class Request(NamedTuple):
    """One Get, as `mad` made it, and the LID it goes to (`mad.PERMISSIVE` for a directed route)."""

    lid: int
    datagram: bytes


class Packed(Protocol):
    """Requests laid out once, to be sent again and again."""

    def __len__(self) -> int: ...


class Transport(Protocol):
    """One port of the fabric. Used by one thread at a time.

    Every request that was sent comes back exactly once, as an answer or as an error after its timeout.

    inbox  the 256 bytes of what `receive` last returned, good until its next call
    """

    @property
    def inbox(self) -> memoryview: ...

    def pack(self, requests: Sequence[Request]) -> Packed: ...

    def send(self, packed: Packed, at: int, tid: int, timeout: float) -> None:
        """Send request number `at` under a number of 32 bits. TransportError where the port cannot be used."""

    def receive(self, wait: float) -> tuple[int, int] | None:
        """What became of one request: the number it was sent under, and 0 or the kernel's error (ETIMEDOUT where
        nobody answered in time); None when nothing came within `wait` seconds."""

    def close(self) -> None: ...
