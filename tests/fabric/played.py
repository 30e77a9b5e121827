"""A fabric that plays its part in memory: answers management datagrams for a graph, late or never, in made-up time."""

from __future__ import annotations

import errno
import heapq
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fabricmon.fabric import mad
from fabricmon.fabric.subnet import At
from fabricmon.fabric.transport import Request
from fabricmon.topology.graph import Graph

WIDTH_4X, SPEED_NDR = 2, 8
PERFORMANCE = (
    mad.CLASS_PORT_INFO, mad.PORT_COUNTERS, mad.PORT_COUNTERS_EXTENDED, mad.PORT_COUNTERS_EXTENDED_ERRORS,
    mad.RCV_ERROR_DETAILS, mad.XMIT_DISCARD_DETAILS,
)  # fmt: skip
_BY_ID = {a.id: a for a in PERFORMANCE}


class Played:
    """Transport over `graph`, seen from port 1 of its first adapter.

    latency     seconds until an answer
    dead        GUIDs of nodes that answer nothing, though their links stay up
    cut         ports whose link is down; both ends of a cable
    counters    values by port and name of a field of PortCounters and its like; 0 elsewhere
    capable     the two capability masks of a node, where they are not those of `usual`
    asked       performance datagrams by attribute
    refuse      (node, performance attribute) -> status it answers with
    now         the clock: it moves when something is waited for
    """

    def __init__(self, graph: Graph, latency: float = 0.0, usual: tuple[int, int] = (0x1300, 0)) -> None:
        self.latency, self.usual = latency, usual
        self.now = 0.0
        self.dead: set[int] = set()
        self.cut: set[At] = set()
        self.width: dict[At, int] = {}
        self.counters: dict[At, dict[str, int]] = defaultdict(dict)
        self.capable: dict[int, tuple[int, int]] = {}
        self.refuse: dict[tuple[int, int], int] = {}
        self.asked: dict[int, int] = defaultdict(int)
        self.inbox = memoryview(bytearray(mad.SIZE))
        self.switches = {int(s.id, 16): s for s in graph.switches.values()}
        self.adapters = {int(a.id, 16): a for a in graph.adapters.values()}
        self.far: dict[At, At] = {}
        for link in graph.cables:
            a, b = (At(int(end.node, 16), end.port) for end in (link.a, link.b))
            self.far[a], self.far[b] = b, a
        self.lid = {guid: 1 + n for n, guid in enumerate((*self.switches, *self.adapters))}
        self.guid = {lid: guid for guid, lid in self.lid.items()}
        self.origin = At(next(iter(self.adapters)), 1)
        self._due: list[tuple[float, int, int, bytes]] = []
        self._order = 0
        self.closed = False

    def clock(self) -> float:
        return self.now

    # --- Transport

    def pack(self, requests: Sequence[Request]) -> Sequence[Request]:
        return tuple(requests)

    def send(self, packed: Sequence[Request], at: int, tid: int, timeout: float) -> None:
        lid, datagram = packed[at]
        if datagram[1] == mad.CLASS_PERF:
            self.asked[int.from_bytes(datagram[16:18], "big")] += 1
        answer = self._answer(lid, datagram)
        self._order += 1
        wait, number = (timeout, errno.ETIMEDOUT) if answer is None or self.latency > timeout else (self.latency, 0)
        heapq.heappush(self._due, (self.now + wait, self._order, tid, (answer or b"") if not number else b""))

    def receive(self, wait: float) -> tuple[int, int] | None:
        if not self._due or self._due[0][0] > self.now + wait:
            self.now += wait
            return None
        due, _, tid, answer = heapq.heappop(self._due)
        self.now = max(self.now, due)
        if not answer:
            return tid, errno.ETIMEDOUT
        self.inbox[:] = answer
        return tid, 0

    def close(self) -> None:
        self.closed = True

    # --- the fabric

    def link(self, at: At) -> At | None:
        far = self.far.get(at)
        return None if far is None or at in self.cut or far in self.cut else far

    def pull(self, at: At) -> None:
        self.cut |= {at, self.far[at]}

    def _answer(self, lid: int, datagram: bytes) -> bytes | None:
        found = self._walk(datagram) if datagram[1] == mad.CLASS_SMP_DIRECTED else self._routed(lid)
        if found is None or found.node in self.dead:
            return None
        attribute, modifier = int.from_bytes(datagram[16:18], "big"), int.from_bytes(datagram[20:24], "big")
        if datagram[1] == mad.CLASS_PERF:
            if status := self.refuse.get((found.node, attribute)):
                return response(datagram, b"", status)
            return response(datagram, self._performance(found, attribute, datagram[mad.DATA + 1]))
        return response(datagram, self._subnet(found, attribute, modifier))

    def _walk(self, datagram: bytes) -> At | None:
        at = self.origin
        for hop in range(1, datagram[7] + 1):
            if at.node in self.dead or (at.node in self.adapters and hop > 1):
                return None
            leave = At(at.node, datagram[128 + hop])
            next_at = self.link(leave)
            if next_at is None:
                return None
            at = next_at
        return at

    def _routed(self, lid: int) -> At | None:
        guid = self.guid.get(lid)
        if guid is None:
            return None
        if guid in self.adapters and self.link(At(guid, 1)) is None:
            return None
        return At(guid, 0 if guid in self.switches else 1)

    def _subnet(self, at: At, attribute: int, modifier: int) -> bytes:
        is_switch = at.node in self.switches
        node = self.switches[at.node] if is_switch else self.adapters[at.node]
        if attribute == mad.NODE_INFO.id:
            return encode(mad.NODE_INFO, {
                "node_type": mad.SWITCH if is_switch else mad.ADAPTER, "ports": node.ports, "node_guid": at.node,
                "port_guid": at.node if is_switch else at.node + at.port, "system_guid": at.node,
                "device": 0xD2F2 if is_switch else 0x1021, "vendor": 0x2C9, "local_port": at.port,
            })  # fmt: skip
        if attribute == mad.NODE_DESCRIPTION.id:
            text = f"MF0;{node.name}:MQM9700/U1" if is_switch else self.adapters[at.node].description
            return text.encode().ljust(64, b"\0")
        if attribute == mad.SWITCH_INFO.id:
            return encode(mad.SWITCH_INFO, {"enhanced_port0": 1})
        assert attribute == mad.PORT_INFO.id
        port = At(at.node, modifier)
        up = self.link(port) is not None or (is_switch and modifier == 0)
        own = not is_switch or modifier == 0
        return encode(mad.PORT_INFO, {
            "lid": self.lid[at.node] if own else 0, "sm_lid": 1 if own else 0, "local_port": at.port,
            "state": 4 if up else 1, "phys_state": 5 if up else 2, "width_active": self.width.get(port, WIDTH_4X),
            "speed_active": 4, "speed_ext_active": SPEED_NDR,
        })  # fmt: skip

    def _performance(self, at: At, attribute: int, port: int) -> bytes:
        if attribute == mad.CLASS_PORT_INFO.id:
            one, two = self.capable.get(at.node, self.usual)
            return encode(mad.CLASS_PORT_INFO, {"capabilities": one, "capabilities2": two})
        layout = _BY_ID[attribute]
        if attribute == mad.PORT_COUNTERS_EXTENDED.id and not self.capable.get(at.node, self.usual)[1] & 2:
            layout = mad.PORT_COUNTERS_EXTENDED
        set_to = self.counters.get(At(at.node, port), {})
        return encode(layout, {
            f.name: min(set_to[f.name], 2**f.bits - 1) for f in layout.fields if f.name in set_to
        })  # fmt: skip


def encode(attribute: mad.Attribute, values: Mapping[str, int]) -> bytes:
    """The attribute's bytes; fields that are not named are 0. MadError for a value that does not fit."""
    number, total = 0, 8 * attribute.size
    known = {f.name: f for f in attribute.fields}
    for name, value in values.items():
        field = known.get(name)
        if field is None:
            raise mad.MadError(f"{attribute.name} has no field {name}")
        if not 0 <= value < 1 << field.bits:
            raise mad.MadError(f"{attribute.name}.{name} has {field.bits} bits, {value} does not fit")
        number |= value << (total - field.offset - field.bits)
    return number.to_bytes(attribute.size, "big")


def response(request: bytes | bytearray | memoryview, attribute: bytes, status: int = 0) -> bytes:
    """What a node that got `request` sends back."""
    out = bytearray(request[:mad.SIZE])
    out[3] = 0x81
    direction = 0x8000 if out[1] == mad.CLASS_SMP_DIRECTED else 0
    struct.pack_into(">H", out, 4, status | direction)
    out[mad.DATA : mad.DATA + len(attribute)] = attribute
    return bytes(out)
