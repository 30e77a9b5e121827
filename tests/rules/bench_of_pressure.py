"""Ports whose counters rise at given rates, under the real engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fabricmon.engine import Engine
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Evidence, Identity, Incident, Inventory, Kind, Part, Presence
from fabricmon.rules.rule import Scope
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.infer import annotate

RATE = 50e9
STATE = ("state", "phys_state", "rate", "width", "sm_lid", "carrier")
PCIE = ("pcie_width", "pcie_max_width", "pcie_path_width", "pcie_speed", "pcie_max_speed", "pcie_path_speed")
UP = (4.0, 5.0, RATE, 4.0, 1.0, 1.0)
DOWN = (1.0, 2.0, math.nan, math.nan, 1.0, 0.0)
ETHERNET = (
    "phy_rx", "phy_tx", "pfc_rx_pause_prio3", "pfc_rx_pause_prio4", "pfc_tx_pause_prio3", "pfc_storm_warning",
    "ecn_marked_rx", "rdma_rx_packets", "cnp_handled", "out_of_buffer",
)  # fmt: skip
INFINIBAND = ("rcv", "xmit", "xmit_wait_ticks", "out_of_buffer")
FRAMES_ONLY = ("phy_rx", "phy_tx", "pfc_rx_frames_prio3", "pfc_tx_frames_prio3")
LAYERS = {"Ethernet": ETHERNET, "InfiniBand": INFINIBAND, "frames": FRAMES_ONLY, "RDMA only": ("rcv", "xmit")}
BYTES = ("phy_rx", "phy_tx", "rcv", "xmit")
FLOW = ("flow_packets", "flow_lost", "flow_late")
WORK = 0.4  # share of the line rate at which ports work unless told otherwise


def leaves(hosts: int, nics: int, below: Mapping[int, int]) -> Graph:
    """All adapters of a host are below one leaf; `below`: host -> its number."""
    numbers = sorted(set(below.values()))
    switches = {f"leaf-{leaf}": Switch(f"leaf-{leaf}", f"leaf-{leaf}", 0, ports=64) for leaf in numbers}
    names = [(host, nic, f"host-{host:03d}/mlx5_{nic}") for host in range(hosts) for nic in range(nics)]
    adapters = {id: Adapter(id, f"host-{host:03d}", f"mlx5_{nic}") for host, nic, id in names}
    cables = [
        cable(End(id, 1), End(f"leaf-{below[host]}", host * nics + nic + 1), RATE, 4) for host, nic, id in names
    ]
    return annotate(Graph(switches, adapters, tuple(cables), {}, "test"))


class Pressed:
    """`rates[host, nic]` is by how much a second each column of that port rises; `lanes` how many of 16 PCIe lanes the
    adapter has, `speed` which share of its possible speed, `down` the ports without a link. There is no graph: a rail
    is the ports of one number of all hosts. `sent[host, nic]` is by how much a second the packets of its connection to
    the next host rise, `lost` those that are lost; where some are given. They may be those of `probes`. `below`: with a
    graph, in which all ports of a host are below the leaf of this number."""

    def __init__(
        self, hosts: int = 8, nics: int = 4, layer: str = "Ethernet", poll: float = 10.0,
        params: Mapping[str, Any] | None = None, roles: Mapping[int, str] | None = None,
        sent: Mapping[tuple[int, int], float] | None = None, probes: bool = False,
        below: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        graph = leaves(hosts, nics, below) if below else None
        self.engine = Engine(Scope.FLEET, graph, dict(params or {}), "test")
        self.fleet, self.rule_states = self.engine.fleet, self.engine.rule_states
        self.told: list[Incident] = []
        self.now, self.taken, self.period = 1_700_000_000.0, 500.0, poll
        self.hosts, self.nics, self.columns = hosts, nics, LAYERS[layer]
        at = [(host, nic) for host in range(hosts) for nic in range(nics)]
        self.rates = {port: {c: WORK * RATE for c in BYTES if c in self.columns} for port in at}
        self.lanes = dict.fromkeys(at, 16.0)
        self.speed = dict.fromkeys(at, 1.0)
        self.down: set[tuple[int, int]] = set()
        self.sent, self.lost = dict(sent or {}), dict.fromkeys(sent or {}, 0.0)
        self.late: dict[int, float] = {}  # hosts whose counters are not read any more: when they were last
        self.unread: dict[int, float] = {}  # hosts whose connections are not read: when they were last
        self.packets = {port: np.zeros(3 if probes else 2) for port in self.sent}
        self.count = {port: dict.fromkeys(self.columns, 0.0) for port in at}
        link_layer = "InfiniBand" if layer == "InfiniBand" else "Ethernet"
        for host in range(hosts):
            components = tuple(
                Component(
                    f"mlx5_{nic}/1",
                    {"device": f"mlx5_{nic}", "port": "1", "link_layer": link_layer,
                     "role": (roles or {}).get(nic, "compute")},
                )
                for nic in range(nics)
            )  # fmt: skip
            identity = Identity(f"host-{host:03d}", "boot", "agent", "1", 1.0)
            parts = (
                Part("infiniband_state", Kind.PORT, STATE, components, poll),
                Part("roce", Kind.PORT, self.columns, components, poll),
                Part(
                    "pcie",
                    Kind.PCIE,
                    PCIE,
                    tuple(
                        Component(f"0000:{16 + nic:x}:00.0", {"class": "nic", "owner": f"mlx5_{nic}"})
                        for nic in range(nics)
                    ),
                    poll,
                ),
            )
            flows = tuple(
                Component(f"f{nic}", {"port": f"mlx5_{nic}/1", "peer": f"host-{(host + 1) % hosts:03d}/mlx5_{nic}/1"})
                for nic in range(nics) if (host, nic) in self.sent
            )  # fmt: skip
            if flows:
                parts += (Part("flow", Kind.FLOW, FLOW[: 3 if probes else 2], flows, poll),)
            self.engine.inventory(f"host-{host:03d}", Inventory(1, identity, parts), self.now)
            self.engine.presence(f"host-{host:03d}", Presence.LIVE, "", self.now)
        self.polls(13)  # past the time after a start in which links settle

    def rate(self, ports: Any, **rates: float) -> None:
        for port in ports:
            self.rates[port] |= rates

    def work(self, ports: Any, share: float) -> None:
        self.rate(ports, **{column: share * RATE for column in BYTES if column in self.columns})

    def poll(self, seconds: float | None = None) -> None:
        seconds = self.period if seconds is None else seconds
        self.now += seconds
        self.taken += seconds
        for host in range(self.hosts):
            values = [x for nic in range(self.nics) for x in (DOWN if (host, nic) in self.down else UP)]
            for nic in range(self.nics):
                count = self.count[host, nic]
                for column, rise in self.rates[host, nic].items():
                    count[column] += rise * seconds
                    if column == "xmit_wait_ticks":
                        count[column] = min(count[column], 2.0**32 - 1)  # it stops at its top
                values += [count[column] for column in self.columns]
            for nic in range(self.nics):
                values += [self.lanes[host, nic], 16.0, self.lanes[host, nic] / 16.0]
                values += [32e9 * self.speed[host, nic], 32e9, self.speed[host, nic]]
            mine = [port for port in self.sent if port[0] == host]
            for port in mine:
                more = np.array([self.sent[port], self.lost[port], 0.0])
                self.packets[port] += seconds * more[: len(self.packets[port])]
                values += self.packets[port].tolist()
            taken = np.full(4 if mine else 3, self.taken)
            taken[1] = self.late.get(host, self.taken)
            taken[3:] = self.unread.get(host, self.taken)
            frame = Frame(1, 1, self.now, taken, None, np.array(values))
            assert self.engine.frame(f"host-{host:03d}", frame, self.now)
        self.told += self.engine.tick(self.now).incidents
        assert not self.rule_states.failures.counts, self.rule_states.failures.last

    def polls(self, count: int) -> None:
        for _ in range(count):
            self.poll()

    def until(self, rule: str, most: int) -> int | None:
        """Polls until the rule opens a symptom, None when it does not within `most`."""
        for number in range(1, most + 1):
            self.poll()
            if self.rule_states.by_rule[rule].open:
                return number
        return None

    def view(self) -> View:
        return View(self.fleet.tables[Kind.PORT], self.now)

    def row(self, host: int, nic: int) -> int:
        row = self.fleet.tables[Kind.PORT].row(ComponentId(Kind.PORT, f"host-{host:03d}", f"mlx5_{nic}/1"))
        assert row is not None
        return row

    def open(self, rule: str) -> set[tuple[int, int]]:
        rows = self.rule_states.by_rule[rule].open
        return {port for port in self.rates if self.row(*port) in rows}

    def known(self, rule: str, host: int, nic: int) -> bool:
        return bool(self.rule_states.by_rule[rule].known[self.row(host, nic)])

    def evidence(self, rule: str, host: int, nic: int) -> tuple[Evidence, ...]:
        return self.rule_states.by_rule[rule].open[self.row(host, nic)].symptom.evidence

    def firing(self, least: str = "info") -> list[tuple[str, str, str]]:
        ranks = ("info", "warning", "critical")
        return sorted(
            (i.kind, i.component, str(i.severity))
            for i in self.engine.incidents()
            if i.status == "firing" and i.severity.rank >= ranks.index(least)
        )

    def incident(self, component: str) -> Incident:
        (found,) = [i for i in self.engine.incidents() if i.status == "firing" and i.component == component]
        return found


PRESSURE = ("congestion", "incast", "pfc_storm", "slow_receiver")


def quiet(ports: Pressed) -> bool:
    return not any(ports.open(rule) for rule in PRESSURE)
