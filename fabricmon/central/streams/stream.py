"""One connection to an agent: its state, and the presence that its end stands for."""

from __future__ import annotations

import errno
import os
import socket
import ssl

import numpy as np
from numpy.typing import NDArray

from fabricmon import frame as wire
from fabricmon.central.streams.connection import HandshakeError
from fabricmon.central.streams.presence import Peer
from fabricmon.model import Inventory, Presence

MAX_DETAIL = 300  # characters of the reason of a failed stream
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.ENETDOWN)


class Ended(Exception):
    """A stream that is over: how the peer stands now, and why."""

    def __init__(self, presence: Presence, detail: str) -> None:
        super().__init__(detail)
        self.presence, self.detail = presence, detail


class Stream:
    """One connection of a peer."""

    def __init__(self, peer: Peer, after: int | None, started: float | None) -> None:
        self.peer, self.after, self.started = peer, after, started
        self.feeds = self.greeted = self.complete = False
        self.again = False  # try again at once
        self.goodbye = ""
        self.inventory: Inventory | None = None
        self.size = self.parts = 0
        self._bounds: NDArray[np.int64] = np.zeros(0, np.int64)  # where fast parts begin and end, in turn

    def begin(self, inventory: Inventory) -> None:
        """The inventory of the next frames."""
        self.inventory, self.complete = inventory, False
        bounds, fast, end = list[int](), False, 0
        for part in inventory.parts:
            if part.fast is not fast:
                fast = not fast
                bounds.append(end)
            end += len(part.columns) * len(part.components)
        self.size, self.parts = end, len(inventory.parts)
        self._bounds = np.array([*bounds, end] if fast else bounds, np.int64)

    def turned(self, frame: wire.Frame) -> bool:
        """Whether it is a difference with a state."""
        return frame.index is not None and bool((np.searchsorted(self._bounds, frame.index, "right") & 1).any())

    def check(self, frame: wire.Frame) -> None:
        """ValueError for a frame that does not fit the inventory before it. `complete` once all values came."""
        if self.inventory is None or frame.inventory != self.inventory.id:
            raise ValueError(f"a frame of inventory {frame.inventory}, which was not sent")
        if frame.size != self.size or len(frame.taken) != self.parts:
            raise ValueError(
                f"a frame of {frame.size} values in {len(frame.taken)} parts, "
                f"its inventory has {self.size} in {self.parts}"
            )
        if frame.index is None:
            self.complete = True
        elif not self.complete:
            raise ValueError("a difference came before all values")


def _tls(error: Exception) -> str:
    """OpenSSL's reason, without the place in its sources."""
    text = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    return str(text).replace("_", " ").lower()[:MAX_DETAIL]


def _no_handshake(status: int) -> Ended:
    if status in (401, 403):
        return Ended(Presence.INCOMPATIBLE, f"it refuses this server: HTTP {status} (central.agents)")
    if not status:
        why = "it ended the connection without an answer; does it require TLS or a certificate (central.agents)?"
        return Ended(Presence.INCOMPATIBLE, why)
    return Ended(Presence.REFUSED, f"HTTP {status} in place of a stream")


def failure(error: Exception) -> Ended:
    """The presence of agent and node after a failed attempt."""
    if isinstance(error, TimeoutError):
        return Ended(Presence.UNREACHABLE, "no answer")
    if isinstance(error, HandshakeError):
        return _no_handshake(error.status)
    if isinstance(error, ssl.SSLCertVerificationError | ssl.CertificateError):
        return Ended(Presence.INCOMPATIBLE, f"its certificate is not trusted: {_tls(error)}")
    if isinstance(error, ssl.SSLError):
        return Ended(Presence.INCOMPATIBLE, f"no TLS with it: {_tls(error)}")
    if isinstance(error, socket.gaierror):
        return Ended(Presence.UNREACHABLE, "its name does not resolve")
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ECONNREFUSED:
        return Ended(Presence.REFUSED, "connection refused")
    if number in _UNREACHABLE:
        return Ended(Presence.UNREACHABLE, os.strerror(number or 0).lower())
    if isinstance(error, ValueError):
        return Ended(Presence.UNREACHABLE, "its address is none")
    return Ended(Presence.REFUSED, f"{type(error).__name__}: {error}"[:MAX_DETAIL])
