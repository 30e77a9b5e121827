"""The InfiniBand fabric around this node: link states and counters of every linked port of every switch and adapter.

One or two chosen agents of a subnet run it; it is off by default. Its rows stand under the agent that swept them, with
labels that say which port of which node each one is and what it is plugged into: from these the centre draws the
topology, and joins a swept port with what the port's own host tells. A port that was linked once keeps its row for
`keep`: a cable that was cut has two ends still. Counters are read and never reset.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fabricmon.catalogue import counter_at
from fabricmon.fabric.transport import TransportError
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.infer import natural
from fabricmon.topology.swept import labels_of
from fabricmon.units import Duration

if TYPE_CHECKING:
    from fabricmon.fabric.exchange import Exchange
    from fabricmon.fabric.subnet import At, Subnet
    from fabricmon.fabric.sweep import Sweep, Values

NAME = "fabric"
WIDE = True  # reads more than this node: no part of a quick look at it
_WALK_SHARE, _SWEEP_SHARE = 0.6, 0.9
"""Parts of the deadline: a walk ends by the first, the sweep behind it by the second, so that what was read by then
still counts."""
_MOST_FAULTS = 64
_NOT_SENT = ("multicast_xmit_packets", "multicast_rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets")


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.fabric

    enabled     sweep the fabric from this node; one or two nodes of a subnet should
    interval    between two sweeps (30 s: the pace of vendors' managers for some thirty counters, link-health 13)
    deadline    for one sweep; what is not read by then is unknown
    rediscover  between two walks for new nodes and cables; one is made early when a link came up
    device      adapter to send from, "" for the first with an active InfiniBand port; port: its port, 0 for the first
    window      datagrams outstanding at one time (8 to 16: more makes switches drop them)
    timeout     for one datagram
    tries       how often an unanswered datagram is sent before its node counts as silent
    keep        how long a node or cable that vanished keeps its rows
    """

    enabled: bool = False
    interval: Duration = Duration(30)
    deadline: Duration = Duration(25)
    rediscover: Duration = Duration(300)
    device: str = ""
    port: int = 0
    window: int = 16
    timeout: Duration = Duration(0.2)
    tries: int = 3
    keep: Duration = Duration(86400)

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 16:
            raise ValueError("`window` must be between 1 and 16")
        if not 1 <= self.tries <= 10:
            raise ValueError("`tries` must be between 1 and 10")
        if not 0.001 <= self.timeout <= self.deadline / 2:
            raise ValueError("`timeout` must be at least 1ms and at most half of `deadline`")


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._config = config
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        """One Session: a sweep is one thing."""
        return {self._config.device: self._session}

    def close(self) -> None:
        """The Session closes its own port."""


