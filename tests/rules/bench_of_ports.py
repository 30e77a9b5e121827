"""A rail of simulated ports under the real fleet, rules and judges: what each rule says over time.

Values are what a node's counters would show; the judges are the engine's own, so hold and clear are real, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fabricmon.engine.symptoms.rule_states import RuleStates
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View, Views
from fabricmon.frame import Frame
from fabricmon.model import Component, ComponentId, Identity, Inventory, Kind, Part, Symptom, SymptomChange
from fabricmon.rules import RULES
from fabricmon.topology.domains import assign

POLL = 10.0
NDR = 400e9 / 8
STATE = ("state", "phys_state", "rate", "width", "sm_lid")
COUNTS = ("symbol_errors", "link_error_recoveries", "link_downed", "rcv_errors", "local_link_integrity_errors",
          "excessive_buffer_overrun_errors", "unrecoverable_error", "xmit", "rcv")  # fmt: skip
NETDEV = ("carrier", "operstate", "admin_up", "carrier_down_changes", "carrier_up_changes", "netdev_rate")
ACTIVE = {"state": 4.0, "phys_state": 5.0, "rate": NDR, "width": 4.0, "sm_lid": 1.0}
DOWN = {"state": 1.0, "phys_state": 2.0, "rate": math.nan, "width": math.nan}
ETHERNET_UP = {"carrier": 1.0, "operstate": 6.0, "admin_up": 1.0, "netdev_rate": NDR}


class Ports:
    """`hosts` x `nics` ports. `port[host, nic]` is a dict of what its columns show; change it and `poll()`."""

    def __init__(
        self,
        hosts: int = 1,
        nics: int = 8,
        layer: str = "InfiniBand",
        params: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        own: Mapping[tuple[int, int], Mapping[str, str]] | None = None,
        start: float = 1_700_000_000.0,
        counts: tuple[str, ...] = COUNTS,
    ) -> None:
        self.counts = counts
        self.fleet = Fleet()
        self.now = start
        self.taken = 5000.0
        self.layer = layer
        self.rule_states = RuleStates(RULES, params or {})
        self.changes: list[SymptomChange] = []
        self.boot = dict.fromkeys(range(hosts), "boot-1")
        self.nics = {host: list(range(nics)) for host in range(hosts)}
        self.port: dict[tuple[int, int], dict[str, float]] = {}
        self.inventories: dict[int, Inventory] = {}
        self.started = dict.fromkeys(range(hosts), 1.0)
        self.silent: set[int] = set()
        self.labels = {"role": "compute"} if labels is None else dict(labels)
        self.own = {at: dict(extra) for at, extra in (own or {}).items()}
        for host in range(hosts):
            for nic in range(nics):
                healthy = dict.fromkeys(counts, 0.0) | ACTIVE
                if layer == "Ethernet":
                    healthy |= dict.fromkeys(NETDEV, 0.0) | ETHERNET_UP
                self.port[host, nic] = healthy
            self.enter(host)

    # --- what happens

    def enter(self, host: int) -> None:
        """The host's inventory as it is now."""
        components = tuple(
            Component(
                f"mlx5_{nic}/1",
                {"device": f"mlx5_{nic}", "port": "1", "link_layer": self.layer, "node_guid": f"{host}:{nic}"}
                | self.labels
                | self.own.get((host, nic), {}),
            )
            for nic in self.nics[host]
        )
        columns: list[tuple[str, tuple[str, ...]]] = [("infiniband", (*self.counts, *STATE))]
        if self.layer == "Ethernet":
            columns.append(("ethernet", NETDEV))
        parts = tuple(Part(name, Kind.PORT, names, components, POLL) for name, names in columns)
        before = self.inventories.get(host)
        identity = Identity(self.node(host), self.boot[host], f"agent-{host}", "1", self.started[host])
        self.inventories[host] = Inventory(before.id + 1 if before else 1, identity, parts)
        self.fleet.inventory(self.node(host), self.inventories[host], self.now)
        table = self.fleet.tables[Kind.PORT]
        table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {})

    def poll(self, seconds: float = POLL, ticks: bool = True, traffic: float = 1e9) -> list[SymptomChange]:
        """`seconds` later all hosts that are not silent send a frame, and the rules are judged."""
        self.now += seconds
        self.taken += seconds
        for host, inventory in self.inventories.items():
            if host in self.silent:
                continue
            values = []
            for nic in self.nics[host]:
                self.port[host, nic]["xmit"] += traffic * seconds
                self.port[host, nic]["rcv"] += traffic * seconds
            for part in inventory.parts:
                for nic in self.nics[host]:
                    values += [self.port[host, nic][column] for column in part.columns]
            taken = np.full(len(inventory.parts), self.taken)
            frame = Frame(inventory.id, 1, self.now, taken, None, np.array(values))
            assert self.fleet.frame(self.node(host), frame, self.now)
        return self.judge() if ticks else []

    def judge(self, seconds: float = 0.0) -> list[SymptomChange]:
        """One tick without a frame."""
        self.now += seconds
        self.fleet.advance(self.now)
        told, _ = self.rule_states.run(Views(self.fleet.tables, self.now))
        assert not self.rule_states.failures.counts, self.rule_states.failures.last
        self.changes += told
        return told

    def polls(self, count: int, **more: Any) -> list[SymptomChange]:
        return [change for _ in range(count) for change in self.poll(**more)]

    def reboot(self, host: int) -> None:
        self.boot[host] += "'"
        self.started[host] += 1
        for nic in self.nics[host]:
            self.port[host, nic] |= dict.fromkeys(self.counts, 0.0)
        self.enter(host)

    def down(self, host: int, nic: int) -> None:
        self.port[host, nic] |= DOWN
        self.port[host, nic]["link_downed"] += 1

    def up(self, host: int, nic: int) -> None:
        self.port[host, nic] |= ACTIVE

    def flap(self, host: int, nic: int) -> None:
        """Down and up again within one poll: only the counters tell."""
        self.port[host, nic]["link_downed"] += 1

    # --- what is asked

    @staticmethod
    def node(host: int) -> str:
        return f"host-{host:03d}"

    def view(self) -> View:
        return View(self.fleet.tables[Kind.PORT], self.now)

    def row(self, host: int, nic: int) -> int:
        row = self.fleet.tables[Kind.PORT].row(ComponentId(Kind.PORT, self.node(host), f"mlx5_{nic}/1"))
        assert row is not None
        return row

    def open(self, rule: str) -> list[Symptom]:
        return [held.symptom for held in self.rule_states.by_rule[rule].open.values()]

    def told(self) -> set[str]:
        """Rules that opened anything so far."""
        return {change.symptom.rule for change in self.changes if change.opened}

    def known(self, rule: str, host: int, nic: int) -> bool:
        return bool(self.rule_states.by_rule[rule].known[self.row(host, nic)])
