"""The three packets of a probe. Pure.

    question  "fp", version, kind 0, nonce (16 bytes), cookie (8 bytes), zeros up to its size
    answer    kind 1 or 2, traffic class of the question as received, cookie (8 bytes), nanoseconds (8 bytes)

The first answer leaves at once, with 0 ns; the second carries T4 - T3, the time that the question spent on the
responder's host. The cookie is random: who did not see the question cannot answer it. Two answers over IPv4 are no
longer than the question with all headers: 2 x (28 + 18) <= 28 + 64.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Literal, NamedTuple

SIZE = 64
"""Bytes of a question of the plan."""
LARGEST = 65_000
"""Bytes of a question that looks for the path MTU, at most."""
HEADERS = {4: 28, 6: 48}
"""Bytes of the IP and UDP headers, by IP version."""
RDMA_HEADERS = 24
"""Bytes of the transport headers of a datagram of RoCE v2 and its checksum, behind those: BTH 12, DETH 8, ICRC 4."""
FIRST, SECOND = 1, 2
COOKIE = 8
"""Bytes of a cookie."""
_HEAD = struct.Struct("!2sBB16s8s")
_ANSWER = struct.Struct("!BB8sQ")
ANSWER_SIZE = _ANSWER.size
_MAGIC, _VERSION = b"fp", 1


BackendName = Literal["udp", "verbs"]
Clock = Literal["adapter", "kernel", "program", ""]
"""What stamped a packet; "" nothing."""


class Offer(NamedTuple):
    """Where a port answers probes: address and UDP port, or address and number of its queue pair (verbs)."""

    address: str
    port: int
    backend: BackendName = "udp"

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'' if self.backend == 'udp' else 'verbs/'}{host}:{self.port}"


class ProbeAnswer(NamedTuple):
    """kind FIRST or SECOND; traffic_class of the question at the far end; held: seconds, of the second answer"""

    kind: int
    traffic_class: int
    cookie: bytes
    held: float


def question(nonce: bytes, cookie: bytes, size: int = SIZE) -> bytes:
    return _HEAD.pack(_MAGIC, _VERSION, 0, nonce, cookie).ljust(size, b"\0")


def asked(data: bytes, nonces: Collection[bytes]) -> bytes | None:
    """The cookie of a question of a known plan; None for anything else, too small to be padded included."""
    if len(data) < SIZE:
        return None
    magic, version, kind, nonce, cookie = _HEAD.unpack_from(data)
    return cookie if (magic, version, kind) == (_MAGIC, _VERSION, 0) and nonce in nonces else None


def answer(kind: int, traffic_class: int, cookie: bytes, held: float = 0.0) -> bytes:
    return _ANSWER.pack(kind, traffic_class & 0xFF, cookie, max(0, round(held * 1e9)))


def answered(data: bytes) -> ProbeAnswer | None:
    """An answer, None for anything else."""
    if len(data) != _ANSWER.size:
        return None
    kind, traffic_class, cookie, held = _ANSWER.unpack(data)
    return ProbeAnswer(kind, traffic_class, cookie, held / 1e9) if kind in (FIRST, SECOND) else None