class Session:
    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._exchange: Exchange | None = None
        self._subnet: Subnet | None = None
        self._sweep: Sweep | None = None
        self._former: Sweep | None = None
        self._parts: tuple[Part, ...] = ()
        self._again = -math.inf  # node time of the next walk
        self._up: Any = None  # by row: the link was up in the last sweep, or nothing was known of it
        self._silent: frozenset[int] = frozenset()
        self._names: dict[int, str] = {}

    def read(self) -> Reading:
        now = self._host.monotonic()
        deadline = float(self._config.deadline)
        faults: list[Fault] = []
        try:
            exchange = self._port()
            started = exchange.clock()
            if now >= self._again or not self._stands(exchange, started + _WALK_SHARE * deadline):
                faults += self._walk(exchange, now, started + _WALK_SHARE * deadline)
            assert self._sweep is not None
            values = self._sweep.run(started + _SWEEP_SHARE * deadline)
        except TransportError as error:
            self.close()
            raise HostError("umad", error.errno or 0, error.strerror or str(error)) from error
        taken = self._host.monotonic() - (exchange.clock() - values.taken)
        self._look_again(values)
        faults += self._faults(values)
        return Reading(self._parts, _flat(values), taken, tuple(faults[:_MOST_FAULTS]), values.sent)

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.transport.close()
        self._exchange = None
        self._again = -math.inf
        self._former, self._sweep = self._sweep or self._former, None  # its requests were for the port that closed

    def _port(self) -> Exchange:
        from fabricmon.fabric.exchange import Exchange, Pace

        if self._exchange is None:
            pace = Pace(self._config.window, float(self._config.timeout), self._config.tries)
            self._exchange = Exchange(self._host.fabric_port(self._config.device, self._config.port), pace)
        return self._exchange

    def _stands(self, exchange: Exchange, until: float) -> bool:
        """The subnet manager has not begun anew since the walk."""
        from fabricmon.fabric.discover import same_manager

        return self._subnet is not None and same_manager(exchange, self._subnet, until)

    def _walk(self, exchange: Exchange, now: float, until: float) -> list[Fault]:
        """See what is there and how it is cabled, and lay the sweep out for it."""
        from fabricmon.fabric.discover import discover
        from fabricmon.fabric.subnet import At, graph_of, remember
        from fabricmon.fabric.sweep import Sweep

        found = discover(exchange, until, self._subnet)
        if found.cut and self._subnet is not None and self._sweep is not None:
            return [Fault(NAME, "", "NodeInfo", "the walk took too long; the last one stands")]
        subnet = found if self._subnet is None else remember(self._subnet, found, now, float(self._config.keep))
        graph = graph_of(subnet)
        self._names = _names(subnet, graph)
        ports = sorted(
            (At(node.guid, port.number) for node, port in subnet.linked()),
            key=lambda at: (natural(self._names[at.node]), at.node, at.port),
        )
        self._sweep, self._former = Sweep(exchange, subnet, ports, self._sweep or self._former), None
        self._subnet, self._up = subnet, None
        self._again = now + float(self._config.rediscover)
        parts = self._shape(subnet, graph, ports)
        if parts != self._parts:
            self._parts = parts
        cut = Fault(NAME, "", "NodeInfo", "the walk took too long; part of the fabric is missing")
        return [cut] if found.cut else []

    def _shape(self, subnet: Subnet, graph: Graph, ports: list[At]) -> tuple[Part, ...]:
        from fabricmon.fabric.subnet import guid_text

        components: list[Component] = []
        told: set[int] = set()
        for at in ports:
            node, port = subnet.nodes[at.node], subnet.nodes[at.node].ports[at.port]
            assert port.far is not None
            labels = labels_of(
                switch=node.is_switch,
                name=self._names[at.node],
                end=End(guid_text(at.node), at.port),
                far=End(guid_text(port.far.node), port.far.port),
                remote=f"{self._names[port.far.node]}/{port.far.port}",
            )
            if at.node not in told:  # what concerns the node is said once
                told.add(at.node)
                labels |= {"description": node.description, "ports": str(node.size), "model": f"0x{node.device:04x}"}
                if node.system:
                    labels["system_guid"] = guid_text(node.system)
            components.append(Component(f"{self._names[at.node]}/{at.port}", labels))
        if not components:
            return ()
        rows, period = tuple(components), float(self._config.interval)
        return (
            Part(NAME, Kind.PORT, _SENT_COLUMNS, rows, period),
            Part(NAME, Kind.PORT, _KEPT_COLUMNS, rows, period, wire=False),
        )

    def _look_again(self, values: Values) -> None:
        """Walk anew with the next run when a link came up (another cable may be in it) or a node fell silent."""
        from fabricmon.fabric.names import COLUMN
        from fabricmon.fabric.subnet import LINK_UP

        phys = values.cells[:, COLUMN["phys_state"]]
        up = (phys == LINK_UP) | (phys != phys)
        if self._up is not None and (up & ~self._up).any():
            self._again = -math.inf
        if values.silent - self._silent:
            self._again = -math.inf
        self._up, self._silent = up, frozenset(values.silent)

    def _faults(self, values: Values) -> list[Fault]:
        found = [
            Fault(NAME, self._names.get(guid, f"{guid:#x}"), "PerfMgt", "does not answer")
            for guid in sorted(values.silent)
        ]
        assert self._sweep is not None
        refused: Counter[tuple[int, str, int]] = Counter(
            (self._sweep.ports[row].node, attribute, status) for row, attribute, status in values.refused
        )
        if refused:
            from fabricmon.fabric.mad import status_text

            for (node, attribute, status), n in sorted(refused.items()):
                text = f"refused at {n} ports: {status_text(status)}"
                found.append(Fault(NAME, self._names.get(node, f"{node:#x}"), attribute, text))
        if values.cut:
            found.insert(0, Fault(NAME, "", "PerfMgt", "the deadline ended the sweep: some ports were not read"))
        return found


def _names(subnet: Subnet, graph: Graph) -> dict[int, str]:
    """What each node is called in row names: as in the topology; its GUID where two are called the same."""
    from fabricmon.fabric.subnet import guid_text

    names = {guid: graph.name(guid_text(guid)) for guid in subnet.nodes}
    count = Counter(names.values())
    return {guid: name if count[name] == 1 else guid_text(guid) for guid, name in names.items()}


def _columns() -> tuple[list[str], list[tuple[int, float]], list[str], list[tuple[int, float]]]:
    """Columns that travel and columns that stay, each with where it is in a sweep and what it is multiplied with."""
    from fabricmon.fabric.names import NAMES

    sent: list[str] = []
    kept: list[str] = []
    sent_at: list[tuple[int, float]] = []
    kept_at: list[tuple[int, float]] = []
    for at, name in enumerate(NAMES):
        own = name in ("state", "phys_state", "width", "rate")
        counter = None if own else counter_at("counters", name) or counter_at("mad", name)
        column, scale = (counter.name, counter.scale) if counter else (name, 1.0)
        stays = name in _NOT_SENT or (counter is not None and not counter.wire)
        (kept if stays else sent).append(column)
        (kept_at if stays else sent_at).append((at, scale))
    return sent, sent_at, kept, kept_at


_SENT, _SENT_AT, _KEPT, _KEPT_AT = _columns()
_SENT_COLUMNS, _KEPT_COLUMNS = tuple(_SENT), tuple(_KEPT)


def _flat(values: Values) -> array[float]:
    """The parts' rectangles one after the other, in exported units."""
    flat: array[float] = array("d")
    for places in (_SENT_AT, _KEPT_AT):
        chosen = values.cells[:, [at for at, _ in places]]
        for column, (_, scale) in enumerate(places):
            if scale != 1.0:
                chosen[:, column] *= scale
        flat.frombytes(chosen.tobytes())
    return flat
