"""Bonds and their legs: down, standby, or left out by LACP.

The state of an RDMA port on a bond and the bond's carrier follow the bond: a leg that is down shows only here. Files of
the bonding driver below /sys/class/net; the kernel answers from memory.
"""

from __future__ import annotations

import math
from array import array

from fabricmon.collect.collector import CollectorConfig, Session
from fabricmon.collect.machine.files import number, text
from fabricmon.collect.machine.interfaces import NET, rdma_ports
from fabricmon.collect.machine.rdma_device import row_name
from fabricmon.collect.machine.rows import known
from fabricmon.host.protocol import Host
from fabricmon.model import Component, Kind, Part, Reading
from fabricmon.units import Duration

NAME = "bond"
_LEG = ("bond_leg_up", "bond_leg_active", "bond_leg_failures", "bond_leg_aggregated")
_BOND = ("bond_legs", "bond_legs_up")
_MOST_BONDS, _MOST_LEGS = 64, 16


class BondConfig(CollectorConfig, frozen=True):
    """collect.bond. `rediscover`: between two searches for the RDMA port of each interface."""

    interval: Duration = Duration(5)
    deadline: Duration = Duration(3)


class BondSession(Session[BondConfig]):
    """All bonds of the machine."""

    def __init__(self, host: Host, config: BondConfig) -> None:
        super().__init__(host, config)
        self._ports: dict[str, tuple[str, int]] = {}

    def read(self) -> Reading:
        now = self._host.monotonic()
        bonds = text(self._host, f"{NET}/bonding_masters").split()[:_MOST_BONDS]
        if not bonds:
            return Reading((), array("d"), now)
        if self._discovers(now):
            self._ports = rdma_ports(self._host)
            self._settle(now)
        whole: list[tuple[Component, list[float]]] = []
        legs: list[tuple[Component, list[float]]] = []
        for bond in bonds:
            names = text(self._host, f"{NET}/{bond}/bonding/slaves").split()[:_MOST_LEGS]
            in_use = text(self._host, f"{NET}/{bond}/bonding/ad_aggregator")
            mine = [(self._component(name, {"bond": bond}), self._leg(name, in_use)) for name in names]
            states = [values[0] for _, values in mine]
            legs += mine
            up = math.nan if any(map(math.isnan, states)) else sum(states)
            whole.append((self._component(bond, {}), [float(len(names)), up]))
        self._shape_is(tuple(
            Part(NAME, Kind.PORT, columns, tuple(component for component, _ in rows), self._period)
            for columns, rows in ((_LEG, legs), (_BOND, whole))
            if rows
        ))  # fmt: skip
        values = array("d", [value for _, row in (*legs, *whole) for value in row])
        return Reading(self._parts, values, (now + self._host.monotonic()) / 2)

    def _component(self, name: str, labels: dict[str, str]) -> Component:
        port = self._ports.get(name)
        if not port:
            return Component(name, {"netdev": name} | labels)
        return Component(row_name(*port), {"netdev": name, "device": port[0], "port": str(port[1])} | labels)

    def _leg(self, name: str, in_use: str) -> list[float]:
        at = f"{NET}/{name}/bonding_slave"
        aggregate = text(self._host, f"{at}/ad_aggregator_id")
        return [
            _is(text(self._host, f"{at}/mii_status"), "up"),
            _is(text(self._host, f"{at}/state"), "active"),
            known(number(self._host, f"{at}/link_failure_count")),
            # no aggregator: the bond does not use LACP
            _is(aggregate, in_use) if in_use.isdecimal() and aggregate.isdecimal() else math.nan,
        ]


def _is(word: str, wanted: str) -> float:
    return float(word == wanted) if word else math.nan
