"""The walk, the sweep and the rows of `collect.fabric`."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import Any

from fabricmon.catalogue import counter_at
from fabricmon.collect.collector import Collector, Session
from fabricmon.collect.fabric import NAME, FabricConfig
from fabricmon.fabric.discover import discover, same_manager
from fabricmon.fabric.exchange import Exchange, Pace
from fabricmon.fabric.mad import status_text
from fabricmon.fabric.names import COLUMN, NAMES
from fabricmon.fabric.subnet import LINK_UP, At, Subnet, graph_of, guid_text, remember
from fabricmon.fabric.sweep import Sweep, Values
from fabricmon.fabric.transport import TransportError
from fabricmon.forms.natural import natural
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.topology.graph import End, Graph
from fabricmon.topology.swept import labels_of

_WALK_SHARE, _SWEEP_SHARE = 0.6, 0.9
"""Parts of the deadline: a walk ends by the first, the sweep after it by the second, so that partial results count."""
_MOST_FAULTS = 64
_NOT_SENT = ("multicast_xmit_packets", "multicast_rcv_packets", "unicast_xmit_packets", "unicast_rcv_packets")


def open(host: Host, config: FabricConfig) -> Collector[None]:
    """A collector with one Session."""
    return Collector(lambda: {config.device: None}, lambda _: FabricSession(host, config))


class FabricSession(Session[FabricConfig]):
    def __init__(self, host: Host, config: FabricConfig) -> None:
        super().__init__(host, config)
        self._exchange: Exchange | None = None
        self._subnet: Subnet | None = None
        self._sweep: Sweep | None = None
        self._former: Sweep | None = None
        self._up: Any = None  # by row: the link was up in the last sweep, or unknown
        self._silent: frozenset[int] = frozenset()
        self._names: dict[int, str] = {}

    def read(self) -> Reading:
        now = self._host.monotonic()
        deadline = float(self._config.deadline)
        faults: list[Fault] = []
        try:
            exchange = self._port()
            started = exchange.clock()
            if self._discovers(now) or not self._stands(exchange, started + _WALK_SHARE * deadline):
                faults += self._walk(exchange, now, started + _WALK_SHARE * deadline)
            assert self._sweep is not None
            values = self._sweep.run(started + _SWEEP_SHARE * deadline)
        except TransportError as error:
            self.close()
            raise HostError("umad", error.errno or 0, error.strerror or str(error)) from error
        taken = self._host.monotonic() - (exchange.clock() - values.taken)
        self._walk_again(values)
        faults += self._faults(values)
        return Reading(self._parts, _flat(values), taken, tuple(faults[:_MOST_FAULTS]), values.sent)

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.transport.close()
        self._exchange = None
        self._again = -math.inf
        self._former, self._sweep = self._sweep or self._former, None  # its requests were for the port that closed

    def _port(self) -> Exchange:
        if self._exchange is None:
            pace = Pace(self._config.window, float(self._config.timeout), self._config.tries)
            self._exchange = Exchange(
                self._host.fabric_port(self._config.device, self._config.port), pace, self._host.monotonic
            )
        return self._exchange

    def _stands(self, exchange: Exchange, until: float) -> bool:
        """Whether the subnet manager has not restarted since the walk."""
        return self._subnet is not None and same_manager(exchange, self._subnet, until)

    def _walk(self, exchange: Exchange, now: float, until: float) -> list[Fault]:
        """Discover nodes and cables, and lay out the sweep."""
        found = discover(exchange, until, self._subnet)
        if found.cut and self._subnet is not None and self._sweep is not None:
            return [Fault(NAME, "", "NodeInfo", "the walk exceeded its deadline; the previous one stays in use")]
        subnet = found if self._subnet is None else remember(self._subnet, found, now, float(self._config.keep))
        graph = graph_of(subnet)
        self._names = _names(subnet, graph)
        ports = sorted(
            (At(node.guid, port.number) for node, port in subnet.linked()),
            key=lambda at: (natural(self._names[at.node]), at.node, at.port),
        )
        self._sweep, self._former = Sweep(exchange, subnet, ports, self._sweep or self._former), None
        self._subnet, self._up = subnet, None
        self._settle(now)
        self._shape_is(self._layout(subnet, graph, ports))
        cut = Fault(NAME, "", "NodeInfo", "the walk exceeded its deadline; part of the fabric is missing")
        return [cut] if found.cut else []

    def _layout(self, subnet: Subnet, graph: Graph, ports: list[At]) -> tuple[Part, ...]:
        components: list[Component] = []
        described: set[int] = set()
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
            if at.node not in described:  # labels of the node are on its first port only
                described.add(at.node)
                labels |= {"description": node.description, "ports": str(node.size), "model": f"0x{node.device:04x}"}
                if node.system:
                    labels["system_guid"] = guid_text(node.system)
            components.append(Component(f"{self._names[at.node]}/{at.port}", labels))
        if not components:
            return ()
        rows, period = tuple(components), self._period
        return (
            Part(NAME, Kind.PORT, _SENT_COLUMNS, rows, period),
            Part(NAME, Kind.PORT, _KEPT_COLUMNS, rows, period, wire=False),
        )

    def _walk_again(self, values: Values) -> None:
        """Walk in the next run when a link came up (perhaps with another cable) or a node fell silent."""
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
            for (node, attribute, status), n in sorted(refused.items()):
                text = f"refused at {n} ports: {status_text(status)}"
                found.append(Fault(NAME, self._names.get(node, f"{node:#x}"), attribute, text))
        if values.cut:
            found.insert(0, Fault(NAME, "", "PerfMgt", "the deadline ended the sweep: some ports were not read"))
        return found


def _names(subnet: Subnet, graph: Graph) -> dict[int, str]:
    """Name of each node in row names: as in the topology; its GUID where two have the same name."""
    names = {guid: graph.name(guid_text(guid)) for guid in subnet.nodes}
    count = Counter(names.values())
    return {guid: name if count[name] == 1 else guid_text(guid) for guid, name in names.items()}


def _columns() -> tuple[list[tuple[str, int, float]], list[tuple[str, int, float]]]:
    """Columns sent to the server and columns that stay, each with its place in a sweep and its factor."""
    sent: list[tuple[str, int, float]] = []
    kept: list[tuple[str, int, float]] = []
    for at, name in enumerate(NAMES):
        own = name in ("state", "phys_state", "width", "rate")
        counter = None if own else counter_at("counters", name) or counter_at("mad", name)
        column, scale = (counter.name, counter.scale) if counter else (name, 1.0)
        stays = name in _NOT_SENT or (counter is not None and not counter.wire)
        (kept if stays else sent).append((column, at, scale))
    return sent, kept


_SENT, _KEPT = _columns()
_SENT_COLUMNS, _KEPT_COLUMNS = (tuple(column for column, _, _ in places) for places in (_SENT, _KEPT))


def _flat(values: Values) -> array[float]:
    """The parts' rectangles one after the other, in exported units."""
    flat: array[float] = array("d")
    for places in (_SENT, _KEPT):
        chosen = values.cells[:, [at for _, at, _ in places]]
        chosen *= [scale for _, _, scale in places]
        flat.frombytes(chosen.tobytes())
    return flat
