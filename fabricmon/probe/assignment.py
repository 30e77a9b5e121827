"""What one agent is to probe and to answer: the message from a server to an agent, and its limits. Pure.

The only message that travels against the stream (docs/design/frame.md). It ends by itself after `lasts` seconds, so an
agent that lost its server stops. All limits hold for whatever a reader of the stream sends (docs/probing.md#security).
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from fabricmon.forms.decoding import json_decoder
from fabricmon.probe.packet import LARGEST, SIZE, Clock

MAX_TEXT = 65_536
"""Bytes of an assignment: 8 adapters that probe 8 peers and answer 24 each have 20 kB."""
MAX_PORTS, MAX_TARGETS, MAX_ASKERS, MAX_WORD = 64, 64, 256, 253
FASTEST = 10.0
"""Probes a second and NIC, at most."""
LONGEST = 300.0
"""Seconds for which an assignment may hold."""
SOURCES = range(61_000, 65_536)
"""UDP source ports of probes: above the kernel's usual range for connections (ip_local_port_range, to 60999)."""
QUEUE_PAIRS = 1 << 24
"""Numbers of queue pairs; those of UDP ports are fewer."""
WHOLE = 0
"""Size of a question that fills what the kernel takes for the path's MTU."""
NONCE = 16
"""Bytes of the nonce by which a responder knows a question of its server's plan."""


class ProbeTarget(Struct, frozen=True, array_like=True):
    """One flow.

    peer     node and PORT row that it goes to: "host-009/mlx5_3/1"
    address  of its responder, and `port` (Offer)
    source   own UDP port, which chooses a path where switches hash (ECMP); of a queue pair the end of its flow label
    group    leaf of the peer, "" unknown: the label of metrics
    size     bytes of a question, or WHOLE; other than SIZE only where results are a reply
    """

    peer: str
    address: str
    port: int
    source: int
    group: str = ""
    size: int = SIZE


class PortProbes(Struct, frozen=True, array_like=True):
    """name of the own PORT row, what it probes, and the addresses that may probe it"""

    name: str
    targets: tuple[ProbeTarget, ...] = ()
    askers: tuple[str, ...] = ()


class Assignment(Struct, frozen=True, tag_field="type", tag="probe"):
    """version  of the plan
    lasts    seconds from its receipt
    nonce    hexadecimal, of the server
    rate     probes a second and NIC
    dscp     of questions and answers
    ports    None: those of the same version that the agent has; (): stop
    reply    results go back on the stream that brought it, and not into the node's snapshot
    """

    version: int
    lasts: float
    nonce: str
    rate: float = FASTEST
    dscp: int = 0
    ports: tuple[PortProbes, ...] | None = None
    reply: bool = False

    @property
    def key(self) -> bytes:
        return bytes.fromhex(self.nonce)


class FlowResult(Struct, frozen=True):
    """One window of one flow, as a reply. Times in seconds, NaN as null; packet: bytes of a question with its headers;
    clock: what stamped, "" nothing."""

    port: str
    target: ProbeTarget
    sent: int
    lost: int
    late: int
    rtt: tuple[float | None, float | None, float | None]
    own: float | None
    peer: float | None
    dscp: int | None
    clock: Clock
    void: str = ""
    packet: int = 0


class Reply(Struct, frozen=True, tag_field="type", tag="probed"):
    """results of one window, or why there are none"""

    version: int
    results: tuple[FlowResult, ...] = ()
    error: str = ""


_assignment = json_decoder(Assignment)
_reply = json_decoder(Reply)


def encode(message: Assignment | Reply) -> str:
    return msgspec.json.encode(message).decode()


def decode(text: str | bytes) -> Assignment:
    """An assignment within the limits above. ValueError names what is wrong with it."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"an assignment has at most {MAX_TEXT} bytes, got {len(text)}")
    found: Assignment = _assignment(text)
    _check_head(found)
    ports = found.ports or ()
    if len(ports) > MAX_PORTS or len({each.name for each in ports}) < len(ports):
        raise ValueError(f"an assignment has at most {MAX_PORTS} ports, each once")
    for each in ports:
        _check_port(each, found.reply)
    return found


def decode_reply(text: str | bytes) -> Reply:
    """A reply of an agent. ValueError."""
    found: Reply = _reply(text)
    return found


def _check_head(found: Assignment) -> None:
    if not 0 <= found.version < 2**63:
        raise ValueError(f"version {found.version} is no number of a plan")
    if not (math.isfinite(found.lasts) and 0 <= found.lasts <= LONGEST):
        raise ValueError(f"an assignment lasts at most {LONGEST:g} s, got {found.lasts:g}")
    if not (math.isfinite(found.rate) and 0 < found.rate <= FASTEST):
        raise ValueError(f"at most {FASTEST:g} probes a second, got {found.rate:g}")
    if not 0 <= found.dscp < 64:
        raise ValueError(f"{found.dscp} is no DSCP")
    if len(found.nonce) != 2 * NONCE or not set(found.nonce) <= set("0123456789abcdef"):
        raise ValueError(f"the nonce has {2 * NONCE} hexadecimal digits")


def _check_port(port: PortProbes, any_size: bool) -> None:
    if len(port.targets) > MAX_TARGETS or len(port.askers) > MAX_ASKERS:
        raise ValueError(f"a port has at most {MAX_TARGETS} targets and {MAX_ASKERS} askers")
    _check_words(port.name, *(word for target in port.targets for word in (target.peer, target.group)))
    if len({target.source for target in port.targets}) < len(port.targets):
        raise ValueError(f"{port.name}: two flows with one source port")
    for target in port.targets:
        if target.source not in SOURCES or not 0 < target.port < QUEUE_PAIRS:
            raise ValueError(f"{port.name}: {target.source} to {target.port} are no ports of a probe")
        if target.size != SIZE and not (any_size and (target.size == WHOLE or SIZE < target.size <= LARGEST)):
            raise ValueError(f"{port.name}: a question of {target.size} bytes is not permitted")
    for text in (*(target.address for target in port.targets), *port.askers):
        ipaddress.ip_address(text)


def _check_words(*words: str) -> None:
    for word in words:
        if len(word) > MAX_WORD or (word and not word.isprintable()):
            raise ValueError(f"{word[:64]!r} is no name")


def permitted(address: str, networks: Sequence[str]) -> bool:
    """Whether an agent may probe an address: in one of `networks`, or private where none is given; never a multicast,
    broadcast, loopback or unspecified one."""
    where = ipaddress.ip_address(address)
    if where.is_multicast or where.is_unspecified or where.is_loopback or str(where) == "255.255.255.255":
        return False
    if not networks:
        return where.is_private or where.is_link_local
    return any(where in ipaddress.ip_network(network) for network in networks)
