"""A fleet whose agents probe by the plan, with losses and delays drawn per flow, through the engine of the server."""

from __future__ import annotations

from array import array

import numpy as np

from fabricmon import frame
from fabricmon.central.probing.ends import ends
from fabricmon.engine.engine import Engine
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Presence, Snapshot
from fabricmon.probe.plan import plan
from fabricmon.rules import Scope
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable

FLOW = ("flow_packets", "flow_lost", "flow_late", "flow_rtt", "flow_rtt_p99", "flow_rtt_max", "flow_own_delay",
        "flow_peer_delay")  # fmt: skip
PER_WINDOW = 12
"""Probes of a flow in a window: 10 a second for 8 flows."""


def graph(leaves: int, hosts: int) -> Graph:
    """Leaves with hosts below one spine."""
    switches = {f"leaf-{n}": Switch(f"leaf-{n}", f"leaf-{n}", 0) for n in range(leaves)}
    switches["spine-0"] = Switch("spine-0", "spine-0", 1)
    adapters, cables = {}, []
    for number in range(leaves * hosts):
        id = f"n{number}/mlx5_0"
        adapters[id] = Adapter(id, f"n{number}", "mlx5_0")
        cables.append(cable(End(id, 1), End(f"leaf-{number // hosts}", number % hosts + 1)))
    for leaf in range(leaves):
        cables += [cable(End(f"leaf-{leaf}", 60 + n), End("spine-0", 4 * leaf + n)) for n in range(4)]
    return Graph(switches, adapters, tuple(cables))


class ProbedFleet:
    """Agents that send a frame every 10 s. loss(source node, target node, udp) -> share; rtt likewise, seconds.

    gone    agents without frames; void: those whose windows are void
    """

    def __init__(self, leaves: int = 2, hosts: int = 12) -> None:
        self.engine = Engine(Scope.FLEET, graph(leaves, hosts))
        self.nodes = [f"n{number}" for number in range(leaves * hosts)]
        self.now, self._draw = 1000.0, np.random.default_rng(1)
        self.loss = lambda source, target, udp: 0.0
        self.rtt = lambda source, target, udp: 20e-6
        self.gone: set[str] = set()
        self.void: set[str] = set()
        self._flows: dict[str, list] = {node: [] for node in self.nodes}
        self._voids: dict[str, float] = {}
        self._counts: dict[tuple[str, str], list[float]] = {}
        self._inventories: dict[str, Inventory] = {}
        self._id = 0
        self._list()
        self.step()
        made = plan(ends(self.engine.fleet.tables[Kind.PORT], {}))
        for flow in made.flows:
            source, target = made.ports[flow.source], made.ports[flow.target]
            self._flows[source.node].append((f"mlx5_0/1>{target.full_name}:{flow.udp}", target, flow.udp))
        self._list()
        for _ in range(3):
            self.step()

    def _list(self) -> None:
        self._id += 1
        for number, node in enumerate(self.nodes):
            labels = {"device": "mlx5_0", "port": "1", "role": "compute", "link_layer": "Ethernet"}
            address = {"probe_address": f"10.0.{number // 250}.{number % 250 + 1}:9795"}
            rows = tuple(
                Component(name, {"port": "mlx5_0/1", "peer": target.full_name, "source_port": str(udp)})
                for name, target, udp in self._flows[node]
            )
            parts = [
                Part("infiniband_state", Kind.PORT, ("state", "phys_state"), (Component("mlx5_0/1", labels),), 1.0),
                Part("flow", Kind.PORT, ("probe_packets", "probe_void_windows"),
                     (Component("mlx5_0/1", address),), 10.0),
            ]
            parts += [Part("flow", Kind.FLOW, FLOW, rows, 10.0)] if rows else []
            inventory = Inventory(self._id, Identity(node, "boot", f"agent-{node}", "1", 0.0), tuple(parts))
            self._inventories[node] = inventory
            self.engine.inventory(node, inventory, self.now)
            self.engine.presence(node, Presence.LIVE, "", self.now)

    def step(self, windows: int = 1) -> list:
        """So many windows; the firing incidents then."""
        for _ in range(windows):
            for node in self.nodes:
                if node not in self.gone:
                    self._say(node)
            for _ in range(10):
                self.now += 1.0
                self.engine.tick(self.now)
                assert not self.engine.failures(), self.engine.failures()
        return [incident for incident in self.engine.incidents() if incident.status == "firing"]

    def _say(self, node: str) -> None:
        self._voids[node] = self._voids.get(node, 0.0) + (node in self.void)
        values = [4.0, 5.0, 0.0, self._voids[node]]
        for name, target, udp in self._flows[node]:
            counts = self._counts.setdefault((node, name), [0.0, 0.0])
            rtt = np.nan
            if node not in self.void:
                share = 1.0 if target.node in self.gone else self.loss(node, target.node, udp)
                counts[0] += PER_WINDOW
                counts[1] += self._draw.binomial(PER_WINDOW, share)
                rtt = self.rtt(node, target.node, udp) if share < 1 else np.nan
            values += [*counts, 0.0, rtt, rtt, rtt, 1e-4, 1e-4]
        inventory = self._inventories[node]
        snapshot = Snapshot(inventory, 1, self.now, [self.now] * len(inventory.parts), array("d", values))
        self.engine.frame(node, frame.decode(frame.encode_full(snapshot)), self.now)


def words(incidents: list) -> list[tuple[str, str]]:
    return sorted((incident.kind, incident.component) for incident in incidents)
