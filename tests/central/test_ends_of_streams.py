"""What the end of an attempt says of an agent and its node, and frames that do not fit what came before."""

from __future__ import annotations

import errno
import socket
import ssl

import numpy as np
import pytest

from fabricmon.central.streams.connection import HandshakeError
from fabricmon.central.streams.stream import MAX_DETAIL, Stream, failure
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Presence

UNREACHABLE, REFUSED, INCOMPATIBLE = Presence.UNREACHABLE, Presence.REFUSED, Presence.INCOMPATIBLE


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED")
    error.verify_message = "self-signed certificate"
    return error


def tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "x")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


@pytest.mark.parametrize(
    ("error", "presence", "detail"),
    [
        (TimeoutError(), UNREACHABLE, "no answer"),
        (HandshakeError(401), INCOMPATIBLE, "it refuses this server: HTTP 401 (central.agents)"),
        (HandshakeError(403), INCOMPATIBLE, "it refuses this server: HTTP 403 (central.agents)"),
        (HandshakeError(0), INCOMPATIBLE, "it ended the connection without an answer; does it require TLS or a "
                                          "certificate (central.agents)?"),
        (HandshakeError(404), REFUSED, "HTTP 404 in place of a stream"),
        (untrusted(), INCOMPATIBLE, "its certificate is not trusted: self-signed certificate"),
        (tls(), INCOMPATIBLE, "no TLS with it: wrong version number"),
        (socket.gaierror(-2, "x"), UNREACHABLE, "its name does not resolve"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), REFUSED, "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), UNREACHABLE, "no route to host"),
        (OSError(errno.ENETUNREACH, "x"), UNREACHABLE, "network is unreachable"),
        (OSError(errno.EHOSTDOWN, "x"), UNREACHABLE, "host is down"),
        (OSError(errno.ENETDOWN, "x"), UNREACHABLE, "network is down"),
        (OSError(errno.ETIMEDOUT, "x"), UNREACHABLE, "no answer"),  # Python makes it a TimeoutError
        (ValueError("port"), UNREACHABLE, "its address is none"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), REFUSED,
         f"ConnectionResetError: [Errno {errno.ECONNRESET}] reset"),
        (KeyError("k"), REFUSED, "KeyError: 'k'"),
    ],
)  # fmt: skip
def test_the_end_of_an_attempt(error: Exception, presence: Presence, detail: str) -> None:
    ended = failure(error)
    assert (ended.presence, ended.detail) == (presence, detail)
    assert str(ended) == detail


def test_a_reason_is_bounded() -> None:
    assert len(failure(ConnectionError("x" * 9999)).detail) == MAX_DETAIL
    long = ssl.SSLError(1, "x")
    long.reason = "y" * 9999
    assert len(failure(long).detail) == len("no TLS with it: ") + MAX_DETAIL


# --- frames

PARTS = (
    Part("state", Kind.PORT, ("state", "phys_state"), (Component("a/1"), Component("b/1")), 1.0),
    Part("slow", Kind.PORT, ("rate",), (Component("a/1"),), 10.0),
)
INVENTORY = Inventory(7, Identity("h", "boot", "agent", "1", 1.0), PARTS)


def frame(inventory: int = 7, parts: int = 2, size: int = 5, index: list[int] | None = None) -> Frame:
    at = None if index is None else np.array(index, np.uint32)
    return Frame(inventory, 1, 0.0, np.zeros(parts), at, np.zeros(size if index is None else len(index)), size)


def stream() -> Stream:
    made = Stream(None, None, None)  # type: ignore[arg-type]
    made.begin(INVENTORY)
    return made


def test_frames_follow_the_inventory_that_they_name() -> None:
    made = stream()
    assert (made.size, made.parts, made.complete) == (5, 2, False)
    with pytest.raises(ValueError, match="a difference came before all values"):
        made.check(frame(index=[0]))
    made.check(frame())
    assert made.complete
    made.check(frame(index=[0]))
    made.begin(INVENTORY)
    assert not made.complete


@pytest.mark.parametrize("wrong", [{"inventory": 8}, {"parts": 1}, {"size": 4}])
def test_a_frame_that_does_not_fit_is_refused(wrong: dict[str, int]) -> None:
    made = stream()
    with pytest.raises(ValueError, match="a frame of"):
        made.check(frame(**wrong))
    with pytest.raises(ValueError, match="was not sent"):
        Stream(None, None, None).check(frame())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "turns"), [([], False), ([0], True), ([3], True), ([4], False), ([4, 3], True), (None, False)]
)
def test_a_difference_with_a_state_is_of_a_part_read_once_a_second(index: list[int] | None, turns: bool) -> None:
    assert stream().turned(frame(index=index)) is turns
